//! The whole service without sockets: any request has an answer, none of them "internal error", and
//! no answer breaks out of its headers or is half a JSON.
//!
//! Input: requests between lines `===`, each `METHOD /path`, headers, a blank line, a body. A
//! request without Authorization is signed. `@` in front of a path stands for the account.

use crate::input::text;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::{Advanced, Options};
use tabulith::table::store::TableStore;
use tabulith::vfs::mem::SimFs;
use tabulith_server::app::App;
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::{Config, DEVELOPMENT_ACCOUNT, Key};
use tabulith_server::http::message::{Body, Head, Request, Response};
use tabulith_server::odata::options::Params;

/// The date of every request, which is not checked.
const DATE: &str = "Fri, 01 Jan 2021 00:00:00 GMT";

/// Answers the requests of the input on a store of their own.
pub fn app(data: &[u8]) {
    let clock = Arc::new(ManualClock::at(16_094_592_000_000_000));
    let app = service(&clock);
    for part in data.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>().split(is_mark) {
        let request = request(&part.concat());
        clock.advance(Duration::from_millis(7));
        let head = request.head.clone();
        let response = app.answer(request);
        check(&head, &response);
    }
}

fn is_mark(line: &&[u8]) -> bool {
    line.trim_ascii_end() == b"==="
}

fn service(clock: &Arc<ManualClock>) -> App<Db> {
    let options = Options {
        advanced: Advanced {
            wal_segment_bytes: 64 << 10,
            memtable_bytes: Some(64 << 10),
            block_cache_bytes: Some(64 << 10),
            ..Advanced::default()
        },
        ..Options::default()
    };
    let db = Db::builder().options(options);
    let db = db.parts(Arc::new(SimFs::new()), clock.clone(), Arc::new(ByHand)).open("/db");
    let db = Arc::new(db.expect("a database in memory opens"));
    let tables = Arc::new(TableStore::with_clock(db, clock.clone()));
    let config = Config { date_checked: false, ..Config::default() };
    App::new(config, tables, clock.clone(), 1)
}

fn request(bytes: &[u8]) -> Request {
    let blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let head_lines = lines.iter().position(blank).unwrap_or(lines.len());
    let body = lines.get(head_lines + 1..).unwrap_or_default().concat();
    let head = text(&lines[..head_lines].concat());
    let mut head_lines = head.lines();
    let first = head_lines.next().unwrap_or_default();
    let (method, target) = first.split_once(' ').unwrap_or((first, ""));
    let mut head = Head {
        method: method.to_owned(),
        target: target.replacen('@', &format!("/{DEVELOPMENT_ACCOUNT}"), 1),
        authority: "127.0.0.1:10002".to_owned(),
        ..Head::default()
    };
    for (name, value) in head_lines.filter_map(|line| line.split_once(':')) {
        head.headers.push(name.trim(), value.trim());
    }
    head.headers.push("Content-Length", body.len().to_string());
    sign(&mut head);
    let body = if body.is_empty() { Body::Empty } else { Body::Whole(body.into()) };
    Request { head, body }
}

fn sign(head: &mut Head) {
    if head.headers.get("Authorization").is_some() {
        return;
    }
    let date =
        head.headers.get("x-ms-date").or(head.headers.get("Date")).unwrap_or(DATE).to_owned();
    let params = Params::parse(head.query()).unwrap_or_default();
    let resource = canonical::resource(DEVELOPMENT_ACCOUNT, head.path(), params.get("comp"));
    let string = canonical::shared_key_lite(&date, &resource);
    let signature = signature_text(&Key::development(), &string);
    head.headers.push("x-ms-date", date);
    head.headers.push("Authorization", format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}"));
}

fn check(head: &Head, response: &Response) {
    let told = || format!("{} {}\n{response}", head.method, head.target);
    assert!((200..600).contains(&response.status), "{}", told());
    // The disk is sound, and nobody else is at work: there is no reason to fail.
    assert!(!matches!(response.status, 500 | 503), "{}", told());
    for (name, value) in &response.headers {
        let breaks = value.bytes().any(|byte| byte < b' ' || byte == 0x7f);
        assert!(!breaks, "{name}: {}", told());
    }
    let content_type = response.get("Content-Type").unwrap_or_default();
    if content_type.starts_with("application/json") {
        let body = serde_json::from_slice::<serde_json::Value>(&response.body);
        assert!(body.is_ok(), "{body:?}: {}", told());
    }
    assert!(response.status != 204 || response.body.is_empty(), "{}", told());
}
