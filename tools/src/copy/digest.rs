//! Digests of partitions: what two places have to agree on, whatever the order in which they give
//! their rows.

use std::collections::{BTreeMap, BTreeSet};
use tabulith::table::entity::Entity;
use tabulith::table::value::Value;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Partitions that have a digest each: some ten MiB, with keys of ordinary length.
const PARTITIONS_MAX: usize = 1 << 16;

/// Parts of a table that have one each where there are more partitions, which fall into them by a
/// hash of their keys: 2 MiB.
pub(crate) const PARTS: usize = 1 << 16;

/// How many rows there are, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    digest: u128,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.rows += other.rows;
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

/// The rows of a table by partition, or by part where it has many partitions.
///
/// Memory: bounded, whatever the table has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    partitions: BTreeMap<String, Sum>,
    /// In place of partitions once there were too many of them.
    parts: Option<Vec<Sum>>,
    /// The parts that are looked at, where it is not all.
    only: Option<BTreeSet<usize>>,
}

impl Digests {
    /// Digests of the partitions of some parts.
    pub(crate) fn of_parts(only: BTreeSet<usize>) -> Digests {
        Digests { only: Some(only), ..Digests::default() }
    }

    /// Adds a row. Its Timestamp does not count, nor does the order of its properties.
    pub(crate) fn add(&mut self, row: &Entity) {
        let key = &row.partition_key;
        if self.only.as_ref().is_some_and(|only| !only.contains(&part(key))) {
            return;
        }
        let of_row = Sum { rows: 1, digest: digest(row) };
        if let Some(parts) = &mut self.parts {
            return parts[part(key)].add(of_row);
        }
        match self.partitions.get_mut(key) {
            Some(sum) => sum.add(of_row),
            None => drop(self.partitions.insert(key.clone(), of_row)),
        }
        if self.partitions.len() > PARTITIONS_MAX {
            self.fold();
        }
    }

    /// Makes parts of the partitions.
    fn fold(&mut self) {
        let parts = self.parts.get_or_insert_with(|| vec![Sum::default(); PARTS]);
        for (key, sum) in std::mem::take(&mut self.partitions) {
            parts[part(&key)].add(sum);
        }
    }

    /// Rows in all.
    pub(crate) fn rows(&self) -> u64 {
        let of_parts = self.parts.iter().flatten().map(|sum| sum.rows);
        self.partitions.values().map(|sum| sum.rows).chain(of_parts).sum()
    }

    /// Partitions in all, where each has a digest.
    pub(crate) fn partitions(&self) -> Option<usize> {
        self.parts.is_none().then_some(self.partitions.len())
    }

    /// The parts that are not the same in both, where one of them has no digest of each partition.
    pub(crate) fn parts_that_differ(&mut self, other: &mut Digests) -> Option<BTreeSet<usize>> {
        if self.parts.is_none() && other.parts.is_none() {
            return None;
        }
        self.fold();
        other.fold();
        let (own, others) = (self.parts.iter().flatten(), other.parts.iter().flatten());
        let differ = own.zip(others).enumerate().filter(|(_, (own, other))| own != other);
        Some(differ.map(|(part, _)| part).collect())
    }

    /// The partitions that are not the same in both, with the number of their rows here and there.
    pub(crate) fn differences<'a>(
        &'a self,
        other: &'a Digests,
    ) -> impl Iterator<Item = (&'a str, u64, u64)> {
        let of = |digests: &'a Digests, partition: &str| digests.partitions.get(partition).copied();
        let (own, others) = (&self.partitions, &other.partitions);
        let only_there = others.keys().filter(|partition| !own.contains_key(*partition));
        own.keys().chain(only_there).filter_map(move |partition| {
            let (own, others) = (of(self, partition), of(other, partition));
            let rows = |sum: Option<Sum>| sum.map_or(0, |sum| sum.rows);
            (own != others).then(|| (partition.as_str(), rows(own), rows(others)))
        })
    }
}

fn part(partition_key: &str) -> usize {
    xxh3_64(partition_key.as_bytes()) as usize % PARTS
}

/// The digest of a row's keys, expiry and properties.
fn digest(row: &Entity) -> u128 {
    let mut properties: Vec<&(String, Value)> = row.properties.iter().collect();
    properties.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut bytes = Vec::with_capacity(256);
    put(&mut bytes, row.partition_key.as_bytes());
    put(&mut bytes, row.row_key.as_bytes());
    put(&mut bytes, &row.expires.map(|expires| expires.0.to_le_bytes()).unwrap_or_default());
    for (name, value) in properties {
        put(&mut bytes, name.as_bytes());
        match value {
            Value::Binary(value) => put_typed(&mut bytes, 0, value),
            Value::Boolean(value) => put_typed(&mut bytes, 1, &[u8::from(*value)]),
            Value::DateTime(value) => put_typed(&mut bytes, 2, &value.0.to_le_bytes()),
            // Every NaN is the same one on the wire.
            Value::Double(value) if value.is_nan() => put_typed(&mut bytes, 3, b"NaN"),
            // Nor does a zero keep its sign; the sum has none.
            Value::Double(value) => {
                put_typed(&mut bytes, 3, &(*value + 0.0).to_bits().to_le_bytes());
            }
            Value::Guid(value) => put_typed(&mut bytes, 4, value),
            Value::Int32(value) => put_typed(&mut bytes, 5, &value.to_le_bytes()),
            Value::Int64(value) => put_typed(&mut bytes, 6, &value.to_le_bytes()),
            Value::String(value) => put_typed(&mut bytes, 7, value.as_bytes()),
        }
    }
    xxh3_128(&bytes)
}

/// With its length, so that no two lists of texts are the same bytes.
fn put(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

fn put_typed(out: &mut Vec<u8>, edm: u8, value: &[u8]) {
    out.push(edm);
    put(out, value);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn row(partition: &str, key: &str, properties: &[(&str, Value)]) -> Entity {
        let mut row = Entity::new(partition, key);
        row.properties = properties.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        row
    }

    fn of(rows: &[Entity]) -> Digests {
        let mut digests = Digests::default();
        rows.iter().for_each(|row| digests.add(row));
        digests
    }

    #[test]
    fn order_does_not_count_and_everything_else_does() {
        let (one, two) = (("a", Value::Int32(1)), ("b", Value::Int32(1)));
        let rows =
            [row("p", "1", &[one.clone(), two.clone()]), row("p", "2", &[]), row("q", "1", &[])];
        let turned =
            [row("q", "1", &[]), row("p", "2", &[]), row("p", "1", &[two.clone(), one.clone()])];
        assert_eq!(of(&rows), of(&turned));
        assert_eq!((of(&rows).rows(), of(&rows).partitions()), (3, Some(2)));
        let expires = Some(tabulith::ids::CommitTs(1));
        for other in [
            Entity { expires, ..row("p", "1", &[one.clone(), two.clone()]) },
            row("p", "1", std::slice::from_ref(&one)),
            row("p", "1", &[one.clone(), ("b", Value::Int64(1))]),
            row("p", "1", &[one.clone(), ("b", Value::Double(1.0))]),
            row("p", "1", &[one.clone(), ("c", Value::Int32(1))]),
            row("p", "12", &[one.clone(), two.clone()]),
        ] {
            let changed = of(&[other, rows[1].clone(), rows[2].clone()]);
            let whole = of(&rows);
            assert_eq!(whole.differences(&changed).collect::<Vec<_>>(), [("p", 2, 2)]);
        }
    }

    /// A copy of JSON lines with a negative zero, which the store keeps as zero, differed from
    /// them.
    #[test]
    fn a_zero_has_no_sign() {
        let of_double = |value: f64| of(&[row("p", "1", &[("d", Value::Double(value))])]);
        assert_eq!(of_double(-0.0), of_double(0.0));
        assert_ne!(of_double(-1.5), of_double(1.5));
    }

    /// Both sides had an entry for each partition: ten million of them took some GiB.
    #[test]
    fn many_partitions_are_compared_by_their_parts() {
        let count = PARTITIONS_MAX + 10;
        let rows = |changed: Option<usize>| {
            (0..count)
                .map(move |n| row(&n.to_string(), if changed == Some(n) { "x" } else { "" }, &[]))
        };
        let of = |changed: Option<usize>, only: Option<BTreeSet<usize>>| {
            let mut digests = only.map_or_else(Digests::default, Digests::of_parts);
            rows(changed).for_each(|row| digests.add(&row));
            digests
        };
        let mut here = of(None, None);
        assert_eq!((here.rows(), here.partitions()), (count as u64, None));
        assert!(here.partitions.is_empty());
        assert_eq!(here.parts_that_differ(&mut of(None, None)), Some(BTreeSet::new()));
        for changed in [3, count - 1] {
            let differ = here.parts_that_differ(&mut of(Some(changed), None)).unwrap();
            assert_eq!(differ, BTreeSet::from([part(&changed.to_string())]));
            let (here, there) = (of(None, Some(differ.clone())), of(Some(changed), Some(differ)));
            let named: Vec<_> = here.differences(&there).collect();
            assert_eq!(named, [(changed.to_string().as_str(), 1, 1)]);
        }
        let mut few = Digests::default();
        rows(None).take(5).for_each(|row| few.add(&row));
        let lack = few.parts_that_differ(&mut here).unwrap();
        assert!(lack.len() > PARTS / 2 && few.rows() == 5, "{}", lack.len());
    }

    #[test]
    fn partitions_of_one_side_only_are_differences() {
        let (here, there) =
            (of(&[row("p", "1", &[])]), of(&[row("q", "1", &[]), row("q", "2", &[])]));
        assert_eq!(here.differences(&there).collect::<Vec<_>>(), [("p", 1, 0), ("q", 0, 2)]);
        assert_eq!(here.differences(&here).count(), 0);
    }
}
