//! Changes: one entity, or up to a hundred of one partition at once.
//!
//! Promise: every check is made against the partition's state before the change, under the
//! partition's lock; a refused change writes nothing. What is refused is answered only once the
//! state that refused it is as safe as the store promises, so that no answer speaks of something
//! that a crash could still take back.

use crate::error::{Error, Kind, Result as EngineResult};
use crate::ids::{CommitTs, TableId};
use crate::options::Reach;
use crate::rows::{CommitTicket, PartitionUpdate, RowStore};
use crate::table::codec::{self, EntityBytes};
use crate::table::entity::Entity;
use crate::table::error::{GroupError, TableError, TableResult};
use crate::table::etag::{ETag, IfMatch};
use crate::table::keys;
use crate::table::rules;
use crate::table::value::Value;
use std::collections::HashMap;

/// Most bytes of a stored entity that is merged into at once: to read and write a larger one takes
/// many times as long as to have another thread do it, and up to some 25 ms.
const MERGED_AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// A change of one entity.
#[derive(Clone, Debug)]
pub enum Write {
    /// Adds an entity that must not exist.
    Insert(Entity),
    /// Adds an entity or replaces all its properties.
    InsertOrReplace(Entity),
    /// Adds an entity or lays properties over those it has.
    InsertOrMerge(Entity),
    /// Replaces all properties of an entity that exists and is as the condition says.
    Update(Entity, IfMatch),
    /// Lays properties over those of an entity that exists and is as the condition says.
    Merge(Entity, IfMatch),
    /// Removes an entity that exists and is as the condition says.
    Delete {
        /// Its PartitionKey.
        partition_key: String,
        /// Its RowKey.
        row_key: String,
        /// What it must be like.
        condition: IfMatch,
    },
    /// Another change, after which the entity is gone from a time on: [`Write::until`].
    Until(Box<Write>, CommitTs),
}

impl Write {
    /// The same change, and the entity that it leaves is gone, as if it had been deleted, for reads
    /// from the time `expires` on; its space comes back with compaction. Times are ticks of 100 ns
    /// since 1970: [`db.time().after(span)`](crate::Db::time). A change that does not say so leaves
    /// an entity that stays, also where the one before it would have gone. Of two times the earlier
    /// one counts; a delete has no use for any.
    #[must_use]
    pub fn until(self, expires: CommitTs) -> Write {
        Write::Until(Box::new(self), expires)
    }

    /// The change itself, and when what it leaves is gone.
    fn and_expiry(self) -> (Write, Option<CommitTs>) {
        let (mut write, mut earliest) = (self, None);
        while let Write::Until(inner, expires) = write {
            earliest = Some(earliest.map_or(expires, |earliest: CommitTs| earliest.min(expires)));
            write = *inner;
        }
        (write, earliest)
    }

    /// PartitionKey and RowKey of the entity that it changes.
    pub fn keys(&self) -> (&str, &str) {
        match self {
            Write::Until(write, _) => write.keys(),
            Write::Delete { partition_key, row_key, .. } => (partition_key, row_key),
            Write::Insert(entity)
            | Write::InsertOrReplace(entity)
            | Write::InsertOrMerge(entity)
            | Write::Update(entity, _)
            | Write::Merge(entity, _) => (&entity.partition_key, &entity.row_key),
        }
    }

    /// Checks all that needs no look at the store: keys, names, values, sizes.
    pub fn check(&self) -> TableResult<()> {
        match self.entity() {
            Some(entity) => rules::check_entity(entity),
            None => rules::check_keys(self.keys().0, self.keys().1),
        }
    }

    /// What it counts against a group's bound.
    pub(crate) fn payload_bytes(&self) -> usize {
        match self.entity() {
            Some(entity) => rules::payload_bytes(entity),
            None => self.keys().0.len() + self.keys().1.len(),
        }
    }

    /// The entity that it brings; a delete brings none.
    fn entity(&self) -> Option<&Entity> {
        match self {
            Write::Until(write, _) => write.entity(),
            Write::Delete { .. } => None,
            Write::Insert(entity)
            | Write::InsertOrReplace(entity)
            | Write::InsertOrMerge(entity)
            | Write::Update(entity, _)
            | Write::Merge(entity, _) => Some(entity),
        }
    }

    fn entity_mut(&mut self) -> Option<&mut Entity> {
        match self {
            Write::Until(write, _) => write.entity_mut(),
            Write::Delete { .. } => None,
            Write::Insert(entity)
            | Write::InsertOrReplace(entity)
            | Write::InsertOrMerge(entity)
            | Write::Update(entity, _)
            | Write::Merge(entity, _) => Some(entity),
        }
    }

    fn into_entity(self) -> Option<Entity> {
        match self {
            Write::Until(write, _) => write.into_entity(),
            Write::Delete { .. } => None,
            Write::Insert(entity)
            | Write::InsertOrReplace(entity)
            | Write::InsertOrMerge(entity)
            | Write::Update(entity, _)
            | Write::Merge(entity, _) => Some(entity),
        }
    }
}

/// What a change did.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct WriteOutcome {
    /// The commit; the same for all changes of a group.
    pub ts: CommitTs,
    /// The entity as it is stored now, after a merge the whole of it; `None` after a delete.
    pub entity: Option<Entity>,
    /// Whether the entity was there before.
    pub existed: bool,
}

impl WriteOutcome {
    /// The entity's ETag now, if there still is an entity.
    pub fn etag(&self) -> Option<ETag> {
        self.entity.as_ref().map(|_| ETag(self.ts))
    }
}

/// A change that is decided and applied, and waits to become as safe as the store promises.
#[must_use = "a change is neither safe nor visible before it was waited for"]
pub struct Pending<T, E = TableError> {
    outcome: Result<T, E>,
    ticket: Box<dyn CommitTicket>,
}

impl<T: Send + 'static, E: From<TableError> + Send + 'static> Pending<T, E> {
    /// Whether waiting would return at once.
    pub fn is_done(&self) -> bool {
        self.ticket.is_done()
    }

    /// Returns what the change did, or why it was refused, once either is safe to tell.
    pub fn wait(self) -> Result<T, E> {
        let Pending { outcome, ticket } = self;
        ticket.wait().map_err(|error| E::from(TableError::from(error)))?;
        outcome
    }

    /// Calls `done` with what [`Pending::wait`] would return, from another thread or, where it is
    /// done already, from this one. `done` must not block.
    pub fn notify(self, done: impl FnOnce(Result<T, E>) + Send + 'static) {
        let Pending { outcome, ticket } = self;
        ticket.notify(Box::new(move |safe| {
            done(safe.map_err(|error| E::from(TableError::from(error))).and(outcome));
        }));
    }
}

impl Pending<Vec<WriteOutcome>, GroupError> {
    /// The same for a group of one.
    pub(crate) fn into_single(self) -> Pending<WriteOutcome> {
        let first = |outcomes: Vec<WriteOutcome>| {
            let none = || TableError::NoOperations;
            outcomes.into_iter().next().ok_or_else(none)
        };
        let outcome = self.outcome.map_err(|group| group.error).and_then(first);
        Pending { outcome, ticket: self.ticket }
    }
}

impl<T, E> std::fmt::Debug for Pending<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("refused", &self.outcome.is_err()).finish_non_exhaustive()
    }
}

/// A checked change of one row, ready to be decided under the partition's lock.
pub(crate) struct Prepared {
    /// No [`Write::Until`].
    write: Write,
    expires: Option<CommitTs>,
    row_key: Vec<u8>,
    /// The bytes of the properties that are given; empty for a delete.
    encoded: Vec<u8>,
}

impl Prepared {
    /// One that passes [`Write::check`].
    pub(crate) fn new(write: Write) -> TableResult<Prepared> {
        let (mut write, expires) = write.and_expiry();
        if let Some(entity) = write.entity_mut() {
            entity.properties.iter_mut().for_each(|(_, value)| unsign_zero(value));
        }
        write.check()?;
        let encoded = write.entity().map_or(Vec::new(), |e| codec::encode(&e.properties));
        let row_key = keys::encode(write.keys().1).into_owned();
        Ok(Prepared { write, expires, row_key, encoded })
    }

    /// The partition's key bytes.
    pub(crate) fn partition_key(&self) -> Vec<u8> {
        keys::encode(self.write.keys().0).into_owned()
    }

    /// What the change makes of the row that is there, or why it must not. Only a merge asks for
    /// more of it than its commit.
    fn decide(
        &self,
        partition: &mut dyn PartitionUpdate,
        reach: Reach,
    ) -> EngineResult<TableResult<Decision>> {
        let (written, merge) = match &self.write {
            Write::InsertOrMerge(entity) | Write::Merge(entity, _) => {
                let row = partition.get(&self.row_key)?;
                (row.as_ref().map(|row| row.ts), row.map(|row| (entity, row.value)))
            }
            _ => (partition.written(&self.row_key)?, None),
        };
        if let Err(refusal) = self.check_state(written) {
            return Ok(Err(refusal));
        }
        let change = match (&self.write, merge) {
            (Write::Delete { .. }, _) => Change::Remove,
            (_, None) => Change::AsGiven,
            (_, Some((_, stored)))
                if reach == Reach::Memory && stored.len() > MERGED_AT_ONCE_BYTES_MAX =>
            {
                return Err(Error::new(Kind::WouldBlock, "the entity is large"));
            }
            (_, Some((entity, stored))) => {
                let stored = EntityBytes::open(&stored)
                    .and_then(|stored| stored.decode(|_| true))
                    .map_err(|e| codec::in_row(e, &entity.partition_key, &entity.row_key))?;
                let merged = overlay(entity, stored);
                if let Err(refusal) = rules::check_size(&merged) {
                    return Ok(Err(refusal));
                }
                Change::Merged(codec::encode(&merged.properties), merged)
            }
        };
        Ok(Ok(Decision { change, existed: written.is_some() }))
    }

    /// Whether the row is there, or not, and as the change asks for. `written`: the commit that
    /// wrote it.
    fn check_state(&self, written: Option<CommitTs>) -> TableResult<()> {
        let condition = match &self.write {
            Write::InsertOrReplace(_) | Write::InsertOrMerge(_) => return Ok(()),
            Write::Until(..) => return Ok(()), // Taken off when it was prepared.
            Write::Insert(_) if written.is_some() => return Err(TableError::EntityExists),
            Write::Insert(_) => return Ok(()),
            Write::Update(_, condition) | Write::Merge(_, condition) => condition,
            Write::Delete { condition, .. } => condition,
        };
        match written {
            None => Err(TableError::EntityNotFound),
            Some(ts) if condition.allows(ts) => Ok(()),
            Some(ts) => Err(TableError::ConditionFailed { current: ETag(ts) }),
        }
    }

    fn outcome(self, decision: Decision, ts: CommitTs) -> WriteOutcome {
        let Decision { change, existed } = decision;
        let mut entity = match change {
            Change::Merged(_, merged) => Some(merged),
            Change::AsGiven | Change::Remove => self.write.into_entity(),
        };
        if let Some(entity) = &mut entity {
            (entity.ts, entity.expires) = (ts, self.expires);
        }
        WriteOutcome { ts, entity, existed }
    }
}

/// The service knows no negative zero.
fn unsign_zero(value: &mut Value) {
    if let Value::Double(number) = value
        && *number == 0.0
    {
        *number = 0.0;
    }
}

/// `entity` over the properties that are stored: those keep their place, new ones follow.
fn overlay(entity: &Entity, mut properties: Vec<(String, Value)>) -> Entity {
    let mut given: HashMap<&str, &Value> =
        entity.properties.iter().map(|(name, value)| (name.as_str(), value)).collect();
    for (name, value) in &mut properties {
        if let Some(new) = given.remove(name.as_str()) {
            *value = new.clone();
        }
    }
    let is_new = |(name, _): &&(String, Value)| given.contains_key(name.as_str());
    properties.extend(entity.properties.iter().filter(is_new).cloned());
    Entity { properties, ..Entity::new(&entity.partition_key, &entity.row_key) }
}

/// What becomes of a row, and whether it was there.
struct Decision {
    change: Change,
    existed: bool,
}

/// What becomes of a row.
enum Change {
    /// It holds what was given.
    AsGiven,
    /// It holds these bytes, which are this entity.
    Merged(Vec<u8>, Entity),
    Remove,
}

/// Changes of one partition, each of another row.
pub(crate) struct Group {
    pub(crate) writes: Vec<Prepared>,
    /// Most bytes of what they leave behind.
    pub(crate) stored_bytes_max: usize,
}

impl Group {
    /// A single change.
    pub(crate) fn of(write: Prepared) -> Group {
        Group { writes: vec![write], stored_bytes_max: rules::GROUP_STORED_BYTES_MAX }
    }
}

/// Applies a group as one commit or not at all.
pub(crate) fn apply(
    store: &impl RowStore,
    table: TableId,
    reach: Reach,
    group: Group,
) -> EngineResult<Pending<Vec<WriteOutcome>, GroupError>> {
    let Group { writes, stored_bytes_max } = group;
    let partition_key = writes.first().map(Prepared::partition_key).unwrap_or_default();
    let mut decisions = Ok(Vec::new());
    let ticket = store.update(table, &partition_key, None, reach, &mut |partition| {
        decisions = decide_all(&writes, partition, reach, stored_bytes_max)?;
        let decisions = match &mut decisions {
            Ok(decisions) => decisions,
            // Planted (`planted.rs`): what stands before the refused change stays.
            Err(refused) if crate::planted!("B30") => {
                let mut before = writes.iter().take(refused.index);
                return before.try_for_each(|write| partition.put(&write.row_key, &write.encoded));
            }
            // Nothing is written; the ticket still waits for what was read to be safe.
            Err(_) => return Ok(()),
        };
        for (write, decision) in writes.iter().zip(decisions) {
            let merged;
            let value = match &mut decision.change {
                Change::AsGiven => &write.encoded,
                Change::Merged(value, _) => {
                    merged = std::mem::take(value); // Not for longer than needed: they may be 100 MiB.
                    &merged
                }
                Change::Remove => {
                    partition.delete(&write.row_key)?;
                    continue;
                }
            };
            match write.expires {
                None => partition.put(&write.row_key, value)?,
                Some(expires) => partition.put_until(&write.row_key, value, expires)?,
            }
        }
        Ok(())
    })?;
    let ts = ticket.ts();
    let outcome = decisions.map(|decisions| {
        writes.into_iter().zip(decisions).map(|(write, what)| write.outcome(what, ts)).collect()
    });
    Ok(Pending { outcome, ticket })
}

/// Decides all changes against the state before any of them: as no row comes twice, that is the
/// state that each one sees.
fn decide_all(
    writes: &[Prepared],
    partition: &mut dyn PartitionUpdate,
    reach: Reach,
    stored_bytes_max: usize,
) -> EngineResult<Result<Vec<Decision>, GroupError>> {
    let mut decisions = Vec::with_capacity(writes.len());
    let mut bytes = 0;
    for (index, write) in writes.iter().enumerate() {
        match write.decide(partition, reach)? {
            Ok(decision) => {
                bytes += match &decision.change {
                    Change::AsGiven => write.encoded.len(),
                    Change::Merged(value, _) => value.len(),
                    Change::Remove => 0,
                };
                decisions.push(decision);
            }
            Err(error) => return Ok(Err(GroupError { index, error })),
        }
        if bytes > stored_bytes_max {
            let error = TableError::GroupTooLarge { bytes };
            return Ok(Err(GroupError { index, error }));
        }
    }
    Ok(Ok(decisions))
}
