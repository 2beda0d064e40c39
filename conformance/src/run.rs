//! One row against one endpoint: its steps in order, its tables removed in the end.

use crate::ask;
use crate::expand::Scope;
use crate::judge;
use crate::row::{Ask, Expect, Need, Row, Step};
use crate::target::Target;
use crate::wire::{Answer, Connect, Connection, Sent};
use serde_json::Value;
use uuid::Uuid;

/// How a row went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every answer was right.
    Passed,
    /// An answer was not.
    Failed(Box<Failure>),
    /// The target lacks what the row needs.
    Skipped(Need),
}

/// The first exchange of a row that went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Which of the row's exchanges, from 1.
    pub step: usize,
    /// What was sent, signatures hidden.
    pub request: String,
    /// What the list expects.
    pub expected: String,
    /// What came.
    pub got: String,
    /// How they differ.
    pub differences: Vec<String>,
}

/// Bytes of a body that a failure shows.
const SHOWN_BYTES_MAX: usize = 1500;

/// Asks a row.
pub fn run(row: &Row, target: &Target, connect: &dyn Connect) -> Outcome {
    if let Some(need) = target.lacks(&row.needs) {
        return Outcome::Skipped(need);
    }
    let mut scope = scope(row, target);
    let mut connection = Connection::new(target, connect);
    let mut outcome = Outcome::Passed;
    for (at, step) in row.steps.iter().enumerate() {
        if let Err(mut failure) = take(step, target, &mut scope, &mut connection) {
            failure.step = at + 1;
            outcome = Outcome::Failed(failure);
            break;
        }
    }
    clean_up(row, target, &scope, &mut connection);
    outcome
}

/// The variables that every row has, and those of its case.
fn scope(row: &Row, target: &Target) -> Scope {
    let mut scope = Scope::default();
    let name = format!("cf{}", Uuid::new_v4().simple());
    for (variable, value) in [
        ("account", target.account.as_str()),
        ("authority", &target.authority),
        ("host", &target.host),
        ("port", &target.port.to_string()),
        ("scheme", if target.tls { "https" } else { "http" }),
        ("prefix", &target.prefix(false)),
        ("base", &target.base()),
        ("table", &name[..26]),
    ] {
        scope.set(variable, value);
    }
    scope.set("table2", format!("{}b", &name[..26]));
    scope.set("table3", format!("{}c", &name[..26]));
    for (name, value) in &row.values {
        scope.set(name, value.as_str());
    }
    scope
}

fn take(
    step: &Step,
    target: &Target,
    scope: &mut Scope,
    connection: &mut Connection<'_>,
) -> Result<(), Box<Failure>> {
    let broken = |why: String| Box::new(Failure { differences: vec![why], ..Failure::default() });
    let times = step.ask.order("times").map_or(Ok(1), str::parse::<u32>);
    for i in 0..times.map_err(|error| broken(error.to_string()))? {
        scope.set("i", i.to_string());
        let sent = ask::sent(&step.ask, target, scope).map_err(broken)?;
        if step.ask.order("send").is_some_and(|how| how.starts_with("cut ")) {
            connection.abandon(&sent).map_err(broken)?;
            continue;
        }
        let answer = match connection.exchange(&sent) {
            Ok(answer) => answer,
            Err(why) => return Err(failure(step, &sent, String::new(), vec![why])),
        };
        let differences = judged(step, &answer, scope).map_err(broken)?;
        if !differences.is_empty() {
            return Err(failure(step, &sent, shown(&answer), differences));
        }
    }
    Ok(())
}

fn judged(step: &Step, answer: &Answer, scope: &mut Scope) -> Result<Vec<String>, String> {
    let success = Expect { status: vec!["2xx".to_owned()], checks: Vec::new() };
    let expect = step.expect.as_ref().unwrap_or(&success);
    let crlf = step.ask.order("lines") == Some("crlf");
    judge::differences(expect, answer, crlf, scope)
}

fn failure(step: &Step, sent: &Sent, got: String, differences: Vec<String>) -> Box<Failure> {
    let mut expected = String::new();
    if let Some(expect) = &step.expect {
        expected.push_str(&expect.status.join(" "));
        for check in &expect.checks {
            expected.push_str(&format!("\n{}", ask::cut(&check.to_string(), SHOWN_BYTES_MAX)));
        }
    } else {
        expected.push_str("success");
    }
    let request = ask::shown(sent, SHOWN_BYTES_MAX);
    Box::new(Failure { step: 0, request, expected, got, differences })
}

fn shown(answer: &Answer) -> String {
    let mut out = answer.status.to_string();
    for (name, value) in &answer.headers {
        out.push_str(&format!("\n{name}: {value}"));
    }
    out.push_str(&format!("\n\n{}", ask::cut(&answer.text(), SHOWN_BYTES_MAX)));
    out
}

/// Removes the tables that the row's names stand for; that some are not there is no matter.
fn clean_up(row: &Row, target: &Target, scope: &Scope, connection: &mut Connection<'_>) {
    let text = format!("{:?} {:?}", row.steps, row.values);
    let mut names = Vec::new();
    for variable in ["table", "table2", "table3"] {
        if text.contains(&format!("${{{variable}}}")) {
            names.extend(scope.fill(&format!("${{{variable}}}")));
        }
    }
    // Names that a row makes by adding to its own.
    let longer = |at: usize| {
        text[at..]
            .strip_prefix("${table}")
            .is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
    };
    if text.match_indices("${table}").any(|(at, _)| longer(at)) {
        names.extend(listed(target, scope, connection));
    }
    for name in names {
        let remove = Ask {
            method: "DELETE".to_owned(),
            target: format!("/Tables('{name}')"),
            ..Ask::default()
        };
        if let Ok(sent) = ask::sent(&remove, target, scope) {
            let _ = connection.exchange(&sent);
        }
    }
}

/// The tables that there are whose names begin with the row's own.
fn listed(target: &Target, scope: &Scope, connection: &mut Connection<'_>) -> Vec<String> {
    let Ok(own) = scope.fill("${table}") else { return Vec::new() };
    let filter = "${q TableName gt '${table}' and TableName lt '${table}zzzz'}";
    let list = Ask {
        method: "GET".to_owned(),
        target: format!("/Tables?$filter={filter}"),
        ..Ask::default()
    };
    let answer = ask::sent(&list, target, scope).and_then(|sent| connection.exchange(&sent));
    let json: Value = match answer.map(|answer| serde_json::from_slice(&answer.body)) {
        Ok(Ok(json)) => json,
        _ => return Vec::new(),
    };
    let tables = json.get("value").and_then(Value::as_array).into_iter().flatten();
    let names = tables.filter_map(|table| table.get("TableName")?.as_str());
    // Who knows no filters lists everybody's tables.
    let is_own = |name: &&str| {
        let rest = name.strip_prefix(own.as_str());
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphanumeric()))
    };
    names.filter(is_own).map(str::to_owned).collect()
}
