//! Many rows against one endpoint, several at once where they do not touch one another.

use crate::ask;
use crate::expand::Scope;
use crate::row::{Ask, Need, Row};
use crate::run::{Outcome, run};
use crate::target::Target;
use crate::wire::{Connect, Connection};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The outcome of each row, in the order of `rows`.
///
/// At most `jobs` rows are asked at once. Rows that change the service's properties come last, one
/// after the other, and what was set before is put back.
pub fn run_all(rows: &[Row], target: &Target, connect: &dyn Connect, jobs: usize) -> Vec<Outcome> {
    let alone = |row: &Row| row.needs.contains(&Need::ServiceChanges);
    let shared: Vec<usize> = (0..rows.len()).filter(|at| !alone(&rows[*at])).collect();
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(at) = shared.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(&rows[*at], target, connect);
                    found.lock().unwrap_or_else(|held| held.into_inner()).push((*at, outcome));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(|held| held.into_inner());
    if rows.iter().any(alone) {
        let saved = if target.service_changes { properties(target, connect) } else { None };
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| alone(row)) {
            found.push((at, run(row, target, connect)));
            if let Some(saved) = &saved {
                restore(saved, target, connect);
            }
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

const PROPERTIES: &str = "/?restype=service&comp=properties";

fn xml(method: &str, body: Option<String>) -> Ask {
    let kind = |name: &str| (name.to_owned(), Some("application/xml".to_owned()));
    let mut headers = vec![kind("Accept")];
    if body.is_some() {
        headers.push(kind("Content-Type"));
    }
    Ask {
        method: method.to_owned(),
        target: PROPERTIES.to_owned(),
        headers,
        body,
        ..Ask::default()
    }
}

/// The service's properties as XML, where it has any.
fn properties(target: &Target, connect: &dyn Connect) -> Option<String> {
    let sent = ask::sent(&xml("GET", None), target, &Scope::default()).ok()?;
    let answer = Connection::new(target, connect).exchange(&sent).ok()?;
    (answer.status == 200).then(|| answer.text().trim_start_matches('\u{feff}').to_owned())
}

fn restore(saved: &str, target: &Target, connect: &dyn Connect) {
    let mut scope = Scope::default();
    scope.keep("saved", saved);
    let put = xml("PUT", Some("${saved}".to_owned()));
    if let Ok(sent) = ask::sent(&put, target, &scope) {
        // What cannot be put back shows in the rows that follow.
        let _ = Connection::new(target, connect).exchange(&sent);
    }
}
