//! A process that is stopped, and a second one on the same folder.

use crate::common::{PATIENCE, Place};
use crate::limited::{Limited, all_there, entity, rows, table};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// In which a server that runs has answered many times.
const SILENCE: Duration = Duration::from_millis(200);

/// Sends the signal, and waits until every thread has stopped.
fn stop(server: &Limited) {
    server.signal("-STOP");
    let sent = Instant::now();
    while !server.stands_still() {
        assert!(sent.elapsed() < PATIENCE, "it goes on");
        std::thread::yield_now();
    }
}

#[test]
fn a_process_that_was_stopped_goes_on() {
    let place = Place::new();
    let mut server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let mut acked = BTreeSet::new();
    for row in 0..60 {
        if row % 20 == 10 {
            stop(&server);
            let mut new = server.client(); // Accepted by the kernel alone.
            client.begin_insert("rows", &entity(1000 + row, 100)).unwrap();
            new.begin_insert("rows", &entity(2000 + row, 100)).unwrap();
            let heard = [&mut client, &mut new].map(|one| one.hears_within(SILENCE).unwrap());
            assert_eq!(heard, [false, false], "an answer of a process that stands still");
            server.signal("-CONT");
            for (late, one) in [(1000 + row, &mut client), (2000 + row, &mut new)] {
                let reply = one.read_reply().unwrap();
                assert_eq!(reply.status, 201, "{}", reply.body);
                assert!(reply.body.contains(&format!("\"{late:08}\"")), "{}", reply.body);
                acked.insert(late);
            }
        }
        assert_eq!(client.insert("rows", &entity(row, 100)).unwrap().status, 201);
        acked.insert(row);
    }
    assert!(server.lives());
    assert_eq!(rows(&mut client), acked);
    drop(server);
    all_there(&place, &acked);
}

#[test]
fn a_second_process_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let second = place.run(&["serve", "--port", "0", "--data-dir", "data"]);
    assert_eq!(second.code, 5, "{}", second.err);
    assert!(second.err.contains("data is open already"), "{}", second.err);
    let salvage = place.run(&["salvage", "data", "new"]);
    assert_eq!(salvage.code, 5, "{}", salvage.err);
    assert_eq!(client.insert("rows", &entity(1, 100)).unwrap().status, 201);
    drop(server);
    all_there(&place, &BTreeSet::from([1]));
}
