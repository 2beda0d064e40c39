//! Rules of the fault lab: which requests fail, and how. Each is a line of a file of text.
//!
//! ```text
//! # Comments and empty lines are for people.
//! seed 42
//! busy retry-after=2 operation=insert,merge table=people every=3
//! lost operation=batch chance=0.1 limit=5
//! ```

use crate::faults::fault::Fault;
use crate::faults::words::{BadWord, Words};
use crate::operations::Kind;
use std::fmt;

/// Most rules of a file.
const RULES_MAX: usize = 1_000;

/// The rules, and the seed of those that go by chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The seed.
    pub seed: u64,
    /// The rules in order: the first one that fires counts.
    pub rules: Vec<Rule>,
}

/// Which requests fail, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// How.
    pub fault: Fault,
    /// Operations; none for all.
    pub operations: Vec<Kind>,
    /// A table, compared without case; none for all.
    pub table: Option<String>,
    /// An account; none for all.
    pub account: Option<String>,
    /// Requests that it lets pass before it counts.
    pub skip: u64,
    /// Of so many requests, the last.
    pub every: u64,
    /// How many requests it fails at most; none for no limit.
    pub limit: Option<u64>,
    /// How likely it fires when it is its turn, from 0 to 1.
    pub chance: f64,
}

impl Rule {
    /// Whether it is about requests for that operation.
    pub fn fits(&self, account: &str, operation: Kind, table: Option<&str>) -> bool {
        let same = |own: &str| table.is_some_and(|table| own.eq_ignore_ascii_case(table));
        self.fault.fits(operation)
            && (self.operations.is_empty() || self.operations.contains(&operation))
            && self.table.as_deref().is_none_or(same)
            && self.account.as_deref().is_none_or(|own| own == account)
    }

    fn parse(text: &str) -> Result<Rule, BadWord> {
        let mut words = Words::of(text)?;
        let fault = Fault::take(&mut words)?;
        let table = words.take("table").map(str::to_owned);
        let operations = words.take("operation").map(|names| operations(names, fault, &table));
        let rule = Rule {
            fault,
            operations: operations.transpose()?.unwrap_or_default(),
            table,
            account: words.take("account").map(str::to_owned),
            skip: words.number("skip", 0..=u64::MAX)?.unwrap_or_default(),
            every: words.number("every", 1..=u64::MAX)?.unwrap_or(1),
            limit: words.number("limit", 0..=u64::MAX)?,
            chance: words.take("chance").map(chance).transpose()?.unwrap_or(1.0),
        };
        words.end().map(|()| rule)
    }
}

fn chance(value: &str) -> Result<f64, BadWord> {
    let chance = value.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
    chance.ok_or_else(|| BadWord::new(&format!("chance={value}"), "chance is from 0 to 1"))
}

/// Operations by their names, each of which can fail like that.
fn operations(names: &str, fault: Fault, table: &Option<String>) -> Result<Vec<Kind>, BadWord> {
    let known = |name: &str| {
        let Some(known) = Kind::ALL.into_iter().find(|known| known.name() == name) else {
            let all = Kind::ALL.map(Kind::name).join(", ");
            return Err(BadWord::new(name, format!("no operation; there are {all}")));
        };
        match (fault.only(), table) {
            (Some(only), _) if only != known => {
                let only = only.name();
                Err(BadWord::new(name, format_args!("this fault is for {only} alone")))
            }
            (_, Some(_)) if !known.names_table() => {
                Err(BadWord::new(name, "such a request names no table in its address"))
            }
            _ => Ok(known),
        }
    };
    names.split(',').map(known).collect()
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRules {
    line: usize,
    error: BadWord,
}

impl fmt::Display for BadRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.error)
    }
}

impl std::error::Error for BadRules {}

impl Rules {
    /// Reads rules, one a line.
    pub fn parse(text: &str) -> Result<Rules, BadRules> {
        let mut rules = Rules::default();
        let mut seed = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |error| BadRules { line: index + 1, error };
            match line.split_once(char::is_whitespace) {
                _ if line.is_empty() => {}
                Some(("seed", number)) => {
                    if seed.replace(parse_seed(number.trim()).map_err(at)?).is_some() {
                        return Err(at(BadWord::new("seed", "there is one already")));
                    }
                }
                _ if rules.rules.len() == RULES_MAX => {
                    let why = format!("at most {RULES_MAX} rules are allowed");
                    return Err(at(BadWord::new(line, why)));
                }
                _ => rules.rules.push(Rule::parse(line).map_err(at)?),
            }
        }
        rules.seed = seed.unwrap_or_default();
        Ok(rules)
    }
}

fn parse_seed(number: &str) -> Result<u64, BadWord> {
    let plain = number.bytes().all(|byte| byte.is_ascii_digit());
    let seed = number.parse().ok().filter(|_| plain);
    seed.ok_or_else(|| BadWord::new(number, "a seed is a whole number below 2^64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::parse(text).expect(text)
    }

    #[test]
    fn a_file_of_rules() {
        let text = "# For the tests of a queue.\n\nseed 42\nlost # all of them\r\n\
            busy retry-after=2 operation=insert,get table=People account=abc skip=10 every=3 \
            limit=7 chance=0.25\n";
        let rules = Rules::parse(text).expect("rules");
        let lost = rule("lost");
        assert_eq!((lost.skip, lost.every, lost.limit, lost.chance), (0, 1, None, 1.0));
        let busy = Rule {
            fault: Fault::Busy { retry_after: Some(2) },
            operations: vec![Kind::Insert, Kind::Get],
            table: Some("People".to_owned()),
            account: Some("abc".to_owned()),
            skip: 10,
            every: 3,
            limit: Some(7),
            chance: 0.25,
        };
        assert_eq!(rules, Rules { seed: 42, rules: vec![lost, busy] });
        assert_eq!(Rules::parse(""), Ok(Rules::default()));
    }

    #[test]
    fn what_rules_are_about() {
        let named = rule("busy operation=insert,get table=people");
        assert!(named.fits("a", Kind::Insert, Some("People")));
        assert!(!named.fits("a", Kind::Query, Some("people")));
        assert!(!named.fits("a", Kind::Insert, Some("others")));
        assert!(!named.fits("a", Kind::Insert, None));
        let account = rule("busy account=a");
        assert!(account.fits("a", Kind::Batch, None) && !account.fits("b", Kind::Batch, None));
        let dropped = rule("being-deleted seconds=1");
        assert!(dropped.fits("a", Kind::DeleteTable, Some("t")));
        assert!(!dropped.fits("a", Kind::Insert, Some("t")));
    }

    #[test]
    fn a_bad_file_is_told_by_line_and_word() {
        for (text, says) in [
            ("lost\nlsot\n", "line 2: `lsot`: no fault; there are busy,"),
            ("\n#\nlost often=1", "line 3: `often=1`: no such setting; lost has"),
            ("lost every=0", "line 1: `every=0`: every is a whole number from 1 to"),
            ("lost skip=-1", "line 1: `skip=-1`: skip is a whole number from 0 to"),
            ("lost chance=1.5", "line 1: `chance=1.5`: chance is from 0 to 1"),
            ("lost chance=NaN", "line 1: `chance=NaN`: chance is from 0 to 1"),
            ("lost operation=inserts", "line 1: `inserts`: no operation; there are list-tables,"),
            ("lost operation=get,", "line 1: ``: no operation"),
            ("empty-page operation=query,get", "line 1: `get`: this fault is for query alone"),
            ("busy operation=batch table=t", "line 1: `batch`: such a request names no table"),
            ("lost table=a table=b", "line 1: `table=b`: table is set twice"),
            ("{\"rules\": []}", "line 1: `[]}`: a setting is"),
            ("seed x", "line 1: `x`: a seed is a whole number"),
            ("seed 18446744073709551616", "line 1: `18446744073709551616`: a seed"),
            ("seed", "line 1: `seed`: no fault"),
            ("seed 1\nseed 2", "line 2: `seed`: there is one already"),
        ] {
            let error = Rules::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(says), "{text}: {error}");
        }
        let most = "lost\n".repeat(RULES_MAX);
        assert!(Rules::parse(&most).is_ok());
        let error = Rules::parse(&(most + "busy")).expect_err("too many").to_string();
        assert!(error.starts_with("line 1001: `busy`: at most 1000 rules"), "{error}");
    }
}
