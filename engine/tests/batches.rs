//! Batches while they are put together: they show what they have written, and come back to
//! savepoints.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::limits::KEY_PART_BYTES_MAX;
use tabulith::vfs::mem::SimFs;
use tabulith::{CommitTs, Db, Kind, Partition};

fn partition() -> (Arc<ManualClock>, Db, Partition) {
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let parts = (Arc::new(SimFs::new()), Arc::clone(&clock), Arc::new(ByHand));
    let db = Db::builder().parts(parts.0, parts.1, parts.2).open("/db").unwrap();
    let partition = db.table("t").unwrap().partition("p");
    (clock, db, partition)
}

/// RowKeys that ranges and rows are drawn from: few, so that they meet.
fn key(rng: &mut Rng) -> Vec<u8> {
    vec![rng.below(12) as u8; 1 + rng.below(2) as usize]
}

fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

#[test]
fn a_batch_shows_what_its_commit_leaves() {
    let (_clock, db, partition) = partition();
    let mut rng = Rng::seeded(7);
    let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for _ in 0..300 {
        let (mut batch, mut savepoints) = (partition.batch(), Vec::new());
        let mut own = rows.clone();
        for _ in 0..rng.below(20) {
            let (rk, value) = (key(&mut rng), rng.next_u64().to_be_bytes().to_vec());
            batch = match rng.below(8) {
                0..3 => {
                    own.insert(rk.clone(), value.clone());
                    batch.upsert(rk, value)
                }
                3 => {
                    own.remove(&rk);
                    batch.delete(rk)
                }
                4 => {
                    let range = (bound(&mut rng), bound(&mut rng));
                    let within = |rk: &Vec<u8>| std::ops::RangeBounds::contains(&range, rk);
                    own.retain(|rk, _| !within(rk));
                    batch.delete_range(range)
                }
                5 => {
                    let (past, soon) = (db.time(), db.time().after(Duration::from_secs(3600)));
                    let expires = if rng.below(2) == 0 { past } else { soon };
                    own.remove(&rk);
                    own.extend((expires == soon).then(|| (rk.clone(), value.clone())));
                    batch.upsert_until(rk, value, expires)
                }
                6 => {
                    savepoints.push((batch.savepoint(), own.clone()));
                    batch
                }
                _ => {
                    if !savepoints.is_empty() {
                        let place = rng.below(savepoints.len() as u64) as usize;
                        savepoints.truncate(place + 1);
                        batch.rollback_to(savepoints[place].0).unwrap();
                        own = savepoints[place].1.clone();
                    }
                    batch
                }
            };
            let rk = key(&mut rng);
            let found = batch.get(&rk).unwrap().map(|row| row.value.to_vec());
            assert_eq!(found.as_ref(), own.get(&rk), "{rk:?}");
        }
        if rng.below(4) > 0 {
            batch.commit().unwrap();
            rows = own;
        }
        let scan = partition.scan::<&[u8]>(..).unwrap().map(Result::unwrap);
        let left: Vec<_> = scan.map(|row| (row.row_key.to_vec(), row.value.to_vec())).collect();
        assert_eq!(left, rows.clone().into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn what_a_batch_wrote_has_no_commit_and_may_expire() {
    let (clock, db, partition) = partition();
    let hour = Duration::from_secs(3600);
    let batch = partition.batch().upsert_until("r", "own", db.time().after(hour));
    let own = batch.get("r").unwrap().unwrap();
    assert_eq!((own.ts, &own.value[..]), (CommitTs::ZERO, &b"own"[..]));
    clock.advance(2 * hour);
    assert!(batch.get("r").unwrap().is_none());
    let ts = partition.batch().insert("s", "theirs").commit().unwrap();
    assert_eq!(
        batch.get("s").unwrap().map(|row| row.ts),
        Some(ts),
        "everybody's rows are as they are now"
    );
}

#[test]
fn a_savepoint_that_is_not_the_batchs_changes_nothing() {
    let (_clock, _db, partition) = partition();
    let mut batch = partition.batch().upsert("a", "1");
    let first = batch.savepoint();
    batch = batch.upsert("b", "2");
    let second = batch.savepoint();
    batch.rollback_to(first).unwrap();
    assert_eq!(batch.rollback_to(second).unwrap_err().kind(), Kind::Invalid, "it was passed");
    assert_eq!(partition.batch().rollback_to(first).unwrap_err().kind(), Kind::Invalid);
    batch.upsert("c", "3").commit().unwrap();
    let keys = partition.scan::<&str>(..).unwrap().map(|row| row.unwrap().row_key.to_vec());
    assert_eq!(keys.collect::<Vec<_>>(), [b"a".to_vec(), b"c".to_vec()]);
}

#[test]
fn a_batch_knows_how_large_it_is() {
    let (_clock, db, partition) = partition();
    let size = |batch: &tabulith::Batch| (batch.len(), batch.bytes(), batch.is_empty());
    let mut batch = partition.batch();
    assert_eq!(size(&batch), (0, 0, true));
    batch = batch.insert("a", "one");
    let one = batch.savepoint();
    batch = batch.delete("bb").delete_range("c".."cc").upsert_until("d", "x", db.time());
    assert_eq!(size(&batch), (4, 11, false));
    batch.rollback_to(one).unwrap();
    assert_eq!(size(&batch), (1, 4, false));

    let too_long = batch.clone().upsert(vec![b'x'; KEY_PART_BYTES_MAX + 1], "").commit();
    assert_eq!(too_long.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(partition.count().unwrap(), 0);
    batch.upsert(vec![b'x'; KEY_PART_BYTES_MAX], "").commit().unwrap();
    assert_eq!(partition.count().unwrap(), 2);
}
