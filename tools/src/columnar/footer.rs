//! The end of a Parquet file, which describes it, looked at before the library reads it.
//!
//! It is a struct of Thrift's compact protocol; its second member lists the columns and groups of
//! columns, each with the number of its children. The library makes room for as many children as
//! are stated, and reads groups within groups by recursion: so there may be no more children than
//! members of the list, and no deeper groups than anybody makes.

/// Groups of columns within one another.
const DEPTH_MAX: usize = 64;

/// Structs and lists within one another, in anything that is passed over.
const NESTED_MAX: usize = 32;

/// Whether the stated numbers can be; otherwise what is wrong.
pub(crate) fn check(footer: &[u8]) -> Result<(), String> {
    let mut rest = Bytes(footer);
    let mut id = 0;
    while let Some((next, kind)) = rest.field(id)? {
        id = next;
        if (id, kind) == (2, LIST) {
            return rest.schema();
        }
        rest.skip(kind, 0)?;
    }
    Ok(())
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// What has not been looked at.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let (first, rest) = self.0.split_first().ok_or("its footer is cut short")?;
        self.0 = rest;
        Ok(*first)
    }

    fn pass(&mut self, bytes: u64) -> Result<(), String> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.0 = self.0.get(bytes..).ok_or("its footer is cut short")?;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of its footer does not end".to_owned())
    }

    fn signed(&mut self) -> Result<i64, String> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and kind of the next member; none at the end of the struct.
    fn field(&mut self, last: i64) -> Result<Option<(i64, u8)>, String> {
        let head = self.byte()?;
        let (step, kind) = (head >> 4, head & 0x0f);
        if kind == 0 {
            return Ok(None);
        }
        let id = if step == 0 { self.signed()? } else { last.saturating_add(step.into()) };
        Ok(Some((id, kind)))
    }

    /// Length and kind of a list.
    fn list(&mut self) -> Result<(u64, u8), String> {
        let head = self.byte()?;
        let short = u64::from(head >> 4);
        let length = if short == 15 { self.number()? } else { short };
        // A member has a byte at least.
        if length > self.0.len() as u64 {
            return Err(format!("a list of its footer is said to have {length} members"));
        }
        Ok((length, head & 0x0f))
    }

    fn skip(&mut self, kind: u8, nested: usize) -> Result<(), String> {
        if nested > NESTED_MAX {
            return Err("its footer has structs within structs without end".to_owned());
        }
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.pass(1),
            DOUBLE => self.pass(8),
            BINARY => {
                let bytes = self.number()?;
                self.pass(bytes)
            }
            LIST | SET => {
                let (length, kind) = self.list()?;
                (0..length).try_for_each(|_| self.skip_member(kind, nested))
            }
            MAP => {
                let length = self.number()?;
                let kinds = if length == 0 { 0 } else { self.byte()? };
                (0..length).try_for_each(|_| {
                    self.skip_member(kinds >> 4, nested)?;
                    self.skip_member(kinds & 0x0f, nested)
                })
            }
            STRUCT => {
                let mut id = 0;
                while let Some((next, kind)) = self.field(id)? {
                    id = next;
                    self.skip(kind, nested + 1)?;
                }
                Ok(())
            }
            4..=6 => self.number().map(drop),
            other => Err(format!("its footer has a member of kind {other}")),
        }
    }

    /// In lists a truth is a byte, not a kind.
    fn skip_member(&mut self, kind: u8, nested: usize) -> Result<(), String> {
        if matches!(kind, TRUE | FALSE) { self.pass(1) } else { self.skip(kind, nested + 1) }
    }

    /// The list of columns and groups.
    fn schema(&mut self) -> Result<(), String> {
        let (length, kind) = self.list()?;
        if kind != STRUCT {
            return Err("its footer lists no columns".to_owned());
        }
        // Children that are still to come, of each group that is open.
        let mut open: Vec<u64> = Vec::new();
        for _ in 0..length {
            let children = self.children()?;
            if children > length {
                return Err(format!("a group of columns is said to have {children} of them"));
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push(children);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if open.len() > DEPTH_MAX {
                return Err("groups of columns within groups without end".to_owned());
            }
        }
        Ok(())
    }

    /// Passes over one column or group; gives the number of its children.
    fn children(&mut self) -> Result<u64, String> {
        let (mut id, mut children) = (0, 0);
        while let Some((next, kind)) = self.field(id)? {
            id = next;
            if (id, kind) == (5, 5) {
                let said = self.signed()?;
                children = u64::try_from(said)
                    .map_err(|_| format!("a group of columns is said to have {said} of them"))?;
            } else {
                self.skip(kind, 0)?;
            }
        }
        Ok(children)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A version, and a schema of elements that have so many children.
    fn footer(children: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0x15, 4, 0x19, 0xfc, children.len() as u8];
        for count in children {
            // A name, and behind it the fifth member.
            bytes.extend([0x48, 1, b'x', 0x15]);
            let mut rest = count << 1;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.extend([rest as u8, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn children_are_members_of_the_list() {
        assert_eq!(check(&footer(&[2, 0, 0])), Ok(()));
        assert_eq!(check(&footer(&[2, 1, 0, 0])), Ok(()));
        let many = check(&footer(&[0x7fff_ffff, 0])).unwrap_err();
        assert!(many.contains("said to have 2147483647"), "{many}");
    }

    #[test]
    fn groups_are_not_deep() {
        let mut chain = vec![1; 100];
        assert!(check(&footer(&chain)).unwrap_err().contains("without end"));
        chain.truncate(60);
        chain.push(0);
        assert_eq!(check(&footer(&chain)), Ok(()));
    }

    #[test]
    fn any_bytes_are_judged() {
        for seed in 0..20_000_u64 {
            let mut rng = tabulith_testkit::seed::Rng::new(seed);
            let length = rng.below(40);
            let _ = check(&rng.bytes(length));
        }
        let whole = footer(&[3, 0, 0, 0]);
        for end in 0..whole.len() - 1 {
            assert!(check(&whole[..end]).is_err(), "{end}");
        }
    }
}
