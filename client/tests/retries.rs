//! Retries against a server that fails as told, with a clock that nobody waits for.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{
    Act, MULTIPART, NEW, Noted, ONE_SECOND, Script, busy, changed, done, exists, missing, new, old,
    part, refusal, refused_part, row, there,
};
use std::sync::Arc;
use std::time::Duration;
use tabulith_client::{
    Account, Condition, Connection, Entity, Error, Options, Query, Retry, Transaction,
};
use tokio::net::TcpListener;

#[tokio::test]
async fn what_may_pass_is_tried_again_after_exact_waits() {
    for status in [408, 429, 500, 502, 503, 504, 520, 524] {
        let again = || refusal(status, "", "Whatever");
        let script = Script::new(vec![again(), again(), again(), done()]).await;
        assert_eq!(script.table.upsert(&row()).await.unwrap(), new());
        script.check(&["PUT"; 4], &[1000, 3000, 7000]);
    }
}

/// A second call gave the later pages alone.
#[tokio::test]
async fn pages_that_were_read_before_an_error_are_not_lost() {
    let page = |more, value: &str| Act::Answer(200, more, format!("{{\"value\":[{value}]}}"));
    let entity = |rk| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{rk}\"}}");
    let more = "x-ms-continuation-NextPartitionKey: p\r\nx-ms-continuation-NextRowKey: b\r\n";
    let pages = [page(more, &entity("a")), refusal(400, "", "Whatever"), page("", &entity("b"))];
    let script = Script::new(pages.into()).await;
    let mut pages = script.table.query(Query::new());
    assert_eq!(pages.all().await.unwrap_err().status(), Some(400));
    let keys: Vec<_> = pages.all().await.unwrap().into_iter().map(|e| e.row_key).collect();
    assert_eq!(keys, ["a", "b"]);
    script.check(&["GET"; 3], &[]);
}

#[tokio::test]
async fn what_will_not_pass_is_told_at_once() {
    for status in [400, 401, 403, 404, 405, 409, 411, 412, 413, 415, 501, 505] {
        let script = Script::new(vec![refusal(status, "", "Whatever")]).await;
        let error = script.table.upsert(&row()).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        script.check(&["PUT"], &[]);
    }
}

#[tokio::test]
async fn retries_end_and_the_last_refusal_is_told() {
    let script = Script::new(vec![busy(), busy(), busy(), busy()]).await;
    let error = script.table.get("p", "r").await.unwrap_err();
    assert_eq!(error.code(), Some("ServerBusy"));
    assert_eq!(error.refusal().unwrap().request_id.as_deref(), Some("r"));
    script.check(&["GET"; 4], &[1000, 3000, 7000]);
    let script = Script::new(vec![busy()]).await;
    assert!(script.table.with_retry(Retry::NONE).get("p", "r").await.is_err());
    script.check(&["GET"], &[]);
    let script = Script::new(vec![busy(), done()]).await;
    let fixed = Retry::fixed(Duration::from_millis(70), 1);
    script.table.with_retry(fixed).upsert(&row()).await.unwrap();
    script.check(&["PUT", "PUT"], &[70]);
}

#[tokio::test]
async fn the_time_for_a_call_is_kept() {
    let script = Script::new(vec![busy(), busy()]).await;
    let time_max = Duration::from_millis(3999);
    let retry = Retry { backoff: ONE_SECOND, time_max, ..Retry::default() };
    assert!(script.table.with_retry(retry).get("p", "r").await.is_err());
    script.check(&["GET", "GET"], &[1000]);
}

#[tokio::test]
async fn retry_after_is_honoured_unless_it_is_too_long() {
    let slow = refusal(503, "Retry-After: 9\r\n", "ServerBusy");
    let exact = refusal(429, "x-ms-retry-after-ms: 3500\r\nRetry-After: 9\r\n", "ServerBusy");
    let script = Script::new(vec![slow, exact, done()]).await;
    script.table.upsert(&row()).await.unwrap();
    script.check(&["PUT"; 3], &[9000, 3500]);
    let script = Script::new(vec![refusal(503, "Retry-After: 61\r\n", "ServerBusy")]).await;
    let error = script.table.upsert(&row()).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().retry_after, Some(Duration::from_secs(61)));
    script.check(&["PUT"], &[]);
}

#[tokio::test]
async fn a_cut_or_missing_answer_is_asked_for_again() {
    let script = Script::new(vec![Act::Cut, Act::Hang, there("new", "")]).await;
    assert!(script.table.get("p", "r").await.unwrap().is_some());
    script.check(&["GET"; 3], &[1000, 3000]);
    let script = Script::new(vec![Act::Hang, Act::Cut, Act::Hang, Act::Cut]).await;
    let error = script.table.insert(&row()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { maybe_done: true, .. }), "{error}");
    script.check(&["POST"; 4], &[1000, 3000, 7000]);
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_done() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let text = format!("AccountName=abc;AccountKey=aGVsbG8=;TableEndpoint=http://{address}/abc");
    let world = Arc::new(Noted::default());
    let retry = Retry::fixed(Duration::from_secs(1), 2);
    let options = Options { retry, world: world.clone(), ..Options::default() };
    let table = Account::new(Connection::parse(&text).unwrap(), options).table("T");
    let error = table.insert(&row()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { maybe_done: false, .. }), "{error}");
    assert_eq!(*world.waits.lock().unwrap(), [Duration::from_secs(1); 2]);
}

#[tokio::test]
async fn an_insert_that_was_done_and_lost_is_recognised() {
    let script = Script::new(vec![Act::Hang, exists(), there("new", ",\"a\":1")]).await;
    assert_eq!(script.table.insert(&row()).await.unwrap(), new());
    script.check(&["POST", "POST", "GET"], &[1000]);
    let timed_out = refusal(500, "", "OperationTimedOut");
    let script = Script::new(vec![timed_out, exists(), there("new", ",\"a\":1")]).await;
    assert_eq!(script.table.insert(&row()).await.unwrap(), new());
    script.check(&["POST", "POST", "GET"], &[1000]);
}

/// A proxy's 503 was taken for the service's, which has not begun then: the insert that the proxy
/// had handed on was told as a conflict with somebody else.
#[tokio::test]
async fn a_proxy_that_is_busy_may_have_handed_the_call_on() {
    for (status, text) in [
        (503, "upstream connect error"),
        (503, ""),
        (429, "slow down"),
        (520, "error code: 520"),
        (524, "error code: 524"),
    ] {
        let proxy = Act::Answer(status, "", text.to_owned());
        let script = Script::new(vec![proxy.clone(), exists(), there("new", ",\"a\":1")]).await;
        assert_eq!(script.table.insert(&row()).await.unwrap(), new());
        script.check(&["POST", "POST", "GET"], &[1000]);
        let table = Script::new(vec![proxy]).await.table.with_retry(Retry::NONE);
        let error = table.insert(&row()).await.unwrap_err();
        assert_eq!((error.status(), error.maybe_done()), (Some(status), true));
    }
    // The service names its code in a header where its answer has no body.
    let busy = Act::Answer(503, "x-ms-error-code: ServerBusy\r\n", String::new());
    let script = Script::new(vec![busy, exists()]).await;
    let error = script.table.insert(&row()).await.unwrap_err();
    assert!(error.is_conflict() && !error.maybe_done(), "{error}");
    script.check(&["POST", "POST"], &[1000]);
}

#[tokio::test]
async fn an_insert_of_somebody_else_is_a_conflict() {
    for other in [",\"a\":2", "", ",\"a\":1,\"b\":1", ",\"a\":1.0"] {
        let script = Script::new(vec![Act::Hang, exists(), there("new", other)]).await;
        assert!(script.table.insert(&row()).await.unwrap_err().is_conflict(), "{other}");
        script.check(&["POST", "POST", "GET"], &[1000]);
    }
    // Without a lost answer nothing is looked up: whatever is there, this call did not write it.
    let script = Script::new(vec![exists()]).await;
    assert!(script.table.insert(&row()).await.unwrap_err().is_conflict());
    script.check(&["POST"], &[]);
    // A service that is busy has not begun.
    let script = Script::new(vec![busy(), exists()]).await;
    assert!(script.table.insert(&row()).await.unwrap_err().is_conflict());
    script.check(&["POST", "POST"], &[1000]);
}

#[tokio::test]
async fn a_delete_that_was_done_and_lost_is_recognised() {
    let script = Script::new(vec![Act::Hang, missing(), missing()]).await;
    script.table.delete("p", "r", old()).await.unwrap();
    script.check(&["DELETE", "DELETE", "GET"], &[1000]);
    let script = Script::new(vec![missing()]).await;
    assert!(script.table.delete("p", "r", Condition::Any).await.unwrap_err().is_not_found());
    script.check(&["DELETE"], &[]);
    let no_table = refusal(404, "", "TableNotFound");
    let script = Script::new(vec![Act::Hang, no_table]).await;
    assert!(script.table.delete("p", "r", Condition::Any).await.unwrap_err().is_not_found());
    script.check(&["DELETE", "DELETE"], &[1000]);
}

#[tokio::test]
async fn an_update_that_was_done_and_lost_is_recognised() {
    let script = Script::new(vec![Act::Hang, changed(), there("new", ",\"a\":1")]).await;
    assert_eq!(script.table.replace(&row(), old()).await.unwrap(), new());
    script.check(&["PUT", "PUT", "GET"], &[1000]);
    let more = there("new", ",\"a\":1,\"b\":2");
    let script = Script::new(vec![Act::Hang, changed(), more]).await;
    assert!(script.table.replace(&row(), old()).await.unwrap_err().is_changed_meanwhile());
    script.check(&["PUT", "PUT", "GET"], &[1000]);
    let script = Script::new(vec![changed()]).await;
    assert!(script.table.replace(&row(), old()).await.unwrap_err().is_changed_meanwhile());
    script.check(&["PUT"], &[]);
}

/// A merge counted as done where its properties were there, with the ETag of whoever had written
/// last: its sender took another's version for his own and wrote over it.
#[tokio::test]
async fn a_merge_whose_version_is_gone_is_not_taken_for_done() {
    let timed_out = refusal(500, "", "OperationTimedOut");
    let of_another = there("new", ",\"owner\":\"B\"");
    let moved_on = there("e3", ",\"a\":1,\"y\":5");
    for (first, wanted, found) in
        [(timed_out, Entity::new("p", "r"), of_another), (Act::Hang, row(), moved_on.clone())]
    {
        let script = Script::new(vec![first, changed(), found]).await;
        let error = script.table.merge(&wanted, old()).await.unwrap_err();
        assert!(error.is_changed_meanwhile() && error.maybe_done(), "{error}");
    }
    let mut transaction = Transaction::new();
    transaction.upsert_merge(row()).insert(row());
    let refused = refused_part(409, "EntityAlreadyExists");
    let acts = vec![Act::Hang, refused, moved_on, there("new", ",\"a\":1")];
    let error = Script::new(acts).await.table.submit(&transaction).await.unwrap_err();
    assert!(error.is_conflict() && error.maybe_done(), "{error}");
    // What would not tell is not looked up.
    let script = Script::new(vec![Act::Cut, changed()]).await;
    assert!(script.table.merge(&row(), old()).await.unwrap_err().maybe_done());
    script.check(&["PATCH", "PATCH"], &[1000]);
}

/// A transaction is done whole or not at all, and its insert tells whose it was: it failed with a
/// conflict with itself.
#[tokio::test]
async fn a_merge_of_the_same_commit_as_an_insert_is_recognised() {
    let merged = || Entity::new("p", "s").with("b", 2_i32);
    let mut transaction = Transaction::new();
    transaction.insert(row()).merge(merged(), old());
    let lost = |status, code| vec![Act::Hang, refused_part(status, code)];
    let (own, beside) = (there("new", ",\"a\":1"), there("new", ",\"b\":2,\"y\":5"));
    for (status, code) in [(409, "EntityAlreadyExists"), (412, "UpdateConditionNotSatisfied")] {
        let looked_up = vec![own.clone(), beside.clone()];
        let script = Script::new([lost(status, code), looked_up].concat()).await;
        assert_eq!(script.table.submit(&transaction).await.unwrap(), [Some(new()), Some(new())]);
        script.check(&["POST", "POST", "GET", "GET"], &[1000]);
    }
    let lost = || lost(409, "EntityAlreadyExists");
    // Another has written there since, or has set something else, or has inserted something else.
    let (moved_on, other) = (there("e3", ",\"b\":2"), there("new", ",\"b\":3"));
    for acts in [vec![own.clone(), moved_on], vec![own, other], vec![there("new", ",\"a\":2")]] {
        let script = Script::new([lost(), acts].concat()).await;
        let error = script.table.submit(&transaction).await.unwrap_err();
        assert!(error.is_conflict() && error.maybe_done(), "{error}");
    }
    // Keys without properties are what anybody would insert: they are not looked up.
    let mut bare = Transaction::new();
    bare.insert(Entity::new("p", "r")).merge(merged(), old());
    let script = Script::new(lost()).await;
    let error = script.table.submit(&bare).await.unwrap_err();
    assert!(error.is_conflict() && error.maybe_done(), "{error}");
    script.check(&["POST", "POST"], &[1000]);
}

/// The look-up's refusal took the place of the write's: who may not read was told he may not write.
#[tokio::test]
async fn a_look_up_that_is_refused_leaves_the_refusal_of_the_write() {
    let mut transaction = Transaction::new();
    transaction.insert(row());
    for (status, code) in [(403, "AuthorizationPermissionMismatch"), (404, "TableNotFound")] {
        let looked_up = || refusal(status, "", code);
        let script = Script::new(vec![Act::Hang, exists(), looked_up()]).await;
        let error = script.table.insert(&row()).await.unwrap_err();
        assert!(error.is_conflict() && error.maybe_done(), "{error}");
        script.check(&["POST", "POST", "GET"], &[1000]);
        let refused = refused_part(409, "EntityAlreadyExists");
        let script = Script::new(vec![Act::Hang, refused, looked_up()]).await;
        let error = script.table.submit(&transaction).await.unwrap_err();
        assert!(error.is_conflict() && error.maybe_done(), "{error}");
        script.check(&["POST", "POST", "GET"], &[1000]);
    }
}

/// Nobody answered the look-up, and the write before it was told as never sent.
#[tokio::test]
async fn a_look_up_that_reaches_nobody_leaves_open_what_was_done() {
    let script = Script::new(vec![Act::Hang, changed(), Act::Leave]).await;
    let error = script.table.replace(&row(), old()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { maybe_done: true, .. }), "{error:?}");
    script.check(&["PUT", "PUT"], &[1000, 1000, 3000, 7000]);
    let mut transaction = Transaction::new();
    transaction.insert(row());
    let refused = refused_part(409, "EntityAlreadyExists");
    let script = Script::new(vec![Act::Hang, refused, Act::Leave]).await;
    let error = script.table.submit(&transaction).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { maybe_done: true, .. }), "{error:?}");
    script.check(&["POST", "POST"], &[1000, 1000, 3000, 7000]);
}

/// A counter that is read and replaced counted twice: its own update was taken for another's.
#[tokio::test]
async fn a_refusal_after_a_lost_answer_says_that_the_write_may_be_done() {
    let script = Script::new(vec![Act::Hang, busy(), busy(), busy()]).await;
    let error = script.table.insert(&row()).await.unwrap_err();
    assert_eq!((error.status(), error.maybe_done()), (Some(503), true));
    script.check(&["POST"; 4], &[1000, 3000, 7000]);
    let script = Script::new(vec![Act::Hang, changed(), there("other", ",\"a\":2")]).await;
    let error = script.table.replace(&row(), old()).await.unwrap_err();
    assert!(error.is_changed_meanwhile() && error.maybe_done(), "{error}");
    script.check(&["PUT", "PUT", "GET"], &[1000]);
    // This status leaves it open by itself.
    let script = Script::new(vec![refusal(500, "", "OperationTimedOut")]).await;
    let error = script.table.with_retry(Retry::NONE).insert(&row()).await.unwrap_err();
    assert_eq!((error.status(), error.maybe_done()), (Some(500), true));
}

#[tokio::test]
async fn a_refusal_without_a_lost_answer_says_that_nothing_was_done() {
    let script = Script::new(vec![busy(), busy(), busy(), busy()]).await;
    let error = script.table.insert(&row()).await.unwrap_err();
    assert_eq!((error.status(), error.maybe_done()), (Some(503), false));
    for first in [vec![], vec![busy()]] {
        let script = Script::new([first, vec![changed()]].concat()).await;
        let error = script.table.replace(&row(), old()).await.unwrap_err();
        assert!(error.is_changed_meanwhile() && !error.maybe_done(), "{error}");
    }
}

/// Such a page was taken for a cut one and read six times.
#[tokio::test]
async fn an_answer_that_is_too_large_is_not_asked_for_again() {
    let bounded = |script: &Script| {
        let connection = script.account.connection().clone();
        let world = script.world.clone();
        let options = Options { answer_bytes_max: 10, world, ..Options::default() };
        Account::new(connection, options).table("T")
    };
    let script = Script::new(vec![Act::Answer(200, "", "{\"value\":[]}".to_owned())]).await;
    let error = bounded(&script).query(Query::new()).next_page().await.unwrap_err();
    assert_eq!(error, Error::Garbled("more than 10 bytes".to_owned()));
    script.check(&["GET"], &[]);
    let script = Script::new(vec![there("new", ",\"a\":1")]).await;
    let error = bounded(&script).insert(&row()).await.unwrap_err();
    assert_eq!(error, Error::Garbled("more than 10 bytes".to_owned()));
    assert!(error.maybe_done());
    script.check(&["POST"], &[]);
    // Of just so many bytes it is an answer, here one without JSON.
    let script = Script::new(vec![Act::Answer(200, "", "{\"value\":[".to_owned())]).await;
    let error = bounded(&script).query(Query::new()).next_page().await.unwrap_err();
    assert!(error.to_string().contains("no JSON"), "{error}");
}

#[tokio::test]
async fn a_transaction_that_was_done_and_lost_is_recognised() {
    let mut transaction = Transaction::new();
    transaction.insert(row());
    let lost = || vec![Act::Hang, refused_part(409, "EntityAlreadyExists")];
    let script = Script::new([lost(), vec![there("new", ",\"a\":1")]].concat()).await;
    assert_eq!(script.table.submit(&transaction).await.unwrap(), [Some(new())]);
    script.check(&["POST", "POST", "GET"], &[1000]);
    let script = Script::new([lost(), vec![there("new", ",\"a\":2")]].concat()).await;
    let error = script.table.submit(&transaction).await.unwrap_err();
    assert_eq!((error.status(), error.refusal().unwrap().index), (Some(409), Some(0)));
    script.check(&["POST", "POST", "GET"], &[1000]);
    // One of two is as it should be: it was somebody else.
    transaction.delete("p", "s", Condition::Any);
    let acts = vec![there("new", ",\"a\":1"), there("new", "")];
    let script = Script::new([lost(), acts].concat()).await;
    assert!(script.table.submit(&transaction).await.is_err());
    script.check(&["POST", "POST", "GET", "GET"], &[1000]);
}

#[tokio::test]
async fn a_passing_refusal_inside_a_transaction_is_tried_again() {
    let mut transaction = Transaction::new();
    transaction.insert(row());
    let answer = Act::Answer(202, MULTIPART, part(204, NEW, ""));
    let script = Script::new(vec![refused_part(503, "ServerBusy"), answer]).await;
    assert_eq!(script.table.submit(&transaction).await.unwrap(), [Some(new())]);
    script.check(&["POST", "POST"], &[1000]);
}

#[tokio::test]
async fn empty_pages_with_more_behind_them_are_passed_over() {
    let more =
        "x-ms-continuation-NextPartitionKey: 1!4!cA--\r\nx-ms-continuation-NextRowKey: 1!0!\r\n";
    let page = |headers, rows: &str| Act::Answer(200, headers, format!("{{\"value\":[{rows}]}}"));
    let row = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let acts = vec![page(more, ""), page(more, ""), busy(), page("", row)];
    let script = Script::new(acts).await;
    let mut pages = script.table.query(Query::new());
    assert_eq!(pages.next().await.unwrap().unwrap().row_key, "r");
    assert_eq!(pages.next().await.unwrap(), None);
    script.check(&["GET"; 4], &[1000]);
}

/// What was listed ended with such a page, as if nothing were behind it.
#[tokio::test]
async fn a_page_whose_continuation_cannot_be_read_is_not_the_last_one() {
    let page = |headers| Act::Answer(200, headers, "{\"value\":[]}".to_owned());
    let partition = "x-ms-continuation-NextPartitionKey: é\r\n";
    let row = "x-ms-continuation-NextPartitionKey: p\r\nx-ms-continuation-NextRowKey: é\r\n";
    for headers in [partition, row] {
        let script = Script::new(vec![page(headers)]).await;
        let error = script.table.query(Query::new()).next_page().await.unwrap_err();
        assert!(matches!(error, Error::Garbled(_)), "{error}");
        script.check(&["GET"], &[]);
    }
    let script = Script::new(vec![page("x-ms-continuation-NextTableName: é\r\n")]).await;
    let error = script.account.tables(None).next_page().await.unwrap_err();
    assert!(matches!(error, Error::Garbled(_)), "{error}");
}
