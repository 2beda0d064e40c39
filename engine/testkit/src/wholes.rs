//! Histories of entities across their keys: a batch is there whole or not at all, and a page shows
//! one moment.
//!
//! The calls of one request begin at one time: the changes of a batch, and what a page says of each
//! key. ETags are the places of commits in the one order of all of them, so whoever sees a commit
//! sees every commit before it. The newest ETag of a page says how far it goes at least; of every
//! key it must show what the last change up to there made of it, or something newer.
//!
//! Absent: when a delete happened that was no part of a batch. Where a page misses an entity, any
//! delete explains it that may have come between.

use crate::linear::Call;
use crate::register::{Act, Answer, Ask};
use std::collections::{BTreeMap, HashMap};

/// What pages have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wholes {
    /// Pages of several keys with an entity in them.
    pub pages: u64,
    /// How often one of them showed a batch of several changes: some change of it as it was made.
    pub batches: u64,
}

impl Wholes {
    /// Both.
    pub fn add(&mut self, other: &Wholes) {
        self.pages += other.pages;
        self.batches += other.batches;
    }
}

/// A change that took effect.
struct Change {
    begin: u64,
    deletes: bool,
    of_several: bool,
}

/// The calls that may have removed an entity: deletes by its key, drops of the table by `None`.
type Removals<'a> = HashMap<Option<u32>, Vec<&'a Call<Act>>>;

/// Holds every page against every batch and every single change. The error tells the first that
/// does not fit.
pub fn check(calls: &[Call<Act>]) -> Result<Wholes, String> {
    let mut requests: BTreeMap<u64, Vec<&Call<Act>>> = BTreeMap::new();
    let (mut etags, mut removals) = (HashMap::new(), Removals::new());
    for call in calls {
        if call.act.key.is_some() {
            requests.entry(call.begin).or_default().push(call);
        }
        let Act { key, ask, answer } = call.act;
        match (ask, answer) {
            (_, Answer::Found(value, etag)) => _ = etags.insert(value, etag),
            (Ask::Delete(_) | Ask::DropTable, Answer::Done | Answer::Unknown) => {
                removals.entry(key).or_default().push(call);
            }
            (_, Answer::Written(etag)) => {
                etags.extend(value_of(ask).map(|value| (value, etag)));
            }
            _ => {}
        }
    }
    let mut changes = BTreeMap::new();
    for request in requests.values() {
        let Some(etag) = etag_of(request, &etags)? else { continue };
        for call in request {
            let Act { key, ask, .. } = call.act;
            let (begin, deletes) = (call.begin, matches!(ask, Ask::Delete(_)));
            let change = Change { begin, deletes, of_several: request.len() > 1 };
            changes.insert((key, etag), change);
        }
    }
    let mut wholes = Wholes::default();
    for page in requests.values().filter(|request| request.len() > 1) {
        if page.iter().all(|call| call.act.ask == Ask::Get) {
            wholes.add(&see(page, &changes, &removals)?);
        }
    }
    Ok(wholes)
}

fn value_of(ask: Ask) -> Option<u64> {
    match ask {
        Ask::Insert(value) | Ask::Put(value) | Ask::Replace(value, _) => Some(value),
        Ask::Get | Ask::Delete(_) | Ask::CreateTable | Ask::DropTable => None,
    }
}

/// The ETag of a request that changed something, as far as anybody was told or has seen it.
fn etag_of(request: &[&Call<Act>], etags: &HashMap<u64, u64>) -> Result<Option<u64>, String> {
    let mut known = None;
    for call in request {
        let Act { ask, answer, .. } = call.act;
        if ask == Ask::Get || !matches!(answer, Answer::Written(_) | Answer::Done | Answer::Unknown)
        {
            return Ok(None);
        }
        let own = value_of(ask).and_then(|value| etags.get(&value).copied());
        if let (Some(own), Some(other)) = (own, known)
            && own != other
        {
            return Err(format!("a batch has the ETags {other} and {own}:\n{}", told(request)));
        }
        known = own.or(known);
    }
    Ok(known)
}

/// Looks through a page.
fn see(
    page: &[&Call<Act>],
    changes: &BTreeMap<(Option<u32>, u64), Change>,
    removals: &Removals<'_>,
) -> Result<Wholes, String> {
    let found = |call: &&Call<Act>| match call.act.answer {
        Answer::Found(_, etag) => Some(etag),
        _ => None,
    };
    let Some(newest) = page.iter().filter_map(found).max() else { return Ok(Wholes::default()) };
    let end = page.iter().filter_map(|call| call.end).max().unwrap_or(u64::MAX);
    let mut shown = Vec::new();
    for call in page {
        let key = call.act.key;
        let Some(((_, etag), last)) = changes.range((key, 0)..=(key, newest)).next_back() else {
            continue;
        };
        let may_remove =
            |other: &&Call<Act>| other.begin < end && other.end.is_none_or(|end| end > last.begin);
        let fits = match call.act.answer {
            Answer::Found(_, seen) => seen > *etag || (seen == *etag && !last.deletes),
            Answer::Absent => {
                let mut others = [key, None].into_iter().filter_map(|key| removals.get(&key));
                last.deletes || others.any(|others| others.iter().any(&may_remove))
            }
            _ => true,
        };
        if !fits {
            return Err(format!(
                "a page shows ETag {newest}, and of key {key:?} not what was made of it at {etag}:\n{}",
                told(page)
            ));
        }
        if last.of_several && found(call) == Some(*etag) && !shown.contains(etag) {
            shown.push(*etag);
        }
    }
    Ok(Wholes { pages: 1, batches: shown.len() as u64 })
}

fn told(request: &[&Call<Act>]) -> String {
    let line = |call: &&Call<Act>| {
        let Act { key, ask, answer } = call.act;
        format!("  {} .. {:?}  key {key:?}: {ask:?} -> {answer:?}\n", call.begin, call.end)
    };
    request.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Wholes, check};
    use crate::linear::Call;
    use crate::register::{Act, Answer, Ask, Condition};
    use Answer::{Absent, Changed, Done, Found, Refused, Unknown, Written};
    use Ask::{Delete, DropTable, Get, Put};

    /// The calls of a request that begins at `begin`, on keys from 0 on.
    fn request(begin: u64, calls: &[(Ask, Answer)]) -> Vec<Call<Act>> {
        let call = |(key, (ask, answer)): (u32, &(Ask, Answer))| {
            let end = (*answer != Unknown).then_some(begin + 1 + u64::from(key));
            Call { begin, end, act: Act { key: Some(key), ask: *ask, answer: *answer } }
        };
        (0..).zip(calls).map(call).collect()
    }

    fn page(begin: u64, answers: &[Answer]) -> Vec<Call<Act>> {
        let calls: Vec<_> = answers.iter().map(|answer| (Get, *answer)).collect();
        request(begin, &calls)
    }

    /// Two entities by a batch, and then what is given.
    fn after(requests: &[Vec<Call<Act>>]) -> Result<Wholes, String> {
        let first = request(10, &[(Put(1), Written(100)), (Put(2), Written(100))]);
        check(&[std::slice::from_ref(&first), requests].concat().concat())
    }

    #[track_caller]
    fn passes(requests: &[Vec<Call<Act>>], batches: u64) {
        assert_eq!(after(requests).map(|wholes| wholes.batches), Ok(batches));
    }

    #[track_caller]
    fn fails(requests: &[Vec<Call<Act>>]) {
        assert!(after(requests).is_err(), "it was not found: {requests:?}");
    }

    const ANY: Condition = Condition::Any;

    fn second(one: Answer, two: Answer) -> Vec<Call<Act>> {
        request(20, &[(Put(3), one), (Put(4), two)])
    }

    #[test]
    fn pages_before_and_after_a_batch_pass() {
        passes(&[page(30, &[Found(1, 100), Found(2, 100)])], 1);
        for answer in [Written(200), Unknown] {
            let batch = second(answer, answer);
            passes(&[batch.clone(), page(30, &[Found(1, 100), Found(2, 100)])], 1);
            passes(&[batch.clone(), page(30, &[Found(3, 200), Found(4, 200)])], 1);
            // Each was changed again.
            let one = request(40, &[(Put(5), Written(300))]);
            passes(&[batch.clone(), one, page(50, &[Found(5, 300), Found(4, 200)])], 1);
            let gone = request(40, &[(Delete(ANY), Done)]);
            passes(&[batch, gone, page(50, &[Absent, Found(4, 200)])], 1);
        }
        passes(&[second(Changed, Refused), page(30, &[Found(1, 100), Found(2, 100)])], 1);
    }

    #[test]
    fn half_a_batch_is_found_acknowledged_or_not() {
        for answer in [Written(200), Unknown] {
            let batch = second(answer, answer);
            fails(&[batch.clone(), page(30, &[Found(3, 200), Found(2, 100)])]);
            fails(&[batch.clone(), page(30, &[Found(1, 100), Found(4, 200)])]);
            fails(&[batch.clone(), page(30, &[Absent, Found(4, 200)])]);
            // A delete that had ended before, or began later, explains nothing.
            let gone = |begin| request(begin, &[(Delete(ANY), Done)]);
            fails(&[gone(15), batch.clone(), page(30, &[Absent, Found(4, 200)])]);
            fails(&[batch, page(30, &[Absent, Found(4, 200)]), gone(40)]);
        }
        // Nor does a newer one of the other half make up for it.
        let one = request(25, &[(Put(5), Written(300))]);
        fails(&[second(Unknown, Written(200)), one, page(30, &[Found(5, 300), Found(2, 100)])]);
    }

    #[test]
    fn a_delete_of_a_batch_is_part_of_it() {
        for (put, deleted) in [(Written(200), Done), (Unknown, Unknown)] {
            let batch = request(20, &[(Put(3), put), (Delete(ANY), deleted)]);
            passes(&[batch.clone(), page(30, &[Found(3, 200), Absent])], 1);
            passes(&[batch.clone(), page(30, &[Found(1, 100), Found(2, 100)])], 1);
            fails(&[batch, page(30, &[Found(3, 200), Found(2, 100)])]);
        }
    }

    #[test]
    fn a_page_of_two_moments_is_found() {
        let [mut one, mut two] = [(0, 3), (1, 4)].map(|(key, value)| {
            let mut calls = request(20 + value, &[(Put(value), Written(200 + value))]);
            calls[0].act.key = Some(key);
            calls
        });
        passes(&[one.clone(), two.clone(), page(30, &[Found(3, 203), Found(2, 100)])], 1);
        fails(&[one.clone(), two.clone(), page(30, &[Found(1, 100), Found(4, 204)])]);
        // Nor is half of a table gone.
        let drop = |begin| {
            vec![Call { begin, end: None, act: Act { key: None, ask: DropTable, answer: Unknown } }]
        };
        one.append(&mut two);
        fails(&[one.clone(), page(30, &[Absent, Found(4, 204)]), drop(50)]);
        passes(&[one, drop(29), page(30, &[Absent, Found(4, 204)])], 0);
    }

    #[test]
    fn a_batch_has_one_etag() {
        fails(&[second(Written(200), Written(201))]);
        fails(&[second(Written(200), Unknown), page(30, &[Found(3, 200), Found(4, 201)])]);
    }
}
