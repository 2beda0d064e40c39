//! Texts of the list with their `${…}` filled in: variables, and a few functions.
//!
//! | form | becomes |
//! |---|---|
//! | `${name}` | the variable, itself filled in; what an endpoint sent, as it came |
//! | `${rep TEXT N}` | the text, N times |
//! | `${each A B TEXT}` | the text for each number from A to B, `$#` being the number and `$0#` four digits of it |
//! | `${q TEXT}` | percent-encoded, but for letters, digits and `-._~` |
//! | `${json TEXT}` | as the inside of a JSON string |
//! | `${b64 TEXT}` | base64 of its UTF-8 |
//! | `${token TEXT}` | a continuation token for this key |
//! | `${date OFFSET}`, `${iso OFFSET}`, `${iso7 OFFSET}` | the time, `+90s`, `-16m`, `+1h` or `-2d` from now |
//! | `${etag-of TIME}` | the ETag that belongs to a Timestamp |
//! | `${upper TEXT}`, `${lower TEXT}` | in that case |
//! | `${len TEXT}` | its length in bytes |
//! | `${u HEX}` | the character of this code point |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// As it stands.
    Text(&'a str),
    /// What stands between `${` and its `}`.
    Hole(&'a str),
}

/// The values of variables.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    variables: Vec<Variable>,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    value: String,
    /// Whether the value is a text of the list, whose holes are filled.
    is_ours: bool,
}

/// Variables within variables end here.
const DEPTH_MAX: u32 = 8;

impl Scope {
    /// Sets a variable to a text of the list; the latest value counts.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.add(name, value.into(), true);
    }

    /// Sets a variable to what an endpoint sent: it has no holes, whatever it looks like.
    pub fn keep(&mut self, name: &str, value: impl Into<String>) {
        self.add(name, value.into(), false);
    }

    fn add(&mut self, name: &str, value: String, is_ours: bool) {
        self.variables.push(Variable { name: name.to_owned(), value, is_ours });
    }

    fn get(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    /// The text with every hole filled.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        self.filled(text, 0)
    }

    fn filled(&self, text: &str, depth: u32) -> Result<String, String> {
        if depth > DEPTH_MAX {
            return Err(format!("{text} never ends"));
        }
        let mut out = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Hole(hole) => out.push_str(&self.hole(hole, depth)?),
            }
        }
        Ok(out)
    }

    fn hole(&self, hole: &str, depth: u32) -> Result<String, String> {
        if let Some(Variable { value, is_ours, .. }) = self.get(hole) {
            return if *is_ours { self.filled(value, depth + 1) } else { Ok(value.clone()) };
        }
        let (name, rest) = hole.split_once([' ', '\n']).unwrap_or((hole, ""));
        let text = self.filled(rest, depth + 1)?;
        call(name, &text).unwrap_or_else(|| Err(format!("${{{hole}}} is not known")))
    }
}

fn call(name: &str, text: &str) -> Option<Result<String, String>> {
    Some(Ok(match name {
        "rep" => {
            let (text, count) = text.rsplit_once(' ')?;
            text.repeat(count.parse().ok()?)
        }
        "each" => {
            let mut parts = text.splitn(3, [' ', '\n']);
            let (from, to): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let text = parts.next()?;
            let one =
                |n: u32| text.replace("$0#", &format!("{n:04}")).replace("$#", &n.to_string());
            (from..=to).map(one).collect()
        }
        "q" => percent(text),
        "json" => {
            let quoted = serde_json::Value::from(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
        "b64" => STANDARD.encode(text),
        "token" => {
            let text = STANDARD.encode(text).replace('=', "-");
            format!("1!{}!{text}", text.len())
        }
        "date" => return Some(moment(text, "%a, %d %b %Y %H:%M:%S GMT")),
        "iso" => return Some(moment(text, "%Y-%m-%dT%H:%M:%SZ")),
        "iso7" => return Some(moment(text, "%Y-%m-%dT%H:%M:%S.0000000Z")),
        "etag-of" => format!("W/\"datetime'{}'\"", text.replace(':', "%3A")),
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "len" => text.len().to_string(),
        "u" => char::from_u32(u32::from_str_radix(text, 16).ok()?)?.to_string(),
        _ => return None,
    }))
}

/// Letters, digits and `-._~` as they are, all else percent-encoded.
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing into a String cannot fail.
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The time at an offset such as `+16m`, as the format says.
pub(crate) fn moment(offset: &str, format: &str) -> Result<String, String> {
    let seconds = seconds(offset).ok_or_else(|| format!("{offset} is no offset"))?;
    let now = jiff::Timestamp::now().as_second();
    let moment = jiff::Timestamp::from_second(now + seconds).map_err(|error| error.to_string())?;
    Ok(moment.strftime(format).to_string())
}

fn seconds(offset: &str) -> Option<i64> {
    if offset.is_empty() {
        return Some(0);
    }
    let (number, unit) = offset.split_at_checked(offset.len() - 1)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

/// A text cut at its holes; braces inside a hole are balanced.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let inside = &rest[start + 2..];
        let mut depth = 1;
        let end = inside.char_indices().find_map(|(at, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(at)
        });
        let Some(end) = end else { break };
        if start > 0 {
            out.push(Piece::Text(&rest[..start]));
        }
        out.push(Piece::Hole(&inside[..end]));
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() {
        out.push(Piece::Text(rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn holes_are_filled_from_inside_out() {
        let mut scope = Scope::default();
        scope.set("a", "x y");
        scope.set("b", "${a}!");
        for (text, expected) in [
            ("$filter=${q ${b}}", "$filter=x%20y%21"),
            ("${rep ab 3}${each 2 3 ,\"P$#\":{}}", "ababab,\"P2\":{},\"P3\":{}"),
            ("${token Smith}", "1!8!U21pdGg-"),
            ("${token }", "1!0!"),
            (
                "${etag-of 2017-11-10T02:44:47.6221962Z}",
                "W/\"datetime'2017-11-10T02%3A44%3A47.6221962Z'\"",
            ),
            ("${json a\"b}", "a\\\"b"),
        ] {
            assert_eq!(scope.fill(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_was_sent_has_no_holes() {
        let mut scope = Scope::default();
        scope.keep("sent", "${rep x 3}");
        scope.set("a", "${sent}!");
        for (text, expected) in [
            ("${sent}", "${rep x 3}"),
            ("${a}", "${rep x 3}!"),
            ("${rep ${sent} 2}", "${rep x 3}${rep x 3}"),
            ("${q ${sent}}", "%24%7Brep%20x%203%7D"),
        ] {
            assert_eq!(scope.fill(text).as_deref(), Ok(expected));
        }
        scope.set("sent", "${rep x 3}");
        assert_eq!(scope.fill("${sent}").as_deref(), Ok("xxx"), "the latest value counts");
    }

    #[test]
    fn what_is_not_known_is_told() {
        let mut scope = Scope::default();
        scope.set("loop", "${loop}");
        for text in ["${x}", "${loop}", "${date 5}", "${rep x y}"] {
            assert!(scope.fill(text).is_err(), "{text}");
        }
    }
}
