//! What one thread does for another: done once, by either, and its owner is told.

use super::every_order::{holds, needs};
use crate::errands::{Errand, Errands, Task};
use loom::thread;
use std::sync::Arc;

struct Doubling(Task<u32, u32>);

impl Errand for Doubling {
    fn run(&self, _scratch: &mut Vec<u8>) {
        self.0.run(|number| number * 2);
    }
}

/// The owner hands over two errands and wants both, whether the thread is there yet or not.
fn shared() {
    let errands = Arc::new(Errands::default());
    let served = Arc::clone(&errands);
    let serving = thread::spawn(move || served.serve());
    let given = [1, 2].map(|number| Arc::new(Doubling(Task::new(number))));
    for errand in &given {
        errands.give(Arc::clone(errand) as Arc<dyn Errand>);
    }
    for (number, errand) in [1, 2].into_iter().zip(given) {
        errand.run(&mut Vec::new());
        assert_eq!(errand.0.take(), Some(number * 2));
    }
    errands.close();
    serving.join().expect("it ends");
}

#[test]
fn an_errand_is_done_once_and_its_owner_is_told() {
    holds(shared, 50);
}

#[test]
fn an_owner_needs_to_be_told() {
    needs(shared, "errand");
}
