//! The checker of isolation against histories with one anomaly each, and against ones without.

use tabulith_testkit::isolation::Step::{Append, Read};
use tabulith_testkit::isolation::{Class, Fate, Step, Transaction, check};
use tabulith_testkit::seed::Rng;

/// One that overlaps all others.
fn at_once(steps: &[Step]) -> Transaction {
    Transaction { begin: 0, end: 1_000, fate: Fate::Committed, steps: steps.to_vec() }
}

fn at(time: u64, steps: &[Step]) -> Transaction {
    Transaction { begin: time, end: time + 1, fate: Fate::Committed, steps: steps.to_vec() }
}

fn ended(fate: Fate, steps: &[Step]) -> Transaction {
    Transaction { fate, ..at_once(steps) }
}

#[track_caller]
fn finds(class: Class, history: &[Transaction]) {
    match check(history) {
        Ok(seen) => panic!("{class:?} was not found: {seen:?}"),
        Err(anomaly) => assert_eq!(anomaly.class, class, "{anomaly}"),
    }
}

#[test]
fn reads_within_a_transaction() {
    finds(Class::Internal, &[at_once(&[Append(1, 1), Read(1, vec![])])]);
    finds(
        Class::Internal,
        &[at_once(&[Append(1, 1)]), at_once(&[Read(1, vec![]), Read(1, vec![1])])],
    );
    assert!(check(&[at_once(&[Read(1, vec![]), Append(1, 1), Read(1, vec![1])])]).is_ok());
}

#[test]
fn lists_that_cannot_be() {
    finds(Class::Garbage, &[at_once(&[Read(1, vec![9])])]);
    finds(Class::Twice, &[at_once(&[Append(1, 1)]), at_once(&[Read(1, vec![1, 1])])]);
    finds(
        Class::Torn,
        &[
            at_once(&[Append(1, 1)]),
            at_once(&[Append(1, 2)]),
            at_once(&[Read(1, vec![1])]),
            at_once(&[Read(1, vec![2])]),
        ],
    );
}

#[test]
fn g1a_something_aborted_was_read() {
    finds(Class::G1a, &[ended(Fate::Aborted, &[Append(1, 1)]), at_once(&[Read(1, vec![1])])]);
    // Of one whose end nobody knows that only tells how it ended.
    assert!(check(&[ended(Fate::Unknown, &[Append(1, 1)]), at_once(&[Read(1, vec![1])])]).is_ok());
}

#[test]
fn g1b_a_state_amid_a_transaction_was_read() {
    finds(Class::G1b, &[at_once(&[Append(1, 1), Append(1, 2)]), at_once(&[Read(1, vec![1])])]);
}

#[test]
fn g0_writes_in_a_circle() {
    finds(
        Class::G0,
        &[
            at_once(&[Append(1, 1), Append(2, 1)]),
            at_once(&[Append(1, 2), Append(2, 2)]),
            at_once(&[Read(1, vec![1, 2])]),
            at_once(&[Read(2, vec![2, 1])]),
        ],
    );
}

#[test]
fn g1c_each_reads_the_other() {
    finds(
        Class::G1c,
        &[at_once(&[Append(1, 1), Read(2, vec![1])]), at_once(&[Append(2, 1), Read(1, vec![1])])],
    );
}

#[test]
fn g_single_half_of_a_batch_was_read() {
    finds(
        Class::GSingle,
        &[at_once(&[Append(1, 1), Append(2, 1)]), at_once(&[Read(1, vec![1]), Read(2, vec![])])],
    );
    // A lost update: both read the list as it was and append.
    finds(
        Class::GSingle,
        &[
            at_once(&[Read(1, vec![]), Append(1, 1)]),
            at_once(&[Read(1, vec![]), Append(1, 2)]),
            at_once(&[Read(1, vec![1, 2])]),
        ],
    );
}

#[test]
fn g2_each_overlooks_what_the_other_writes() {
    finds(
        Class::G2,
        &[
            at_once(&[Read(1, vec![]), Append(2, 1)]),
            at_once(&[Read(2, vec![]), Append(1, 1)]),
            at_once(&[Read(1, vec![1]), Read(2, vec![1])]),
        ],
    );
}

#[test]
fn circles_that_close_by_time_alone() {
    // Written later, and placed before.
    finds(
        Class::G0Late,
        &[at(1, &[Append(1, 1)]), at(3, &[Append(1, 2)]), at(5, &[Read(1, vec![2, 1])])],
    );
    // Read before it was written.
    finds(Class::G1cLate, &[at(1, &[Read(1, vec![1])]), at(3, &[Append(1, 1)])]);
    // A stale read; and an acknowledged write that is gone.
    finds(
        Class::GSingleLate,
        &[at(1, &[Append(1, 1)]), at(3, &[Read(1, vec![])]), at(5, &[Read(1, vec![1])])],
    );
    finds(Class::GSingleLate, &[at(1, &[Append(1, 1)]), at(3, &[Read(1, vec![])])]);
    // One overlooks another, which overlooks a third that had ended before the first began.
    let long = Transaction { begin: 0, end: 99, ..at(0, &[Append(1, 1), Read(2, vec![])]) };
    finds(Class::G2Late, &[long, at(1, &[Append(2, 1)]), at(3, &[Read(1, vec![])])]);
}

/// Transactions one after the other over a few lists, stretched so that they overlap.
fn serial(rng: &mut Rng, count: u64) -> Vec<Transaction> {
    let mut lists: Vec<Vec<u64>> = vec![Vec::new(); 4];
    let mut history = Vec::new();
    for n in 1..=count {
        let mut steps = Vec::new();
        let mut done = lists.clone();
        for part in 0..rng.between(1, 4) as u64 {
            let key = rng.below(4);
            match rng.chance(50) {
                true => {
                    let element = n * 10 + part;
                    done[key].push(element);
                    steps.push(Append(key as u32, element));
                }
                false => steps.push(Read(key as u32, done[key].clone())),
            }
        }
        let fate = match rng.below(10) {
            0 => Fate::Aborted,
            1 => Fate::Unknown,
            _ => Fate::Committed,
        };
        if fate == Fate::Committed || fate == Fate::Unknown && rng.chance(50) {
            lists = done;
        }
        let (early, late) = (rng.below(30) as u64, rng.below(30) as u64);
        history.push(Transaction {
            begin: (n * 10).saturating_sub(early),
            end: n * 10 + 1 + late,
            fate,
            steps,
        });
    }
    history
}

#[test]
fn what_ran_one_after_the_other_passes_and_what_is_changed_in_it_does_not() {
    let mut rng = Rng::new(1);
    let mut found = 0;
    for _ in 0..300 {
        let mut history = serial(&mut rng, 60);
        let seen = check(&history).expect("it ran one after the other");
        assert!(seen.edges > 30 && seen.elements > 20, "{seen:?}");
        // The last element of some long read is lost.
        let reads = history.iter_mut().rev().filter(|t| t.fate == Fate::Committed);
        let mut lists = reads.flat_map(|t| &mut t.steps).filter_map(|step| match step {
            Read(_, list) if list.len() > 12 => Some(list),
            _ => None,
        });
        if let Some(list) = lists.next() {
            list.remove(rng.below(9));
            assert!(check(&history).is_err());
            found += 1;
        }
    }
    assert!(found > 200, "{found} changed histories");
}
