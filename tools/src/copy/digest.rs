//! Digests of partitions: what two places have to agree on, whatever the order in which they give
//! their rows.

use std::collections::BTreeMap;
use tabulith::table::entity::Entity;
use tabulith::table::value::Value;
use xxhash_rust::xxh3::xxh3_128;

/// The rows of a table by partition: how many there are, and the sum of their digests.
///
/// Memory: an entry for each partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests(BTreeMap<String, (u64, u128)>);

impl Digests {
    /// Adds a row. Its Timestamp does not count, nor does the order of its properties.
    pub(crate) fn add(&mut self, row: &Entity) {
        let of_row = digest(row);
        match self.0.get_mut(&row.partition_key) {
            Some((rows, sum)) => (*rows, *sum) = (*rows + 1, sum.wrapping_add(of_row)),
            None => drop(self.0.insert(row.partition_key.clone(), (1, of_row))),
        }
    }

    /// Rows in all.
    pub(crate) fn rows(&self) -> u64 {
        self.0.values().map(|(rows, _)| rows).sum()
    }

    /// Partitions in all.
    pub(crate) fn partitions(&self) -> usize {
        self.0.len()
    }

    /// The partitions that are not the same in both, with the number of their rows here and there.
    pub(crate) fn differences<'a>(
        &'a self,
        other: &'a Digests,
    ) -> impl Iterator<Item = (&'a str, u64, u64)> {
        let of = |digests: &'a Digests, partition: &str| digests.0.get(partition).copied();
        let only_there = other.0.keys().filter(|partition| !self.0.contains_key(*partition));
        self.0.keys().chain(only_there).filter_map(move |partition| {
            let (own, others) = (of(self, partition), of(other, partition));
            let rows = |digest: Option<(u64, u128)>| digest.map_or(0, |(rows, _)| rows);
            (own != others).then(|| (partition.as_str(), rows(own), rows(others)))
        })
    }
}

/// The digest of a row's keys and properties.
fn digest(row: &Entity) -> u128 {
    let mut properties: Vec<&(String, Value)> = row.properties.iter().collect();
    properties.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut bytes = Vec::with_capacity(256);
    put(&mut bytes, row.partition_key.as_bytes());
    put(&mut bytes, row.row_key.as_bytes());
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
        assert_eq!((of(&rows).rows(), of(&rows).partitions()), (3, 2));
        for other in [
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

    #[test]
    fn partitions_of_one_side_only_are_differences() {
        let (here, there) =
            (of(&[row("p", "1", &[])]), of(&[row("q", "1", &[]), row("q", "2", &[])]));
        assert_eq!(here.differences(&there).collect::<Vec<_>>(), [("p", 1, 0), ("q", 0, 2)]);
        assert_eq!(here.differences(&here).count(), 0);
    }
}
