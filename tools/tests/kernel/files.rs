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
        // 512 bytes or 1 KiB each, as the shell has it: 1 or 2 MiB.
        let server = Limited::start(&place, &format!("{ignored}ulimit -f 2048"), &[]);
        let mut refusals = 0;
        match &server {
            Err(error) => {
                eprintln!("refused at start: {error}");
                assert!(ignored.is_empty() || !error.is_empty());
                refusals += 1;
            }
            Ok(server) => {
                let mut client = server.client();
                for row in 100..400 {
                    match client.insert("rows", &entity(row, 30_000)) {
                        Ok(reply) if reply.status == 201 => _ = acked.insert(row),
                        Ok(reply) => {
                            assert!(matches!(reply.status, 500 | 503), "{}", reply.body);
                            refusals += 1;
                        }
                        Err(_) => {
                            refusals += 1;
                            break;
                        }
                    }
                }
            }
        }
        assert!(refusals > 0, "9 MB went into files of 2 MiB");
        drop(server);
        all_there(&place, &acked);
    }
}
