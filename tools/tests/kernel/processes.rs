//! A process that is stopped, and a second one on the same folder.

use crate::client::Client;
use crate::common::Place;
use crate::limited::{Limited, all_there, entity, table};
use std::collections::BTreeSet;

#[test]
fn a_process_that_was_stopped_goes_on() {
    let place = Place::new();
    let mut server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let mut acked = BTreeSet::new();
    for row in 0..60 {
        if row % 20 == 10 {
            server.signal("-STOP");
            // Sent to a process that stands still; its answer comes when that goes on.
            let port = server.port;
            let waiting = std::thread::spawn(move || {
                let mut client = Client::connect(port).expect("the kernel accepts");
                client.insert("rows", &entity(1000 + row, 100)).expect("an answer").status
            });
            server.signal("-CONT");
            assert_eq!(waiting.join().unwrap(), 201);
            acked.insert(1000 + row);
        }
        assert_eq!(client.insert("rows", &entity(row, 100)).unwrap().status, 201);
        acked.insert(row);
    }
    assert!(server.lives());
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
    assert!(second.err.contains("another process"), "{}", second.err);
    let salvage = place.run(&["salvage", "data", "new"]);
    assert_eq!(salvage.code, 5, "{}", salvage.err);
    assert_eq!(client.insert("rows", &entity(1, 100)).unwrap().status, 201);
    drop(server);
    all_there(&place, &BTreeSet::from([1]));
}
