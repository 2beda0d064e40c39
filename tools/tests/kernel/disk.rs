//! A disk without room, again and again.
//!
//! `TABULITH_ROUNDS=100` fills and empties it more often than the default.

use crate::client::Client;
use crate::common::Place;
use crate::limited::{Limited, row_number};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed;

const ROUNDS_DEFAULT: u64 = 3;
/// Rows that are written again and again.
const ROWS: u64 = 40;
/// So many refusals of a round are enough.
const REFUSALS: usize = 12;

/// A disk of its own in memory; `None` where this process may not mount one.
struct Disk<'a>(&'a Place);

impl<'a> Disk<'a> {
    fn mount(place: &'a Place, size: &str) -> Option<Disk<'a>> {
        let dir = place.path("data");
        std::fs::create_dir(&dir).unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Disk(place))
    }

    /// Takes all that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.ballast()).unwrap();
        let full = std::io::copy(&mut std::io::repeat(1), &mut file);
        assert!(full.is_err(), "a disk without end");
    }

    fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> std::path::PathBuf {
        self.0.path("data/lost+found")
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path("data")).status();
    }
}

/// What each row was last acknowledged to be.
#[derive(Default)]
struct Rows {
    acked: BTreeMap<u64, u64>,
    writes: u64,
}

impl Rows {
    /// Writes the next row anew; whether that was acknowledged.
    fn write(&mut self, client: &mut Client) -> bool {
        self.writes += 1;
        let (row, write) = (self.writes % ROWS, self.writes);
        let text = format!("{write}/").repeat(8000);
        let entity = format!("{{\"Write\":\"{write}\",\"Text\":\"{}\"}}", &text[..15_000]);
        let reply = client.put("rows", "p", &format!("{row:08}"), &entity).expect("an answer");
        match reply.status {
            204 => _ = self.acked.insert(row, write),
            503 => assert_eq!(reply.header("retry-after"), Some("1"), "{}", reply.body),
            status => panic!("{status}: {}", reply.body),
        }
        reply.status == 204
    }

    /// Every row is what it was acknowledged to be, and not what was refused.
    fn check(&self, client: &mut Client, when: &str) {
        let mut found = BTreeMap::new();
        client.each_row("rows", |row| {
            let write = row["Write"].as_str().expect("its write").parse().expect("a number");
            found.insert(row_number(row), write);
        });
        assert_eq!(found, self.acked, "{when}");
    }
}

#[test]
fn a_full_disk_refuses_writes_and_serves_reads_until_there_is_room() {
    let rounds = seed::number("TABULITH_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let place = Place::new();
    let Some(disk) = Disk::mount(&place, "160m") else {
        counts::skipped(
            "a full disk, as no tmpfs can be mounted without root; see the test of RLIMIT_FSIZE",
        );
        return;
    };
    let mut server = Limited::start(&place, "", &[]).unwrap();
    let mut client = crate::limited::table(&server);
    let (mut rows, mut refused) = (Rows::default(), 0);
    for _ in 0..ROWS {
        assert!(rows.write(&mut client));
    }
    assert_eq!(server.ready().0, 200);
    for round in 1..=rounds {
        disk.fill();
        let mut refusals = 0;
        for _ in 0..20_000 {
            refusals += usize::from(!rows.write(&mut client));
            if refusals >= REFUSALS {
                break;
            }
        }
        assert_eq!(refusals, REFUSALS, "600 MB on a full disk");
        refused += refusals as u64;
        let (status, why) = server.ready();
        assert!(
            status == 503 && ["disk full", "stalled: flushes are behind"].contains(&&*why),
            "{why}"
        );
        let log = std::fs::read_to_string(place.path("stderr")).unwrap();
        let reason = if why == "disk full" { "refuses work" } else { "background work failed" };
        assert!(log.contains(reason), "{why}, and the log says {log}");
        rows.check(&mut client, "reads go on, and nothing that was refused is there");
        disk.empty();
        let again = (0..).find(|_| rows.write(&mut client));
        assert_eq!(server.ready().0, 200, "round {round}");
        rows.check(&mut client, "nothing that was refused has come");
        eprintln!("round {round}: {} writes, again after {again:?} refusals", rows.writes);
        assert!(server.lives(), "no restart is needed");
    }
    assert_eq!(server.stop(), Some(0));
    let server = Limited::start(&place, "", &[]).expect("a start");
    rows.check(&mut server.client(), "after a start");
    assert_eq!(server.stop(), Some(0));
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
    let floors = [count("full", rounds, 1), count("refused", refused, rounds)];
    counts::tell("full-disk", &floors);
}
