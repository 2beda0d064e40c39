//! Histories of entities under ETags: each key for itself, as a register that is compared and set.
//!
//! Every write of a history brings a value of its own. ETags are numbers that rise with each write
//! of a key; an ETag that nobody was told is learned from whoever read its value.

use crate::linear::{self, Call, Model, Stuck, Verdict};
use crate::seed::Rng;
use std::collections::HashMap;

/// What a write asks of the entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// That it exists.
    Any,
    /// That it has this ETag.
    Is(u64),
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// The entity.
    Get,
    /// A new entity.
    Insert(u64),
    /// The entity with this value, whether there is one or not.
    Put(u64),
    /// This value in place of the one that is there.
    Replace(u64, Condition),
    /// That it is no more.
    Delete(Condition),
    /// The table of the entity.
    CreateTable,
    /// That the table is no more, with all in it.
    DropTable,
}

impl Ask {
    /// A write by somebody who knows that ETag, if any: what compares mostly does so with it.
    pub fn write(rng: &mut Rng, value: u64, etag: Option<u64>) -> Ask {
        let condition = match etag {
            Some(etag) if rng.chance(75) => Condition::Is(etag),
            _ => Condition::Any,
        };
        match rng.below(10) {
            0 | 1 => Ask::Insert(value),
            2 => Ask::Put(value),
            3 | 4 => Ask::Delete(condition),
            _ => Ask::Replace(value, condition),
        }
    }
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Value and ETag.
    Found(u64, u64),
    /// There is no such entity.
    Absent,
    /// There is no such table.
    NoTable,
    /// It was written, and has this ETag now.
    Written(u64),
    /// It was done, and there is nothing to say.
    Done,
    /// There is such an entity, or table, already.
    Exists,
    /// The ETag is another.
    Changed,
    /// Nothing was done, whatever there was.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// A call on a key; `None` for one on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Act {
    /// Which entity.
    pub key: Option<u32>,
    /// What was asked.
    pub ask: Ask,
    /// What was answered.
    pub answer: Answer,
}

/// An entity of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    table: bool,
    /// Value and ETag, where anybody knows it.
    now: Option<(u64, Option<u64>)>,
    /// No ETag from here down will be given any more.
    newest: u64,
}

/// The model of one entity.
#[derive(Clone, Debug, Default)]
pub struct Entity {
    /// Whether the table is there at first.
    pub has_table: bool,
    /// ETags of values by those who were told or read them.
    pub etags: HashMap<u64, u64>,
}

impl Entity {
    /// The register with a new value in it, if its ETag may be the next.
    fn written(&self, state: &Register, value: u64, answer: Answer) -> Option<Register> {
        let etag = match answer {
            Answer::Written(etag) => Some(etag),
            _ => self.etags.get(&value).copied(),
        };
        if etag.is_some_and(|etag| etag <= state.newest) {
            return None;
        }
        let newest = etag.unwrap_or(state.newest);
        Some(Register { now: Some((value, etag)), newest, ..*state })
    }
}

impl Model for Entity {
    type State = Register;
    type Act = Act;

    fn initial(&self) -> Register {
        Register { table: self.has_table, now: None, newest: 0 }
    }

    fn apply(&self, state: &Register, act: &Act) -> Option<Register> {
        let Act { ask, answer, .. } = *act;
        if answer == Answer::Refused {
            return Some(*state);
        }
        // What the register itself would answer, and what it would be then.
        let (own, after) = match (ask, state.now) {
            (Ask::CreateTable, _) if state.table => (Answer::Exists, *state),
            (Ask::CreateTable, _) => (Answer::Done, Register { table: true, ..*state }),
            (_, _) if !state.table => (Answer::NoTable, *state),
            (Ask::DropTable, _) => (Answer::Done, Register { table: false, now: None, ..*state }),
            (Ask::Get, None) => (Answer::Absent, *state),
            (Ask::Get, Some((value, etag))) => {
                let fits = matches!(answer, Answer::Found(v, e) if v == value && Some(e) == etag);
                return (fits || answer == Answer::Unknown).then_some(*state);
            }
            (Ask::Insert(_), Some(_)) => (Answer::Exists, *state),
            (Ask::Replace(..) | Ask::Delete(_), None) => (Answer::Absent, *state),
            (
                Ask::Replace(_, Condition::Is(wanted)) | Ask::Delete(Condition::Is(wanted)),
                Some((_, etag)),
            ) if etag != Some(wanted) => (Answer::Changed, *state),
            (Ask::Delete(_), Some(_)) => (Answer::Done, Register { now: None, ..*state }),
            (Ask::Insert(value) | Ask::Put(value) | Ask::Replace(value, _), _) => {
                return match answer {
                    Answer::Written(_) | Answer::Unknown => self.written(state, value, answer),
                    _ => None,
                };
            }
        };
        (answer == own || answer == Answer::Unknown).then_some(after)
    }
}

/// What a history came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Calls, those on tables once.
    pub calls: u64,
    /// Of them without an answer.
    pub unknown: u64,
    /// Keys.
    pub keys: u64,
    /// Steps of the searches together.
    pub steps: u64,
}

impl Checked {
    /// Both.
    pub fn add(&mut self, other: &Checked) {
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.keys += other.keys;
        self.steps += other.steps;
    }
}

/// Stands for every value of an unanswered write that nobody ever saw: they are all the same.
const UNSEEN: u64 = u64::MAX;

/// Steps that a search may take for each call: many more than one that ends ever did.
const STEPS_PER_CALL: u64 = 2_000;

/// Checks the history of each key, with the calls on the table in it. The error tells the first key
/// whose calls have no order.
pub fn check(has_table: bool, calls: &[Call<Act>]) -> Result<Checked, String> {
    let mut by_key: HashMap<u32, Vec<Call<Act>>> = HashMap::new();
    let mut etags: HashMap<u64, u64> = HashMap::new();
    for call in calls {
        if let Some(key) = call.act.key {
            by_key.entry(key).or_default().push(call.clone());
        }
        let told = match (call.act.ask, call.act.answer) {
            (_, Answer::Found(value, etag)) => Some((value, etag)),
            (Ask::Insert(v) | Ask::Put(v) | Ask::Replace(v, _), Answer::Written(etag)) => {
                Some((v, etag))
            }
            _ => None,
        };
        if let Some((value, etag)) = told
            && let Some(other) = etags.insert(value, etag)
            && other != etag
        {
            return Err(format!("the ETag of value {value} is {etag} and {other}"));
        }
    }
    for call in by_key.values_mut().flatten().filter(|call| call.end.is_none()) {
        match &mut call.act.ask {
            Ask::Insert(value) | Ask::Put(value) | Ask::Replace(value, _)
                if !etags.contains_key(value) =>
            {
                *value = UNSEEN;
            }
            _ => {}
        }
    }
    let unknown = calls.iter().filter(|call| call.end.is_none()).count() as u64;
    let keys = by_key.len() as u64;
    let mut checked = Checked { calls: calls.len() as u64, unknown, keys, steps: 0 };
    let model = Entity { has_table, etags };
    let mut keys: Vec<_> = by_key.into_iter().collect();
    keys.sort_by_key(|(key, _)| *key);
    for (key, mut own) in keys {
        own.extend(calls.iter().filter(|call| call.act.key.is_none()).cloned());
        match linear::check(&model, &own, own.len() as u64 * STEPS_PER_CALL) {
            Verdict::Possible(steps) => checked.steps += steps,
            Verdict::TooHard => return Err(format!("key {key}: too many ways to order its calls")),
            Verdict::Impossible(stuck) => return Err(told(key, &own, &stuck)),
        }
    }
    Ok(checked)
}

/// A failure for people: what there was, the calls that did not fit, and those around them.
fn told(key: u32, calls: &[Call<Act>], stuck: &Stuck) -> String {
    let mut text = format!(
        "key {key}: {} of {} calls have a place, then there is {} and none of these fits:\n",
        stuck.placed,
        calls.len(),
        stuck.state
    );
    let line = |call: &Call<Act>| {
        let end = call.end.map_or("     ?".to_owned(), |end| format!("{end:6}"));
        format!("  {:6} .. {end}  {:?} -> {:?}\n", call.begin, call.act.ask, call.act.answer)
    };
    stuck.next.iter().for_each(|call| text += &line(&calls[*call]));
    let first = stuck.next.iter().map(|call| calls[*call].begin).min().unwrap_or(0);
    let mut near: Vec<_> = calls.iter().filter(|call| call.begin <= first).collect();
    near.sort_by_key(|call| call.begin);
    text += "before them:\n";
    near.iter().rev().take(12).rev().for_each(|call| text += &line(call));
    text
}
