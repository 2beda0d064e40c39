//! What writers commit while a process is killed, and what must be there of it afterwards.
//!
//! Each writer has a partition of its own and numbers its commits. The content of a row follows
//! from the commit and its place, so whoever knows the commits knows every row.

use std::collections::BTreeMap;

/// One commit of a writer: `rows` rows of its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// Which writer.
    pub writer: usize,
    /// Its number, from 0.
    pub number: u64,
    /// Its rows.
    pub rows: usize,
}

impl Commit {
    /// The key of the writer's partition.
    pub fn partition_key(&self) -> String {
        format!("c{}", self.writer)
    }

    /// The key of one of its rows.
    pub fn row_key(&self, row: usize) -> String {
        format!("{:08}-{row:03}", self.number)
    }

    /// Content that no other row has, of a length that varies.
    pub fn text(&self, row: usize) -> String {
        format!("{}/{}/{row} ", self.writer, self.number).repeat(1 + (self.number as usize % 40))
    }
}

/// The writer that a partition belongs to.
pub fn writer_of(partition_key: &str) -> Option<usize> {
    partition_key.strip_prefix('c')?.parse().ok()
}

/// What was found: rows by writer and RowKey, each with the number of rows that its commit had, and
/// its text.
#[derive(Clone, Debug, Default)]
pub struct Found {
    rows: BTreeMap<(usize, String), (usize, String)>,
    wrong: Vec<String>,
}

impl Found {
    /// Adds a row.
    pub fn add(&mut self, writer: usize, row_key: String, rows: usize, text: String) {
        let named = format!("row {row_key} of writer {writer} came twice");
        if self.rows.insert((writer, row_key), (rows, text)).is_some() {
            self.wrong.push(named);
        }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Holds the rows against what was acknowledged and what was under way: every acknowledged
    /// commit is whole, every other one whole or absent, and nothing else is there.
    pub fn verify<'a>(
        mut self,
        acknowledged: impl IntoIterator<Item = &'a Commit>,
        unknown: impl IntoIterator<Item = &'a Commit>,
    ) -> Verdict {
        let mut there = Vec::new();
        let acknowledged = acknowledged.into_iter().map(|commit| (commit, true));
        for (commit, is_acknowledged) in acknowledged.chain(unknown.into_iter().map(|c| (c, false)))
        {
            let found = (0..commit.rows)
                .filter(|row| {
                    let key = (commit.writer, commit.row_key(*row));
                    self.rows.remove(&key) == Some((commit.rows, commit.text(*row)))
                })
                .count();
            if is_acknowledged && found < commit.rows {
                self.wrong.push(format!("{commit:?} was acknowledged; {found} rows left"));
            } else if found != 0 && found < commit.rows {
                self.wrong.push(format!("{commit:?} is half there: {found} rows"));
            }
            if found > 0 {
                there.push(*commit);
            }
        }
        let strange = self.rows.len();
        if let Some((writer, row)) = self.rows.into_keys().next() {
            let first = format!("the first is {row} of writer {writer}");
            self.wrong.push(format!("{strange} rows that nobody wrote, or twice: {first}"));
        }
        Verdict { there, wrong: self.wrong }
    }
}

/// What a verification came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The commits that are there, at least in part.
    pub there: Vec<Commit>,
    /// What must not be, a line each.
    pub wrong: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(commits: &[Commit]) -> Found {
        let mut found = Found::default();
        for commit in commits {
            for row in 0..commit.rows {
                found.add(commit.writer, commit.row_key(row), commit.rows, commit.text(row));
            }
        }
        found
    }

    const A: Commit = Commit { writer: 0, number: 3, rows: 1 };
    const B: Commit = Commit { writer: 1, number: 0, rows: 12 };
    const C: Commit = Commit { writer: 1, number: 1, rows: 2 };

    #[test]
    fn what_was_acknowledged_is_there_and_the_rest_whole_or_not() {
        let verdict = rows(&[A, B]).verify([&A, &B], [&C]);
        assert!(verdict.wrong.is_empty(), "{verdict:?}");
        assert_eq!(verdict.there, [A, B]);
        let verdict = rows(&[A, B, C]).verify([&A, &B], [&C]);
        assert!(verdict.wrong.is_empty() && verdict.there.len() == 3, "{verdict:?}");
        assert_eq!((rows(&[A, B]).len(), rows(&[]).is_empty()), (13, true));
        assert_eq!((writer_of(&B.partition_key()), writer_of("x")), (Some(1), None));
    }

    #[test]
    fn every_kind_of_wrong_is_told() {
        let told = |found: Found, acknowledged: &[Commit], unknown: &[Commit]| {
            let wrong = found.verify(acknowledged, unknown).wrong;
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            wrong.into_iter().next().unwrap_or_default()
        };
        assert!(told(rows(&[A]), &[A, B], &[]).contains("0 rows left"), "lost");
        let mut half = rows(&[A]);
        half.add(1, C.row_key(0), 2, C.text(0));
        assert!(told(half.clone(), &[A], &[C]).contains("half there: 1 rows"));
        assert!(told(half, &[A, C], &[]).contains("1 rows left"));
        // A ledger that was cut short: what it does not know was written by nobody.
        assert!(told(rows(&[A, B]), &[A], &[]).contains("12 rows that nobody wrote"));
        let mut other = rows(&[]);
        other.add(0, A.row_key(0), 1, "something else".to_owned());
        assert!(told(other, &[A], &[]).contains("0 rows left"));
        let mut twice = rows(&[A]);
        twice.add(0, A.row_key(0), 1, A.text(0));
        assert!(told(twice, &[A], &[]).contains("came twice"));
    }
}
