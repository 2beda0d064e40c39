//! The fault lab: decides which requests fail on purpose, and remembers tables that are said to be
//! going.
//!
//! Promise: what a rule does depends on the seed and on the requests that came before, in their
//! order, and on nothing else.

use crate::error::{INVALID_HEADER_VALUE, TABLE_BEING_DELETED, WireError};
use crate::faults::fault::Fault;
use crate::faults::rule::{Rule, Rules};
use crate::route::Operation;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tabulith::env::rng::Rng;

/// The header by which a client names the fault of its request.
pub const HEADER: &str = "x-tabulith-fault";

/// Most tables that are going at once; more of them are gone at once.
const GOING_MAX: usize = 10_000;

/// The lab. Without one no request fails on purpose, whatever its headers say.
#[derive(Debug)]
pub struct Lab {
    rules: Rules,
    turns: Mutex<Vec<Turns>>,
    injected: AtomicU64,
    /// Until when tables are going, by account and name in lower case.
    going: Mutex<HashMap<(String, String), Duration>>,
}

/// A request as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The account.
    pub account: &'a str,
    /// What it asks for.
    pub operation: &'a Operation,
    /// Whether it goes on with a query.
    pub goes_on: bool,
    /// What its header says.
    pub header: Option<&'a str>,
}

/// How far a rule has come.
#[derive(Debug)]
struct Turns {
    /// Requests that it was about.
    seen: u64,
    /// Those that it failed.
    fired: u64,
    chance: Rng,
}

impl Turns {
    /// Those of the rule at `index`: each rule has a chance of its own.
    fn new(seed: u64, index: usize) -> Turns {
        let own = Rng::seeded(seed).next_u64() ^ index as u64;
        Turns { seen: 0, fired: 0, chance: Rng::seeded(Rng::seeded(own).next_u64()) }
    }

    /// Counts a request that the rule is about. True where it is to fail.
    fn comes(&mut self, rule: &Rule) -> bool {
        self.seen += 1;
        let Some(counted) = self.seen.checked_sub(rule.skip).filter(|counted| *counted > 0) else {
            return false;
        };
        if counted % rule.every != 0 {
            return false;
        }
        // 53 bits: all that a double holds.
        let drawn = (self.chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < rule.chance && rule.limit.is_none_or(|limit| self.fired < limit)
    }
}

impl Lab {
    /// A lab that has seen no request.
    pub fn new(rules: Rules) -> Lab {
        let turns = (0..rules.rules.len()).map(|index| Turns::new(rules.seed, index)).collect();
        let (injected, going) = (AtomicU64::new(0), Mutex::default());
        Lab { rules, turns: Mutex::new(turns), injected, going }
    }

    /// What is to go wrong with a request. Its own header comes before all rules, which do not
    /// count it then.
    pub fn decide(&self, asked: Asked<'_>) -> Result<Option<Fault>, WireError> {
        let Some((fault, rule)) = (match asked.header {
            Some(text) => by_header(text, asked)?,
            None => self.by_rule(asked),
        }) else {
            return Ok(None);
        };
        let number = self.injected.fetch_add(1, Ordering::Relaxed) + 1;
        let (seed, operation) = (self.rules.seed, asked.operation.kind().name());
        let table = asked.operation.table().unwrap_or_default();
        // Rule 0 is the request's own header.
        tracing::info!(number, ?fault, rule, seed, operation, table, "a fault on purpose");
        Ok(Some(fault))
    }

    /// The first rule that fires, and its number. Every rule counts the requests that it is about,
    /// whichever fires.
    fn by_rule(&self, asked: Asked<'_>) -> Option<(Fault, usize)> {
        let (operation, table) = (asked.operation.kind(), asked.operation.table());
        let mut first = None;
        let mut turns = self.turns.lock();
        for (index, (rule, turns)) in self.rules.rules.iter().zip(turns.iter_mut()).enumerate() {
            let fires = rule.fits(asked.account, operation, table) && turns.comes(rule);
            if fires && first.is_none() {
                turns.fired += 1;
                first = Some((rule.fault, index + 1));
            }
        }
        first
    }

    /// A table of the account is said to be going until that moment. Returns until when it was
    /// before.
    pub fn going(
        &self,
        account: &str,
        table: &str,
        now: Duration,
        until: Duration,
    ) -> Option<Duration> {
        let mut going = self.going.lock();
        going.retain(|_, until| *until > now);
        let table = own_name(account, table);
        if going.len() < GOING_MAX {
            going.insert(table, until)
        } else {
            going.get(&table).copied()
        }
    }

    /// A table that was not dropped after all is said to be going for as long as it was `before`.
    pub fn not_going(&self, account: &str, table: &str, before: Option<Duration>) {
        let mut going = self.going.lock();
        let table = own_name(account, table);
        match before {
            Some(until) => going.insert(table, until),
            None => going.remove(&table),
        };
    }

    /// Fails where the table is said to be going.
    pub fn check(&self, account: &str, table: &str, now: Duration) -> Result<(), WireError> {
        let going = self.going.lock();
        let until = if going.is_empty() { None } else { going.get(&own_name(account, table)) };
        if until.is_some_and(|until| *until > now) { Err(TABLE_BEING_DELETED) } else { Ok(()) }
    }
}

fn own_name(account: &str, table: &str) -> (String, String) {
    (account.to_owned(), table.to_ascii_lowercase())
}

fn by_header(text: &str, asked: Asked<'_>) -> Result<Option<(Fault, usize)>, WireError> {
    let bad = |why: String| INVALID_HEADER_VALUE.saying(format!("{HEADER}: {why}"));
    let fault = Fault::parse(text).map_err(|error| bad(error.to_string()))?;
    match fault.only() {
        Some(only) if !fault.fits(asked.operation.kind()) => {
            Err(bad(format!("this fault is for {} alone", only.name())))
        }
        // Who sends it with each page would be sent in circles.
        _ if fault == Fault::EmptyPage && asked.goes_on => Ok(None),
        _ => Ok(Some((fault, 0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Kind;
    use crate::route::{Change, Place};

    fn lab(text: &str) -> Lab {
        Lab::new(Rules::parse(text).expect(text))
    }

    fn asked(operation: &Operation) -> Asked<'_> {
        Asked { account: "a", operation, goes_on: false, header: None }
    }

    /// Which of 1,000 requests fail, from 0 on.
    fn failed(text: &str) -> Vec<usize> {
        let lab = lab(text);
        let fails = |_: &usize| lab.decide(asked(&Operation::ListTables)).expect("no header");
        (0..1000).filter(|at| fails(at).is_some()).collect()
    }

    #[test]
    fn rules_take_turns() {
        assert_eq!(failed("lost").len(), 1000);
        assert_eq!(failed("lost every=3 limit=3"), [2, 5, 8]);
        assert_eq!(failed("lost skip=10 limit=2"), [10, 11]);
        assert_eq!(failed("lost skip=10 every=2 limit=2"), [11, 13]);
        assert!(failed("lost limit=0").is_empty());
    }

    #[test]
    fn chance_is_the_seeds() {
        let quarter = |seed: u64| failed(&format!("seed {seed}\nlost chance=0.25"));
        assert_eq!(quarter(7), quarter(7));
        assert_ne!(quarter(7), quarter(8));
        assert!((200..300).contains(&quarter(7).len()), "{}", quarter(7).len());
        assert!(failed("lost chance=0").is_empty());
        assert_eq!(failed("lost chance=1").len(), 1000);
        let limited = failed("seed 7\nlost chance=0.25 limit=10");
        assert_eq!(limited, quarter(7)[..10]);
        // Two rules do not go by one chance: with the second more requests fail.
        let two = failed("seed 7\nlost chance=0.25\nlost chance=0.25").len();
        assert!((375..500).contains(&two), "{two}");
    }

    #[test]
    fn every_rule_counts_the_requests_that_it_is_about() {
        let lab = lab("busy operation=batch every=2\nlost every=3");
        let (batch, list) = (Operation::Batch, Operation::ListTables);
        let (busy, lost) = (Some(Fault::Busy { retry_after: None }), Some(Fault::Lost));
        let given = [&batch, &list, &batch, &batch, &batch, &list];
        let given = given.map(|operation| lab.decide(asked(operation)).expect("no header"));
        assert_eq!(given, [None, None, busy, None, busy, lost]);
    }

    #[test]
    fn a_header_comes_first_and_must_make_sense() {
        let lab = lab("busy limit=1");
        let list = Operation::ListTables;
        let with = |text| lab.decide(Asked { header: Some(text), ..asked(&list) });
        assert_eq!(with("lost"), Ok(Some(Fault::Lost)));
        for (text, says) in [
            ("lsot", "x-tabulith-fault: `lsot`: no fault"),
            ("empty-page", "x-tabulith-fault: this fault is for query alone"),
            ("busy every=2", "x-tabulith-fault: `every=2`: no such setting; busy has"),
        ] {
            let error = with(text).expect_err(text);
            assert_eq!((error.status, error.code), (400, "InvalidHeaderValue"));
            assert!(error.message.starts_with(says), "{}", error.message);
        }
        // The rule has counted none of these.
        assert!(lab.decide(asked(&list)).is_ok_and(|fault| fault.is_some()));
    }

    #[test]
    fn an_empty_page_by_header_comes_once() {
        let lab = lab("");
        let query = Operation::Query("t".to_owned());
        let ask = |goes_on, text| {
            lab.decide(Asked { goes_on, header: Some(text), ..asked(&query) }).expect("a fault")
        };
        assert_eq!(ask(false, "empty-page"), Some(Fault::EmptyPage));
        assert_eq!(ask(true, "empty-page"), None);
        assert_eq!(ask(true, "lost"), Some(Fault::Lost));
    }

    #[test]
    fn tables_go_for_a_time() {
        let lab = lab("");
        let second = Duration::from_secs;
        lab.going("a", "People", second(0), second(10));
        assert_eq!(lab.check("a", "people", second(9)), Err(TABLE_BEING_DELETED));
        assert_eq!(lab.check("b", "people", second(9)), Ok(()));
        assert_eq!(lab.check("a", "others", second(9)), Ok(()));
        assert_eq!(lab.check("a", "people", second(10)), Ok(()));
        // One that is not dropped goes for as long as it did before.
        let before = lab.going("a", "people", second(1), second(90));
        assert_eq!(before, Some(second(10)));
        lab.not_going("a", "People", before);
        assert_eq!(lab.check("a", "people", second(9)), Err(TABLE_BEING_DELETED));
        assert_eq!(lab.check("a", "people", second(10)), Ok(()));
        let before = lab.going("a", "others", second(1), second(90));
        lab.not_going("a", "others", before);
        assert_eq!(lab.check("a", "others", second(2)), Ok(()));
    }

    #[test]
    fn tables_that_go_are_bounded_and_forgotten() {
        let lab = lab("");
        let second = Duration::from_secs;
        for table in 0..GOING_MAX + 10 {
            lab.going("a", &format!("t{table}"), second(0), second(10));
        }
        assert_eq!(lab.going.lock().len(), GOING_MAX);
        lab.going("a", "later", second(10), second(20));
        assert_eq!(lab.going.lock().len(), 1);
        assert_eq!(lab.check("a", "later", second(15)), Err(TABLE_BEING_DELETED));
    }

    #[test]
    fn rules_know_every_operation() {
        let (table, key) = ("t".to_owned(), String::new());
        let place = Place { table: table.clone(), partition_key: key.clone(), row_key: key };
        let change = |change| Operation::Change(place.clone(), change);
        let all = [
            Operation::ListTables,
            Operation::GetTable(table.clone()),
            Operation::CreateTable,
            Operation::DeleteTable(table.clone()),
            Operation::Query(table.clone()),
            Operation::Get(place.clone()),
            Operation::Insert(table.clone()),
            change(Change::InsertOrReplace),
            change(Change::InsertOrMerge),
            change(Change::Update),
            change(Change::Merge),
            change(Change::Delete),
            Operation::Batch,
            Operation::Document,
            Operation::Metadata,
            Operation::GetProperties,
            Operation::SetProperties,
            Operation::GetStats,
            Operation::GetAcl(table.clone()),
            Operation::SetAcl(table),
        ];
        assert_eq!(all.each_ref().map(Operation::kind), Kind::ALL);
        for operation in &all {
            let text = format!("lost operation={}", operation.kind().name());
            assert_eq!(lab(&text).decide(asked(operation)), Ok(Some(Fault::Lost)), "{text}");
            // A rule may name a table exactly where the operation has one.
            let with_table = Rules::parse(&format!("{text} table=t")).is_ok();
            assert_eq!(with_table, operation.table().is_some(), "{text}");
        }
    }
}
