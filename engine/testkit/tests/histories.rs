//! The checkers of histories against histories that are known: every anomaly is found, and nothing
//! else.

use std::collections::BTreeMap;
use tabulith_testkit::linear::{Call, Model};
use tabulith_testkit::register::{Act, Answer, Ask, Condition, Entity, check};
use tabulith_testkit::seed::{Replay, Rng, seed_or};

/// A call on key 0.
fn call(begin: u64, end: u64, ask: Ask, answer: Answer) -> Call<Act> {
    Call { begin, end: Some(end), act: Act { key: Some(0), ask, answer } }
}

fn lost(begin: u64, ask: Ask) -> Call<Act> {
    Call { begin, end: None, act: Act { key: Some(0), ask, answer: Answer::Unknown } }
}

#[track_caller]
fn passes(calls: &[Call<Act>]) {
    if let Err(error) = check(true, calls) {
        panic!("{error}");
    }
}

#[track_caller]
fn fails(calls: &[Call<Act>]) {
    assert!(check(true, calls).is_err(), "the anomaly was not found");
}

use Answer::{Absent, Changed, Done, Exists, Found, NoTable, Refused, Unknown, Written};
use Ask::{CreateTable, Delete, DropTable, Get, Insert, Put, Replace};
use Condition::{Any, Is};

#[test]
fn a_history_in_order_passes() {
    passes(&[
        call(1, 2, Get, Absent),
        call(3, 4, Insert(7), Written(100)),
        call(5, 6, Get, Found(7, 100)),
        call(7, 8, Insert(8), Exists),
        call(9, 10, Replace(9, Is(100)), Written(101)),
        call(11, 12, Replace(10, Is(100)), Changed),
        call(13, 14, Delete(Is(101)), Done),
        call(15, 16, Delete(Any), Absent),
        call(17, 18, Put(11), Refused),
    ]);
}

#[test]
fn calls_that_overlap_may_go_either_way() {
    for seen in [Absent, Found(7, 100)] {
        passes(&[call(1, 10, Insert(7), Written(100)), call(2, 9, Get, seen)]);
    }
}

#[test]
fn a_lost_write_may_happen_late_or_never_but_not_early_and_not_twice() {
    let write = |value, etag, at| call(at, at + 1, Put(value), Written(etag));
    let see = |value, etag, at| call(at, at + 1, Get, Found(value, etag));
    passes(&[lost(1, Put(7)), call(2, 3, Get, Absent), write(8, 100, 4), see(8, 100, 6)]);
    passes(&[lost(1, Put(7)), call(2, 3, Get, Absent), see(7, 100, 4), see(7, 100, 6)]);
    passes(&[lost(1, Put(7)), write(8, 100, 2), see(8, 100, 4), see(7, 101, 6)]);
    passes(&[lost(1, Delete(Any)), write(8, 100, 2), see(8, 100, 4), call(6, 7, Get, Absent)]);
    // Before it was asked for.
    fails(&[see(7, 100, 1), lost(3, Put(7))]);
    // Seen, overwritten, seen again.
    fails(&[lost(1, Put(7)), see(7, 100, 2), write(8, 101, 4), see(8, 101, 6), see(7, 100, 8)]);
    // Its ETag would be older than one that was there before it.
    fails(&[lost(1, Put(7)), write(8, 100, 2), see(8, 100, 4), see(7, 99, 6)]);
}

#[test]
fn every_planted_anomaly_is_found() {
    let write = |value, etag, at| call(at, at + 1, Put(value), Written(etag));
    // Stale: an older value after a newer one was acknowledged.
    fails(&[write(1, 10, 1), write(2, 11, 3), call(5, 6, Get, Found(1, 10))]);
    // Back in time: two reads of which the later sees the older.
    fails(&[
        write(1, 10, 1),
        call(3, 9, Put(2), Written(11)),
        call(4, 5, Get, Found(2, 11)),
        call(6, 7, Get, Found(1, 10)),
    ]);
    // Lost: an acknowledged write is not there.
    fails(&[call(1, 2, Insert(1), Written(10)), call(3, 4, Get, Absent)]);
    // Lost update: two compare the same ETag, and both succeed.
    fails(&[
        write(1, 10, 1),
        call(3, 8, Replace(2, Is(10)), Written(11)),
        call(4, 7, Replace(3, Is(10)), Written(12)),
    ]);
    // Two inserts of one entity.
    fails(&[call(1, 9, Insert(1), Written(10)), call(2, 8, Insert(2), Written(11))]);
    // Read of what was refused, and of what nobody wrote.
    fails(&[call(1, 2, Put(1), Refused), call(3, 4, Get, Found(1, 10))]);
    fails(&[write(1, 10, 1), call(3, 4, Get, Found(2, 11))]);
    // A refusal without a reason: of an ETag that is right, of a place that is free.
    fails(&[write(1, 10, 1), call(3, 4, Replace(2, Is(10)), Changed)]);
    fails(&[call(1, 2, Insert(1), Exists)]);
    fails(&[write(1, 10, 1), call(3, 4, Delete(Any), Absent)]);
    // Deleted, and back.
    fails(&[write(1, 10, 1), call(3, 4, Delete(Any), Done), call(5, 6, Get, Found(1, 10))]);
    // One ETag for two values, two for one, and one that does not rise.
    fails(&[write(1, 10, 1), write(2, 10, 3)]);
    fails(&[write(1, 10, 1), call(3, 4, Get, Found(1, 11))]);
    fails(&[write(1, 10, 1), write(2, 9, 3)]);
    // Half of a table: gone for one call, back for the next.
    let table = |begin, ask| Call {
        begin,
        end: Some(begin + 1),
        act: Act { key: None, ask, answer: Done },
    };
    passes(&[
        write(1, 10, 1),
        table(3, DropTable),
        call(5, 6, Get, NoTable),
        table(7, CreateTable),
        call(9, 10, Get, Absent),
    ]);
    fails(&[write(1, 10, 1), table(3, DropTable), call(5, 6, Get, Found(1, 10))]);
    fails(&[
        write(1, 10, 1),
        table(3, DropTable),
        table(5, CreateTable),
        call(7, 8, Get, Found(1, 10)),
    ]);
}

/// Tries every order there is, without any of the shortcuts.
fn by_force(model: &Entity, calls: &[Call<Act>]) -> bool {
    fn go(
        model: &Entity,
        calls: &[Call<Act>],
        left: &mut Vec<usize>,
        state: &<Entity as Model>::State,
    ) -> bool {
        if left.iter().all(|n| calls[*n].end.is_none()) {
            return true;
        }
        let first_end = left.iter().filter_map(|n| calls[*n].end).min().unwrap_or(u64::MAX);
        for at in 0..left.len() {
            let n = left[at];
            if calls[n].begin > first_end {
                continue;
            }
            if let Some(after) = model.apply(state, &calls[n].act) {
                left.remove(at);
                let found = go(model, calls, left, &after);
                left.insert(at, n);
                if found {
                    return true;
                }
            }
        }
        false
    }
    go(model, calls, &mut (0..calls.len()).collect(), &model.initial())
}

/// When calls begin, take effect and end.
fn spans(rng: &mut Rng, count: usize) -> Vec<[u64; 3]> {
    let mut times: Vec<u64> = (0..3 * count as u64).collect();
    for at in (1..times.len()).rev() {
        times.swap(at, rng.below(at + 1));
    }
    let span = |times: &[u64]| {
        let mut span = [times[0], times[1], times[2]];
        span.sort_unstable();
        span
    };
    times.chunks(3).map(span).collect()
}

/// A small history that happened, and one time in two something in it changed.
fn small_history(rng: &mut Rng) -> Vec<Call<Act>> {
    let count = rng.between(2, 7);
    let mut spans = spans(rng, count);
    // By when they take effect.
    spans.sort_by_key(|span| span[1]);
    let (mut now, mut etag) = (None, 10);
    let mut known = vec![10];
    let mut calls = Vec::new();
    for (n, [begin, _, end]) in spans.into_iter().enumerate() {
        let value = n as u64 + 1;
        let condition = if rng.chance(50) { Any } else { Is(*rng.pick(&known)) };
        let ask = match rng.below(6) {
            0 | 1 => Get,
            2 => Insert(value),
            3 => Put(value),
            4 => Replace(value, condition),
            _ => Delete(condition),
        };
        let fits = |current: Option<(u64, u64)>, condition| match (current, condition) {
            (None, _) => Err(Absent),
            (Some((_, own)), Is(wanted)) if own != wanted => Err(Changed),
            _ => Ok(()),
        };
        let refusal = match ask {
            Insert(_) if now.is_some() => Err(Exists),
            Replace(_, condition) | Delete(condition) => fits(now, condition),
            _ => Ok(()),
        };
        let mut answer = match (ask, refusal) {
            (Get, _) => now.map_or(Absent, |(value, etag)| Found(value, etag)),
            (_, Err(refusal)) => refusal,
            (Delete(_), _) => {
                now = None;
                Done
            }
            _ => {
                etag += 1;
                known.push(etag);
                now = Some((value, etag));
                Written(etag)
            }
        };
        let is_lost = rng.chance(25);
        if is_lost {
            answer = Unknown;
        }
        let end = (!is_lost).then_some(end);
        if !(is_lost && ask == Get) {
            calls.push(Call { begin, end, act: Act { key: Some(0), ask, answer } });
        }
    }
    if rng.chance(50) && !calls.is_empty() {
        let at = rng.below(calls.len());
        spoil(rng, &mut calls[at].act);
    }
    calls
}

/// Another answer than that which was given.
fn spoil(rng: &mut Rng, act: &mut Act) {
    let value = rng.between(1, 7) as u64;
    act.answer = match act.answer {
        Found(..) if rng.chance(50) => Absent,
        Found(..) | Absent if act.ask == Get => Found(value, 10 + value),
        Written(_) if rng.chance(50) => Refused,
        Written(etag) => Written(etag + 1),
        Done => Absent,
        Exists => Written(11 + value),
        Changed | Absent => Done,
        other => other,
    };
}

#[test]
fn the_search_agrees_with_trying_every_order() {
    let seed = seed_or(1);
    let _replay = Replay::new(seed, "cargo test -p tabulith-testkit --test histories");
    let mut rng = Rng::new(seed);
    let mut counts = BTreeMap::new();
    for _ in 0..40_000 {
        let calls = small_history(&mut rng);
        let mut etags = std::collections::HashMap::new();
        let mut one_each = true;
        for call in &calls {
            let told = match (call.act.ask, call.act.answer) {
                (_, Found(value, etag)) => Some((value, etag)),
                (Insert(v) | Put(v) | Replace(v, _), Written(etag)) => Some((v, etag)),
                _ => None,
            };
            if let Some((value, etag)) = told {
                one_each &= etags.insert(value, etag).is_none_or(|other| other == etag);
            }
        }
        let found = check(true, &calls);
        let possible = one_each && by_force(&Entity { has_table: true, etags }, &calls);
        assert_eq!(found.is_ok(), possible, "{found:?} for {calls:#?}");
        *counts.entry(possible).or_insert(0) += 1;
    }
    assert!(counts[&true] > 10_000 && counts[&false] > 5_000, "{counts:?}");
}

#[test]
fn a_long_history_with_many_lost_calls_is_checked_in_few_steps() {
    // What eight clients do to one key that they all fight for, one call in ten lost.
    let mut rng = Rng::new(2);
    let (mut now, mut etag, mut told, mut clock) = (None, 0_u64, 0_u64, 0_u64);
    let mut calls = Vec::new();
    for value in 1..=20_000 {
        let begin = clock + 1;
        clock += 10;
        let end = clock + rng.below(80) as u64; // Overlaps the eight that follow.
        let is_lost = rng.chance(10);
        let (ask, answer) = match (rng.below(4), now) {
            (0, _) => (Get, now.map_or(Absent, |(value, etag)| Found(value, etag))),
            (1, Some((_, old))) => {
                etag += 1;
                now = Some((value, etag));
                // What nobody was told, nobody can ask for.
                let condition = if told == old { Is(old) } else { Any };
                (Replace(value, condition), Written(etag))
            }
            (2, Some(_)) => {
                now = None;
                (Delete(Any), Done)
            }
            _ => {
                etag += 1;
                now = Some((value, etag));
                (Put(value), Written(etag))
            }
        };
        if let (false, Found(_, etag) | Written(etag)) = (is_lost, answer) {
            told = etag;
        }
        match is_lost {
            true if ask != Get => calls.push(lost(begin, ask)),
            _ => calls.push(call(begin, end.max(begin + 1), ask, answer)),
        }
    }
    let checked = check(true, &calls).expect("it happened");
    assert!(checked.unknown > 1_000 && checked.steps < 400_000, "{checked:?}");
}
