//! Work on requests: in whose turn it is done, how long it is waited for, and the room of its
//! answers.

use super::{delete, run, shared, shared_over, signed};
use crate::batch::changeset;
use crate::batch::multipart::work;
use crate::config::{Accounts, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::handle::answer::{Answer, Later, WriteAnswer};
use crate::handle::call::Call;
use crate::http::message::{Body, Head, Request, Response};
use crate::limits::{QUICK_BATCH_BYTES_MAX, QUICK_BODY_BYTES_MAX};
use crate::net::shared::{ENTITY_JSON_BYTES_MAX, Shared};
use crate::net::work::{in_time, perform, settled, turns_of, with_place, written};
use crate::odata::address::entity_path;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{ManualClock, SystemClock};
use tabulith::env::jobs::{ByHand, Threads};
use tokio::sync::Semaphore;

/// A commit of which nobody ever hears.
struct Never;

impl Later for Never {
    fn wait(self: Box<Self>) -> Response {
        Response::new(204)
    }

    fn notify(self: Box<Self>, done: Box<dyn FnOnce(WriteAnswer) + Send>) {
        std::mem::forget(done);
    }
}

#[test]
fn who_waits_for_a_commit_waits_no_longer_than_asked() {
    let clock = Arc::new(ManualClock::at(1));
    let shared = shared(&clock);
    let call = shared.app.receive(&delete()).expect("admitted");
    let left = shared.app.time_left(&call);
    assert_eq!(left, Duration::from_secs(7));
    clock.advance(left);
    let answer = run(async {
        let never = settled(&call, Answer::Later(Box::new(Never)));
        in_time(&shared, &call, async { (never.await, Vec::new()) }).await.0
    });
    assert_eq!((answer.status, answer.get("x-ms-error-code")), (500, Some("OperationTimedOut")));
}

/// A commit that is done, and says which thread writes its answer.
struct Done;

impl Later for Done {
    fn wait(self: Box<Self>) -> Response {
        Response::new(204)
    }

    fn notify(self: Box<Self>, done: Box<dyn FnOnce(WriteAnswer) + Send>) {
        done(Box::new(|| {
            let mut response = Response::new(204);
            response.header("thread", format!("{:?}", std::thread::current().id()));
            response
        }));
    }
}

/// The JSON of a hundred entities takes some 100 ms, for which all of a thread's connections
/// would wait.
#[test]
fn the_answer_to_a_large_body_is_not_written_on_the_event_loop() {
    let shared = shared(&Arc::new(ManualClock::at(1)));
    let call = shared.app.receive(&delete()).expect("admitted");
    let own_thread = format!("{:?}", std::thread::current().id());
    let is_written_here = |shared: &Shared<Db>, body_bytes| {
        let later = Answer::Later(Box::new(Done));
        let (answer, _) = run(written(shared, &call, later, Vec::new(), body_bytes));
        answer.get("thread") == Some(own_thread.as_str())
    };
    assert!(is_written_here(&shared, QUICK_BODY_BYTES_MAX));
    assert!(!is_written_here(&shared, QUICK_BODY_BYTES_MAX + 1));
    let without_threads = Shared { has_threads: false, ..shared };
    assert!(is_written_here(&without_threads, QUICK_BODY_BYTES_MAX + 1));
}

/// A batch whose one part is that text, admitted.
fn batch(shared: &Shared<Db>, part: &str) -> (Arc<Call>, Body) {
    let (target, authority) = (format!("/{DEVELOPMENT_ACCOUNT}/$batch"), "127.0.0.1".to_owned());
    let head = Head { method: "POST".to_owned(), target, authority, ..Head::default() };
    let mut head = signed(head);
    let body = format!("GET \r\n--b\r\n{part}\r\n--b--\r\n");
    head.headers.push("Content-Type", "multipart/mixed; boundary=b");
    head.headers.push("Content-Length", body.len().to_string());
    (shared.app.receive(&head).expect("admitted"), Body::Whole(body.into()))
}

/// One of 4 MiB in lines of two bytes kept the other connections of its worker waiting.
#[test]
fn a_long_batch_is_not_read_on_the_event_loop() {
    let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
    let is_read_here = |shared: &Shared<Db>, bytes: usize| {
        let (call, body) = batch(shared, &":\n".repeat(bytes / 2));
        let _ = work::since();
        let read = run(turns_of(shared, &call, body, Vec::new()));
        assert!(read.is_ok_and(|(_, body, _)| matches!(body, Body::Whole(_))));
        work::since() > 0
    };
    assert!(is_read_here(&shared, QUICK_BATCH_BYTES_MAX - 1_000));
    assert!(!is_read_here(&shared, QUICK_BATCH_BYTES_MAX));
}

/// It was read for its turns, and once more where it was worked on.
#[test]
fn a_batch_is_read_once() {
    let shared = shared(&Arc::new(ManualClock::at(1)));
    let shared = Arc::new(Shared { has_threads: false, ..shared });
    let query = "Content-Type: application/http\r\n\r\nGET /T() HTTP/1.1\r\n\r\n";
    let (call, body) = batch(&shared, &(query.to_owned() + &"x".repeat(10_000)));
    let Body::Whole(bytes) = &body else { panic!("no body") };
    let _ = work::since();
    assert!(changeset::read(&call.content_type, bytes).is_ok());
    let once = work::since();
    let (response, _) = run(perform(&shared, &call, body, Vec::new()));
    assert_eq!(response.status, 202);
    let looked_at = work::since();
    assert!(once > 10_000 && looked_at < once + 1_000, "{looked_at} bytes, not {once}");
}

/// Who could else keep others from what they do not do: a query with the text `MERGE` held a
/// turn to merge while it waited for a page's, and a few hundred merges that waited for theirs
/// every commit's.
#[test]
fn who_waits_for_a_turn_holds_none_that_others_need() {
    let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
    let free =
        || [&shared.merges, &shared.commits, &shared.pages].map(|t| t.all.available_permits());
    let check = |part: &str, lacking: &Semaphore, held: [usize; 3]| {
        let (call, body) = batch(&shared, part);
        let all = free();
        run(async {
            let others = u32::try_from(lacking.available_permits()).expect("a few");
            let others = lacking.acquire_many(others).await.expect("never closed");
            let left = free();
            let waiting = perform(&shared, &call, body, Vec::new());
            let mut waiting = std::pin::pin!(waiting);
            let soon = Duration::from_secs(1);
            let ended = tokio::time::timeout(soon, waiting.as_mut()).await.is_ok();
            let taken = [0, 1, 2].map(|at| left[at] - free()[at]);
            assert_eq!((ended, taken), (false, held), "{part}");
            drop(others);
            let (response, _) = waiting.await;
            assert_eq!(response.status, 202, "{part}");
        });
        assert_eq!(free(), all, "{part}");
    };
    let query = "Content-Type: application/http\r\n\r\nGET /T() HTTP/1.1\r\nMERGE: PATCH\r\n";
    check(query, &shared.pages.all, [0, 0, 0]);
    let change_set = |verb: &str| {
        format!(
            "Content-Type: multipart/mixed; boundary=c\r\n\r\nGET \r\n--c\r\n\r\n\
             {verb} /T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n{{}}\r\n--c--"
        )
    };
    check(&change_set("MERGE"), &shared.merges.all, [0, 0, 0]);
    check(&change_set("PUT"), &shared.commits.all, [0, 0, 0]);
    check(&change_set("PATCH"), &shared.commits.all, [1, 0, 0]);
}

/// A change set of 100 inserts whose answer repeats four times what takes most, the keys.
fn inserts(shared: &Shared<Db>, partition_key: &str) -> (Arc<Call>, Body) {
    let insert = |row: usize| {
        format!(
            "--c\r\n\r\nPOST /Rows HTTP/1.1\r\nAccept: application/json;odata=fullmetadata\r\n\r\n\
             {{\"PartitionKey\":\"{partition_key}\",\"RowKey\":\"{}\"}}\r\n",
            row_key(row)
        )
    };
    let parts: String = (0..100).map(insert).collect();
    batch(shared, &format!("Content-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--"))
}

fn row_key(row: usize) -> String {
    format!("{row:04}{}", "\u{4e00}".repeat(1020))
}

/// They were given without a place, as what they tell has happened, and kept that of their
/// body: 6.8 MB in one of 1.3, for as long as a client took nothing of them.
#[test]
fn answers_to_inserts_have_their_room_before_anything_is_inserted() {
    let keys = ["\u{4e00}", "\u{4e01}"].map(|unit| unit.repeat(1024));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().expect("a runtime");
    // All of the room, some of it, or too little for what the body's place lacks; none.
    for (answer_bytes_max, statuses) in
        [(64 << 20, [202, 202]), (6 << 20, [202, 503]), (1 << 20, [202, 503]), (0, [503, 503])]
    {
        let config = Config { answer_bytes_max, ..Config::default() };
        let shared = Arc::new(shared_over(Arc::new(SystemClock::new()), Arc::new(Threads), config));
        let ask = |method: &str, path: &str, body: &str| {
            let target = format!("/{DEVELOPMENT_ACCOUNT}/{path}");
            let authority = "127.0.0.1".to_owned();
            let head = Head { method: method.to_owned(), target, authority, ..Head::default() };
            let mut head = signed(head);
            head.headers.push("Content-Length", body.len().to_string());
            shared.app.answer(Request { head, body: Body::Whole(body.to_owned().into()) }).status
        };
        assert_eq!(ask("POST", "Tables", "{\"TableName\":\"Rows\"}"), 201);
        let taken_bytes = || shared.bodies.taken_bytes() + shared.answers.taken_bytes();
        let mut answers = Vec::new();
        for (key, status) in keys.iter().zip(statuses) {
            let (call, body) = inserts(&shared, key);
            let Body::Whole(bytes) = &body else { panic!("no body") };
            let place = shared.bodies.take(bytes.len()).expect("room");
            let (response, places) = runtime.block_on(perform(&shared, &call, body, vec![place]));
            let response = with_place(&shared, &call, response, places);
            assert_eq!(response.status, status, "{answer_bytes_max}");
            let is_there = ask("GET", &entity_path("Rows", key, &row_key(0)), "") == 200;
            assert_eq!(is_there, status == 202, "{answer_bytes_max}");
            answers.push(response);
            // One that is larger than all of the room is one at a time.
            let bytes = answers.iter().map(|answer| answer.body.len());
            let bytes: usize =
                bytes.filter(|bytes| *bytes > crate::net::room::SMALL_BYTES_MAX).sum();
            let is_bound = taken_bytes() >= bytes || shared.answers.bytes() == 1 << 20;
            assert!(is_bound, "{bytes} bytes in {}", taken_bytes());
        }
        let bytes = answers.iter().map(|answer| answer.body.len()).max();
        assert_eq!(bytes > Some(6_500_000), statuses != [503, 503], "{bytes:?}");
        drop(answers);
        assert_eq!(taken_bytes(), 0);
    }
}

/// Who took nothing of their pages could have all of the room, and pages of all other accounts
/// were refused.
#[test]
fn an_account_leaves_room_for_the_answers_of_others() {
    let answers_that_nobody_takes = |accounts: &str| {
        let accounts = Accounts::parse(accounts).expect("accounts");
        let config = Config { answer_bytes_max: 16 << 20, accounts, ..Config::default() };
        let shared = shared_over(Arc::new(ManualClock::at(1)), Arc::new(ByHand), config);
        let call = shared.app.receive(&delete()).expect("admitted");
        let answer = || {
            let response = Response { body: vec![b'x'; 1 << 20].into(), ..Response::new(200) };
            Some(with_place(&shared, &call, response, Vec::new()))
        };
        let given = std::iter::from_fn(|| answer().filter(|answer| answer.status == 200));
        given.collect::<Vec<_>>().len()
    };
    let own = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}");
    assert_eq!(answers_that_nobody_takes(&own), 8);
    assert_eq!(answers_that_nobody_takes(&format!("{own};another1:YWJj")), 6);
}

/// Settings of one account, or tables, change one after the other: 256 who waited for that
/// could else keep everybody from committing.
#[test]
fn changes_of_settings_and_tables_leave_turns_to_other_commits() {
    let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
    for (method, path, body, status) in [
        ("POST", "/Tables", "{\"TableName\":\"Rows\"}", 201),
        ("PUT", "/Rows?comp=acl", "<SignedIdentifiers />", 204),
        ("PUT", "/?restype=service&comp=properties", "<StorageServiceProperties />", 202),
        ("DELETE", "/Tables('Rows')", "", 204),
    ] {
        let (target, authority) = (format!("/{DEVELOPMENT_ACCOUNT}{path}"), "h".to_owned());
        let head = Head { method: method.to_owned(), target, authority, ..Head::default() };
        let mut head = signed(head);
        head.headers.push("Content-Length", body.len().to_string());
        let call = shared.app.receive(&head).expect("admitted");
        run(async {
            let others = shared.serial.all.acquire_many(16).await.expect("never closed");
            let body = Body::Whole(body.to_owned().into());
            let waiting = perform(&shared, &call, body, Vec::new());
            let mut waiting = std::pin::pin!(waiting);
            let soon = Duration::from_secs(1);
            let ended = tokio::time::timeout(soon, waiting.as_mut()).await.is_ok();
            let taken = 256 - shared.commits.all.available_permits();
            assert_eq!((ended, taken), (false, 0), "{path}");
            drop(others);
            let (response, _) = waiting.await;
            assert_eq!(response.status, status, "{path}");
        });
        assert_eq!(shared.serial.all.available_permits(), 16);
    }
}

/// A request, admitted.
fn asked(
    shared: &Shared<Db>,
    (method, path): (&str, &str),
    more: Option<(&'static str, &str)>,
    body: &str,
) -> (Arc<Call>, Body) {
    let (target, authority) = (format!("/{DEVELOPMENT_ACCOUNT}{path}"), "127.0.0.1".to_owned());
    let head = Head { method: method.to_owned(), target, authority, ..Head::default() };
    let mut head = signed(head);
    if let Some((name, value)) = more {
        head.headers.push(name, value);
    }
    if body.is_empty() {
        return (shared.app.receive(&head).expect("admitted"), Body::Empty);
    }
    head.headers.push("Content-Length", body.len().to_string());
    (shared.app.receive(&head).expect("admitted"), Body::Whole(body.to_owned().into()))
}

/// Whether a request waits while others have all of those turns, and what it is answered, then or
/// after that.
fn waits(shared: &Arc<Shared<Db>>, turns: &Semaphore, call: &Arc<Call>, body: Body) -> (bool, u16) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime").block_on(async {
        let others = u32::try_from(turns.available_permits()).expect("a few") - 1;
        let others = turns.acquire_many(others).await.expect("never closed");
        let last = turns.acquire().await.expect("never closed");
        let answer = perform(shared, call, body, Vec::new());
        let mut answer = std::pin::pin!(answer);
        let at_once = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await;
        // It belongs to the one that has waited for it.
        drop(last);
        let waits = turns.available_permits() == 0;
        drop(others);
        let (response, _) = match at_once {
            Poll::Ready(answered) => answered,
            Poll::Pending => answer.await,
        };
        (waits, response.status)
    })
}

/// Threads that wait for the disk could else hold several GiB of entities and their answers.
#[test]
fn reads_that_may_need_the_disk_are_as_many_as_have_room_for_their_answers() {
    let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
    let reads_bytes = shared.reads.all.available_permits() * 2 * ENTITY_JSON_BYTES_MAX;
    assert!(reads_bytes <= shared.app.config().answer_bytes_max, "{reads_bytes} bytes");
    let waits = |path: &str, as_of: Option<&str>, turns: &Semaphore| {
        let more = as_of.map(|as_of| ("x-tabulith-as-of", as_of));
        let (call, body) = asked(&shared, ("GET", path), more, "");
        let (waits, status) = waits(&shared, turns, &call, body);
        assert!(status < 500, "{path}: {status}");
        waits
    };
    let (entity, past) = ("/T(PartitionKey='',RowKey='')", Some("2026-11-22T14:05:00Z"));
    assert!(waits(entity, past, &shared.reads.all), "the past is on the disk");
    assert!(waits("/Tables", None, &shared.reads.all));
    assert!(waits("/$metadata", None, &shared.pages.all), "it may be as large as a page");
    assert!(!waits(entity, None, &shared.reads.all), "memory says that there is none");
    assert!(!waits("/Tables('T')", None, &shared.reads.all), "a name is small");
}

/// One of a MiB takes 25 ms to be written out, and as long to be merged into, for which all of a
/// thread's connections would wait.
#[test]
fn a_large_entity_is_not_worked_on_on_the_event_loop() {
    let config = Config::default();
    let shared = Arc::new(shared_over(Arc::new(SystemClock::new()), Arc::new(Threads), config));
    let ask = |method: &str, path: &str, body: &str, turns: &Semaphore| {
        let (call, body) = asked(&shared, (method, path), None, body);
        waits(&shared, turns, &call, body)
    };
    let nothing = Semaphore::new(1);
    assert_eq!(ask("POST", "/Tables", "{\"TableName\":\"Rows\"}", &nothing).1, 201);
    let text = "x".repeat(32 << 10);
    let entity = |texts: usize| {
        let texts: Vec<_> = (0..texts).map(|at| format!("\"P{at:02}\":\"{text}\"")).collect();
        format!("{{{}}}", texts.join(","))
    };
    for (row, texts, waits) in [("small", 1, false), ("large", 3, true)] {
        let path = format!("/Rows(PartitionKey='p',RowKey='{row}')");
        assert_eq!(ask("PUT", &path, &entity(texts), &nothing).1, 204);
        assert_eq!(ask("GET", &path, "", &shared.reads.all), (waits, 200), "{row}");
        let merge = "{\"Another\":\"value\"}";
        assert_eq!(ask("MERGE", &path, merge, &shared.commits.all), (waits, 204), "{row}");
        assert_eq!(
            ask("PUT", &path, merge, &shared.commits.all),
            (false, 204),
            "nothing is merged"
        );
    }
}

/// Sixty slow queries of one account had those of all others told that their time was over.
#[test]
fn an_account_leaves_turns_to_others() {
    let accounts = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY};another1:YWJj");
    let accounts = Accounts::parse(&accounts).expect("accounts");
    let config = Config { accounts, ..Config::default() };
    let shared = shared_over(Arc::new(ManualClock::at(1)), Arc::new(ByHand), config);
    let shared = Arc::new(shared);
    let status_beside = |owner: &str| {
        let (call, body) = asked(&shared, ("GET", "/$metadata"), None, "");
        run(async {
            let at_once = Duration::from_millis(1);
            let turn = || tokio::time::timeout(at_once, shared.pages.turn(Some(owner)));
            let mut held = Vec::new();
            while let Ok(turn) = turn().await {
                held.push(turn);
            }
            perform(&shared, &call, body, Vec::new()).await.0.status
        })
    };
    assert_eq!(status_beside("another1"), 200);
    assert_eq!(status_beside(DEVELOPMENT_ACCOUNT), 500, "it waits for its own");
}
