//! The states that a power loss may leave, one after the other.
//!
//! Where all combinations of the free elements fit into the budget, all come. Otherwise:
//!
//! ```text
//! prefixes   everything up to one effect landed, nothing after it
//! missing    everything landed but for one element, in each of its other variants
//! suffixes   names and lengths landed, of the sectors only those from one on
//! only       names and lengths landed, of the sectors only one, in each of its variants
//! pairs      everything landed but for two sectors at the ends of writes
//! ```
//!
//! a sample of these where even they are too many; and for the rest of the budget (a quarter at
//! least) random states around a random prefix. No state comes twice.

use crate::env::rng::Rng;
use crate::vfs::sim::disk::Disk;
use crate::vfs::sim::element::{Profile, Variant};
use crate::vfs::sim::plan::{NamesState, Plan};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// One state that a power loss may leave.
#[derive(Clone)]
pub struct CrashState {
    plan: Arc<Plan>,
    choices: Box<[Variant]>,
    names: Arc<NamesState>,
    hash: u128,
}

impl CrashState {
    /// Equal for equal disks, also across crash points; otherwise different but for chances of 1
    /// in 2^128. A test that skips what it has seen must make what it expects part of the key: a
    /// later crash at the same state has to keep more.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    pub(crate) fn disk(&self) -> Disk {
        self.plan.build(&self.choices, &self.names)
    }
}

impl fmt::Debug for CrashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.describe(&self.choices, f)
    }
}

/// The states of one crash point; see [`crate::vfs::mem::SimFs::crash_states`].
#[derive(Debug)]
pub struct CrashStates {
    plan: Arc<Plan>,
    /// Variants that are not the newest, over all elements; and not the oldest, over sectors.
    missing: Vec<(usize, Variant)>,
    only: Vec<(usize, Variant)>,
    sectors: Vec<usize>,
    edges: Vec<usize>,
    order: Order,
    rng: Rng,
    seen: HashSet<u128>,
    budget: usize,
    /// Stops the search where nearly all states have been seen.
    attempts: usize,
}

/// Where the enumeration stands.
#[derive(Debug)]
enum Order {
    /// All combinations; the next one to yield.
    All(Option<Box<[Variant]>>),
    /// All systematic states; the class and the index in it.
    Each(usize, usize),
    /// A sample of the systematic states.
    Sample,
    Random,
}

const PREFIXES: usize = 0;
const MISSING: usize = 1;
const SUFFIXES: usize = 2;
const ONLY: usize = 3;
const PAIRS: usize = 4;
const CLASSES: usize = 5;

impl CrashStates {
    pub(crate) fn new(disk: Disk, profile: Profile, budget: usize, seed: u64) -> CrashStates {
        let plan = Arc::new(Plan::new(disk, profile));
        let all = || plan.elements.iter().enumerate();
        let others =
            |except: Variant, variants: Variant| (0..variants).filter(move |v| *v != except);
        let sectors = || all().filter(|(_, e)| e.is_sector());
        let mut states = CrashStates {
            missing: all()
                .flat_map(|(i, e)| others(e.new, e.variants).map(move |v| (i, v)))
                .collect(),
            only: sectors().flat_map(|(i, e)| others(0, e.variants).map(move |v| (i, v))).collect(),
            sectors: sectors().map(|(i, _)| i).collect(),
            edges: all().filter(|(_, e)| e.is_edge()).map(|(i, _)| i).collect(),
            order: Order::Sample,
            rng: Rng::seeded(seed),
            seen: HashSet::new(),
            budget,
            attempts: budget.saturating_mul(4).saturating_add(CLASSES),
            plan,
        };
        states.order = states.best_order();
        states
    }

    fn best_order(&self) -> Order {
        let combinations = self.plan.elements.iter().map(|e| usize::from(e.variants));
        let systematic = (0..CLASSES).map(|class| self.class_len(class)).sum::<usize>();
        if combinations.fold(1, usize::saturating_mul) <= self.budget {
            Order::All(Some(vec![0; self.plan.elements.len()].into()))
        } else if systematic <= self.budget / 4 * 3 {
            Order::Each(0, 0)
        } else {
            Order::Sample
        }
    }

    fn class_len(&self, class: usize) -> usize {
        match class {
            PREFIXES => self.plan.stamps.len() + 1,
            MISSING => self.missing.len(),
            SUFFIXES => self.sectors.len(),
            ONLY => self.only.len(),
            _ => self.edges.len() * self.edges.len().saturating_sub(1) / 2,
        }
    }

    /// The next combination to look at; it may have come before.
    fn candidate(&mut self) -> Option<Box<[Variant]>> {
        match &mut self.order {
            Order::All(next) => {
                let choices = next.take()?;
                *next = successor(&self.plan, &choices);
                Some(choices)
            }
            Order::Each(class, index) => {
                let (at, i) = (*class, *index);
                *index += 1;
                if i < self.class_len(at) {
                    return Some(self.systematic(at, i));
                }
                self.order = if at + 1 < CLASSES { Order::Each(at + 1, 0) } else { Order::Random };
                self.candidate()
            }
            Order::Sample => {
                if self.seen.len() >= self.budget / 4 * 3 {
                    self.order = Order::Random;
                }
                let class = self.rng.below(CLASSES as u64) as usize;
                match self.class_len(class) {
                    0 => Some(self.random()),
                    len => {
                        let index = self.rng.below(len as u64) as usize;
                        Some(self.systematic(class, index))
                    }
                }
            }
            Order::Random => Some(self.random()),
        }
    }

    fn systematic(&self, class: usize, index: usize) -> Box<[Variant]> {
        match class {
            PREFIXES => self.prefix(index),
            MISSING => {
                let mut choices = self.newest();
                let (element, variant) = self.missing[index];
                choices[element] = variant;
                choices
            }
            SUFFIXES => {
                let mut choices = self.newest();
                self.sectors[..index].iter().for_each(|sector| choices[*sector] = 0);
                choices
            }
            ONLY => {
                let mut choices = self.newest();
                self.sectors.iter().for_each(|sector| choices[*sector] = 0);
                let (element, variant) = self.only[index];
                choices[element] = variant;
                choices
            }
            PAIRS.. => {
                let (left, right) = pair(index);
                let mut choices = self.newest();
                choices[self.edges[left]] = 0;
                choices[self.edges[right]] = 0;
                choices
            }
        }
    }

    fn newest(&self) -> Box<[Variant]> {
        self.plan.elements.iter().map(|element| element.new).collect()
    }

    /// What the disk would hold had everything up to the `count`-th effect landed.
    fn prefix(&self, count: usize) -> Box<[Variant]> {
        let last = count.checked_sub(1).map_or(0, |last| self.plan.stamps[last]);
        self.plan.elements.iter().map(|element| element.at(last)).collect()
    }

    /// A random prefix, or everything, with each element changed by a chance that is itself random:
    /// some bugs need one bad sector among many good ones, others the reverse.
    fn random(&mut self) -> Box<[Variant]> {
        let count = match self.rng.one_in(2) {
            true => self.plan.stamps.len(),
            false => self.rng.below(self.plan.stamps.len() as u64 + 1) as usize,
        };
        let mut choices = self.prefix(count);
        let odds = [2, 4, 16, 64][self.rng.below(4) as usize];
        let lapses_only = self.rng.one_in(3);
        for (choice, element) in choices.iter_mut().zip(&self.plan.elements) {
            if self.rng.one_in(odds) {
                *choice = match lapses_only {
                    true => 0,
                    false => self.rng.below(u64::from(element.variants)) as Variant,
                };
            }
        }
        choices
    }
}

impl Iterator for CrashStates {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        while self.seen.len() < self.budget && self.attempts > 0 {
            self.attempts -= 1;
            let choices = self.candidate()?;
            let names = self.plan.names(&choices);
            let hash = self.plan.hash(&choices, &names);
            if self.seen.insert(hash) {
                return Some(CrashState { plan: self.plan.clone(), choices, names, hash });
            }
        }
        None
    }
}

/// The combination after `choices`, counting like an odometer.
fn successor(plan: &Plan, choices: &[Variant]) -> Option<Box<[Variant]>> {
    let mut next: Box<[Variant]> = choices.into();
    for (digit, element) in next.iter_mut().zip(&plan.elements) {
        *digit += 1;
        if *digit < element.variants {
            return Some(next);
        }
        *digit = 0;
    }
    None
}

/// The `index`-th pair of numbers `left < right`: (0, 1), (0, 2), (1, 2), (0, 3), …
fn pair(index: usize) -> (usize, usize) {
    let mut right = ((2.0 * index as f64 + 0.25).sqrt() + 0.5) as usize;
    // The root may be off by one for large numbers.
    while right * (right - 1) / 2 > index {
        right -= 1;
    }
    while right * (right + 1) / 2 <= index {
        right += 1;
    }
    (index - right * (right - 1) / 2, right)
}

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn pairs_are_numbered_without_gaps() {
        let mut expected = (1..40).flat_map(|right| (0..right).map(move |left| (left, right)));
        assert!((0..700).all(|index| expected.next() == Some(pair(index))));
    }
}
