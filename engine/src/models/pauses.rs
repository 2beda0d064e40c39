//! Pauses that commits of two threads owe: each is paid once, whoever pays it.

use super::every_order::{holds, needs};
use crate::stall::Bucket;
use crate::sync::atomic::Ordering;
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// Two owe and pay; what is paid and what is left is what was owed.
fn paid_once() {
    let bucket = Arc::new(Bucket::default());
    let (first, second, third) = (600, 1_100, 500);
    let owe = |bucket: &Bucket, us| bucket.owe(Duration::from_micros(us)).unwrap_or_default();
    let other = Arc::clone(&bucket);
    let owing = thread::spawn(move || owe(&other, first));
    let own = owe(&bucket, second) + owe(&bucket, third);
    let paid = own + owing.join().expect("it ends");
    let left = Duration::from_nanos(bucket.owed_ns.load(Ordering::Relaxed));
    assert_eq!(paid + left, Duration::from_micros(first + second + third));
}

#[test]
fn every_pause_is_paid_once() {
    holds(paid_once, 10);
}

#[test]
fn a_pause_that_is_paid_needs_to_be_taken_off() {
    needs(paid_once, "owed");
}
