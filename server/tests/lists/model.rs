//! What must be answered: the ordered map of the engine's own tests, with the rules of the protocol
//! on top. Written from docs/azure.md and the documentation that it names, apart from the service.

use crate::ops::{
    Change, Compare, Filter, Policy, Properties, Property, Select, TABLES, Tag, Verb,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tabulith_testkit::oracle::{self, Oracle};

/// A refusal: its status and code.
pub(crate) type Refusal = (u16, &'static str);

const TABLE_NOT_FOUND: Refusal = (404, "TableNotFound");
const NOT_FOUND: Refusal = (404, "ResourceNotFound");
const EXISTS: Refusal = (409, "EntityAlreadyExists");
const CHANGED: Refusal = (412, "UpdateConditionNotSatisfied");
const INVALID: Refusal = (400, "InvalidInput");
const OTHER_PARTITION: Refusal = (400, "CommandsInBatchActOnDifferentPartitions");
const TWICE: Refusal = (400, "InvalidDuplicateRow");
const UNKNOWN: Refusal = (403, "AuthenticationFailed");
const NO_LEAVE: Refusal = (403, "AuthorizationPermissionMismatch");

/// An entity as a reader sees it. `None` for a property that was asked for and is not there; keys
/// and time are absent where they were not asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shown {
    pub(crate) keys: (Option<String>, Option<String>),
    pub(crate) time: Option<u64>,
    pub(crate) etag: u64,
    pub(crate) properties: BTreeMap<String, Option<Property>>,
}

/// An entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entity {
    pub(crate) pk: String,
    pub(crate) rk: String,
    pub(crate) ts: u64,
    pub(crate) properties: Properties,
}

/// What the service must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    oracle: Oracle,
    /// The number of each table that is there; none is given twice.
    tables: [Option<u32>; TABLES],
    tables_made: u32,
    /// ETags that an entity had before its present one.
    stale: BTreeMap<(u32, String, String), u64>,
    policies: BTreeMap<u32, Vec<Policy>>,
    days: Option<u16>,
}

impl Model {
    pub(crate) fn newest(&self) -> u64 {
        self.oracle.last_ts()
    }

    pub(crate) fn create(&mut self, table: usize) -> Result<(), Refusal> {
        if self.tables[table].is_some() {
            return Err((409, "TableAlreadyExists"));
        }
        self.tables_made += 1;
        self.tables[table] = Some(self.tables_made);
        Ok(())
    }

    pub(crate) fn drop_table(&mut self, table: usize) -> Result<(), Refusal> {
        let number = self.tables[table].take().ok_or(NOT_FOUND)?;
        self.oracle.drop_table(number);
        Ok(())
    }

    /// The names of all tables, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        (0..TABLES).filter(|table| self.tables[*table].is_some()).map(name_of).collect()
    }

    /// The names that compare so with the name of `table`.
    pub(crate) fn some_names(&self, op: Compare, table: usize) -> Vec<String> {
        let with = name_of(table);
        self.names().into_iter().filter(|name| holds(op, name.cmp(&with))).collect()
    }

    pub(crate) fn find(&self, table: usize) -> Result<String, Refusal> {
        self.tables[table].map(|_| name_of(table)).ok_or(NOT_FOUND)
    }

    pub(crate) fn set_policies(&mut self, table: usize, given: &[Policy]) -> Result<(), Refusal> {
        let number = self.tables[table].ok_or(TABLE_NOT_FOUND)?;
        self.policies.insert(number, given.to_vec());
        Ok(())
    }

    pub(crate) fn policies(&self, table: usize) -> Result<Vec<Policy>, Refusal> {
        let number = self.tables[table].ok_or(TABLE_NOT_FOUND)?;
        Ok(self.policies.get(&number).cloned().unwrap_or_default())
    }

    /// Whether one who names a stored policy may read. Of a table that is not there they learn no
    /// more than of one without the policy.
    pub(crate) fn may_read(&self, table: usize, id: &str) -> Result<(), Refusal> {
        let all = self.policies(table).unwrap_or_default();
        let own = all.iter().find(|policy| policy.id == id).ok_or(UNKNOWN)?;
        own.letters.contains('r').then_some(()).ok_or(NO_LEAVE)
    }

    pub(crate) fn set_days(&mut self, days: u16) {
        self.days = Some(days);
    }

    /// `None` where nobody has said anything.
    pub(crate) fn days(&self) -> Option<u16> {
        self.days
    }

    /// What `If-Match` is to say.
    pub(crate) fn tag(&self, table: usize, pk: &str, change: &Change) -> Option<String> {
        let number = self.tables[table].unwrap_or(0);
        let now = self.entity(number, pk, &change.rk).map(|entity| entity.ts);
        let never = 16_000_000_000_000_000;
        let stale = || self.stale.get(&(number, pk.to_owned(), change.rk.clone())).copied();
        match change.tag {
            Tag::Absent if change.verb == Verb::Delete => Some("*".to_owned()),
            Tag::Absent => None,
            Tag::Any => Some("*".to_owned()),
            Tag::Right => Some(etag_of(now.unwrap_or(never))),
            Tag::Stale => Some(etag_of(stale().unwrap_or(never))),
            Tag::Malformed => Some("\"strong\"".to_owned()),
        }
    }

    /// What a change leaves of its entity, or why it is refused.
    pub(crate) fn judge(
        &self,
        table: usize,
        pk: &str,
        change: &Change,
    ) -> Result<Option<Properties>, Refusal> {
        if change.tag == Tag::Malformed {
            return Err(INVALID);
        }
        let number = self.tables[table].ok_or(TABLE_NOT_FOUND)?;
        let now = self.entity(number, pk, &change.rk);
        let there = |properties: &Properties| -> Properties {
            let there = properties.iter().filter(|(_, value)| **value != Property::Null);
            there.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        match (change.verb, &now) {
            (Verb::Insert | Verb::InsertAndShow, Some(_)) => return Err(EXISTS),
            (Verb::Insert | Verb::InsertAndShow, None) => {
                return Ok(Some(there(&change.properties)));
            }
            _ => {}
        }
        let tag = self.tag(table, pk, change);
        match (tag.as_deref(), &now) {
            (None, _) | (Some("*"), Some(_)) => {}
            (Some(_), None) => return Err(NOT_FOUND),
            (Some(tag), Some(now)) if tag == etag_of(now.ts) => {}
            _ => return Err(CHANGED),
        }
        Ok(match change.verb {
            Verb::Delete => None,
            Verb::Merge | Verb::PostMerge => {
                let mut merged = now.map(|now| now.properties).unwrap_or_default();
                merged.extend(there(&change.properties));
                Some(merged)
            }
            _ => Some(there(&change.properties)),
        })
    }

    /// What a batch leaves of its entities, or the change at fault and why.
    pub(crate) fn judge_all(
        &self,
        table: usize,
        pk: &str,
        changes: &[Change],
    ) -> Result<Vec<Option<Properties>>, (usize, Refusal)> {
        let malformed = changes.iter().position(|change| change.tag == Tag::Malformed);
        let understood = &changes[..malformed.unwrap_or(changes.len())];
        if !understood.is_empty() && self.tables[table].is_none() {
            return Err((0, TABLE_NOT_FOUND));
        }
        for (at, change) in understood.iter().enumerate() {
            if change.astray != understood[0].astray {
                return Err((at, OTHER_PARTITION));
            }
            if understood[..at].iter().any(|other| other.rk == change.rk) {
                return Err((at, TWICE));
            }
        }
        if let Some(at) = malformed {
            return Err((at, INVALID));
        }
        let pk = partition_of(pk, changes.first().is_some_and(|change| change.astray));
        let judge = |(at, change)| self.judge(table, &pk, change).map_err(|refusal| (at, refusal));
        changes.iter().enumerate().map(judge).collect()
    }

    /// All that was left is there now, by the commit of `ts`.
    ///
    /// Panics where `ts` does not rise.
    pub(crate) fn commit(
        &mut self,
        table: usize,
        pk: &str,
        ts: u64,
        left: &[(String, Option<Properties>)],
    ) {
        let Some(number) = self.tables[table] else { return };
        let mut changes = Vec::new();
        for (rk, properties) in left {
            if let Some(before) = self.entity(number, pk, rk) {
                self.stale.insert((number, pk.to_owned(), rk.clone()), before.ts);
            }
            changes.push(match properties {
                Some(properties) => {
                    let value = serde_json::to_vec(properties).expect("properties are JSON");
                    oracle::Change::Put(bytes_of(rk), value)
                }
                None => oracle::Change::Delete(bytes_of(rk)),
            });
        }
        self.oracle.commit(number, &bytes_of(pk), ts, &changes);
    }

    fn entity(&self, number: u32, pk: &str, rk: &str) -> Option<Entity> {
        let stored = self.oracle.get(number, &bytes_of(pk), &bytes_of(rk))?;
        Some(entity_of(pk.to_owned(), rk.to_owned(), stored))
    }

    pub(crate) fn get(&self, table: usize, pk: &str, rk: &str) -> Result<Entity, Refusal> {
        let number = self.tables[table].ok_or(TABLE_NOT_FOUND)?;
        self.entity(number, pk, rk).ok_or(NOT_FOUND)
    }

    /// All entities that pass, in the order of their keys.
    pub(crate) fn query(
        &self,
        table: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Entity>, Refusal> {
        let number = self.tables[table].ok_or(TABLE_NOT_FOUND)?;
        let all = self.oracle.table(number);
        let all = all.map(|(place, row)| entity_of(text_of(&place.pk), text_of(&place.rk), row));
        Ok(all.filter(|entity| filter.is_none_or(|filter| passes(filter, entity))).collect())
    }
}

impl Entity {
    /// What is shown of it.
    pub(crate) fn shown(&self, select: &Select) -> Shown {
        let all = self.properties.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let keys = (Some(self.pk.clone()), Some(self.rk.clone()));
        let whole = Shown { keys, time: Some(self.ts), etag: self.ts, properties: all.collect() };
        let Select::Some(names) = select else { return whole };
        let wants = |name: &str| names.iter().any(|own| own == name);
        let own = names
            .iter()
            .filter(|name| !["PartitionKey", "RowKey", "Timestamp"].contains(&name.as_str()));
        Shown {
            keys: (
                whole.keys.0.filter(|_| wants("PartitionKey")),
                whole.keys.1.filter(|_| wants("RowKey")),
            ),
            time: whole.time.filter(|_| wants("Timestamp")),
            etag: whole.etag,
            properties: own
                .map(|name| (name.clone(), self.properties.get(name).cloned()))
                .collect(),
        }
    }
}

/// The partition of a change in a batch of `pk`.
pub(crate) fn partition_of(pk: &str, astray: bool) -> String {
    if astray { format!("{pk}~astray") } else { pk.to_owned() }
}

/// A table's name by its number.
pub(crate) fn name_of(table: usize) -> String {
    format!("Table{table}")
}

fn entity_of(pk: String, rk: String, stored: &oracle::Stored) -> Entity {
    let properties = serde_json::from_slice(&stored.value).expect("what was written");
    Entity { pk, rk, ts: stored.ts, properties }
}

/// An ETag by the rule of the protocol: the time of the last change.
pub(crate) fn etag_of(ticks: u64) -> String {
    format!("W/\"datetime'{}'\"", time_of(ticks).replace(':', "%3A"))
}

/// The time of a commit in text: no zeros at the end.
fn time_of(ticks: u64) -> String {
    let seconds = i64::try_from(ticks / 10_000_000).expect("before the year 30,000");
    let moment = jiff::Timestamp::from_second(seconds).expect("a moment");
    let fraction = format!(".{:07}", ticks % 10_000_000);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{}{fraction}Z", moment.strftime("%Y-%m-%dT%H:%M:%S"))
}

/// Texts in the order that the protocol has them in: by their UTF-16.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn text_of(bytes: &[u8]) -> String {
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    String::from_utf16(&units).expect("a key was text")
}

fn passes(filter: &Filter, entity: &Entity) -> bool {
    match filter {
        Filter::Not(inner) => !passes(inner, entity),
        Filter::And(left, right) => passes(left, entity) && passes(right, entity),
        Filter::Or(left, right) => passes(left, entity) || passes(right, entity),
        Filter::Compare { name, op, with } => {
            let own = match name.as_str() {
                "PartitionKey" => Some(Property::Text(entity.pk.clone())),
                "RowKey" => Some(Property::Text(entity.rk.clone())),
                name => entity.properties.get(name).cloned(),
            };
            // What is not there passes no comparison.
            let order = own.and_then(|own| order_of(&own, with));
            order.is_some_and(|order| holds(*op, order))
        }
    }
}

fn holds(op: Compare, order: Ordering) -> bool {
    match op {
        Compare::Eq => order.is_eq(),
        Compare::Ne => order.is_ne(),
        Compare::Lt => order.is_lt(),
        Compare::Le => order.is_le(),
        Compare::Gt => order.is_gt(),
        Compare::Ge => order.is_ge(),
    }
}

fn order_of(own: &Property, with: &Property) -> Option<Ordering> {
    match (own, with) {
        (Property::Int(a), Property::Int(b)) => Some(a.cmp(b)),
        (Property::Long(a), Property::Long(b)) => Some(a.cmp(b)),
        (Property::Flag(a), Property::Flag(b)) => Some(a.cmp(b)),
        (Property::Halves(a), Property::Halves(b)) => Some(a.cmp(b)),
        (Property::Text(a), Property::Text(b)) => Some(bytes_of(a).cmp(&bytes_of(b))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_times_without_zeros_at_their_end() {
        let second = 1_609_459_202 * 10_000_000;
        assert_eq!(etag_of(second), "W/\"datetime'2021-01-01T00%3A00%3A02Z'\"");
        assert_eq!(etag_of(second + 1_200_000), "W/\"datetime'2021-01-01T00%3A00%3A02.12Z'\"");
        assert_eq!(etag_of(second + 1), "W/\"datetime'2021-01-01T00%3A00%3A02.0000001Z'\"");
    }

    #[test]
    fn keys_are_in_the_order_of_their_utf_16() {
        assert!(bytes_of("\u{1f600}") < bytes_of("\u{fffd}") && "\u{1f600}" > "\u{fffd}");
        assert_eq!(text_of(&bytes_of("a\u{1f600}")), "a\u{1f600}");
    }
}
