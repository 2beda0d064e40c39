//! Few files, and short ones.

use crate::common::Place;
use crate::limited::{Limited, all_there, entity, rows, table};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpStream};

#[test]
fn with_few_files_connections_wait_and_nothing_is_lost() {
    let place = Place::new();
    let mut server = Limited::start(&place, "ulimit -n 64", &[]).unwrap();
    let mut client = table(&server);
    assert_eq!(client.insert("rows", &entity(0, 100)).unwrap().status, 201);
    // Far more than there may be files; those that the server cannot take wait in the kernel.
    let idle: Vec<_> = (0..200)
        .filter_map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).ok())
        .collect();
    assert!(idle.len() > 100);
    let mut acked = BTreeSet::from([0]);
    for row in 1..40 {
        let reply = client.insert("rows", &entity(row, 40_000)).unwrap();
        assert_eq!(reply.status, 201, "row {row}: {}", reply.body);
        acked.insert(row);
    }
    assert!(server.lives());
    drop(idle);
    assert_eq!(server.client().insert("rows", &entity(40, 100)).unwrap().status, 201);
    acked.insert(40);
    assert_eq!(rows(&mut client), acked);
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
}

/// `RLIMIT_FSIZE`: writes beyond it fail as on a broken disk, or a signal ends the process.
#[test]
fn a_limit_on_the_size_of_files_loses_nothing() {
    for ignored in ["trap '' XFSZ; ", ""] {
        let place = Place::new();
        let first = Limited::start(&place, "", &[]).unwrap();
        let mut client = table(&first);
        let mut acked = BTreeSet::new();
        for row in 0..50 {
            assert_eq!(client.insert("rows", &entity(row, 1000)).unwrap().status, 201);
            acked.insert(row);
        }
        assert_eq!(first.stop(), Some(0));
        // 512 bytes or 1 KiB each, as the shell has it: 1 or 2 MiB, of which a small log needs one.
        let server = Limited::start(&place, &format!("{ignored}ulimit -f 2048"), &[]);
        let mut server = server.expect("a start below the limit");
        let mut client = server.client();
        let (mut accepted, mut refused) = (0, 0);
        for row in 100..400 {
            match client.insert("rows", &entity(row, 30_000)) {
                Ok(reply) if reply.status == 201 => {
                    acked.insert(row);
                    accepted += 1;
                }
                // Not 503: that the disk has no room and will have some is not what it says.
                Ok(reply) => {
                    assert_eq!(reply.status, 500, "{}", reply.body);
                    assert!(reply.body.contains("InternalError"), "{}", reply.body);
                    refused += 1;
                }
                Err(_) => break,
            }
        }
        assert!(accepted >= 10, "{accepted} rows of 30 KB went into files of 1 MiB");
        if ignored.is_empty() {
            assert_eq!(server.stop(), None, "a signal ends it");
        } else {
            assert!(refused > 0 && server.lives(), "9 MB went into files of 2 MiB");
            assert!(rows(&mut server.client()).is_superset(&acked), "reads go on");
            drop(server);
        }
        all_there(&place, &acked);
    }
}
