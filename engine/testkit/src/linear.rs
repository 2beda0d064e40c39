//! Whether calls that overlapped could have happened one after the other.
//!
//! The search is that of Wing and Gong with Lowe's memory of what was tried: some call that nothing
//! must precede goes first, then the next; a set of calls done that was met before in the same
//! state is not gone through again. Three things keep it short, and none of them changes its
//! outcome. Calls that leave the state as it is are taken as early as they fit. Of unanswered calls
//! that ask the same the oldest stands for all. And who has come to some place with certain
//! unanswered calls used up need not look whether it could be done with more of them.
//!
//! Absent: the division into keys. Who checks does it first, or the search has no end.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// A call as who made it saw it. Times are of one clock that never gives a time twice; what one
/// request asks of several keys begins at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<A> {
    /// Before it was sent.
    pub begin: u64,
    /// After its answer came; `None` where none ever came: it may take effect at any time after
    /// `begin`, or never.
    pub end: Option<u64>,
    /// What was asked, and what was answered.
    pub act: A,
}

/// What calls act on.
pub trait Model {
    /// What there is.
    type State: Clone + Eq + Hash + Debug;
    /// A question and its answer.
    type Act: Debug + PartialEq;

    /// What there is at first.
    fn initial(&self) -> Self::State;

    /// The state after the call, if it could be answered as it was in this one.
    fn apply(&self, state: &Self::State, act: &Self::Act) -> Option<Self::State>;
}

/// What the search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order, found in that many steps.
    Possible(u64),
    /// There is none.
    Impossible(Stuck),
    /// More steps than allowed.
    TooHard,
}

/// Where the search came furthest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// How many answered calls had their place.
    pub placed: usize,
    /// Numbers of the calls of which none fitted next.
    pub next: Vec<usize>,
    /// What there was then.
    pub state: String,
}

/// Looks for an order of `calls`, in at most `steps_max` steps.
pub fn check<M: Model>(model: &M, calls: &[Call<M::Act>], steps_max: u64) -> Verdict {
    Search::new(model, calls).run(steps_max)
}

struct Search<'a, M: Model> {
    model: &'a M,
    calls: &'a [Call<M::Act>],
    /// Calls with an answer, by their beginning.
    answered: Vec<usize>,
    /// Calls without, by their beginning.
    open: Vec<usize>,
    done: Done,
    /// By what was answered and the state that it left: the sets of unanswered calls used up then.
    tried: HashMap<(Answered, M::State), Vec<Vec<u64>>>,
}

/// Which calls have their place.
#[derive(Clone, Debug, Default)]
struct Done {
    answered: Answered,
    open: Vec<u64>,
}

/// Which answered calls have their place: all before `low`, and some behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Answered {
    low: usize,
    /// From `low` on; ends with a one.
    behind: Vec<u64>,
}

/// A step of the search that may have to be taken back.
struct Frame<S> {
    before: Done,
    state: S,
    choices: std::vec::IntoIter<Choice>,
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Answered(usize),
    Open(usize),
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, calls: &'a [Call<M::Act>]) -> Search<'a, M> {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|call| calls[*call].begin);
        let (answered, open) = order.into_iter().partition(|call| calls[*call].end.is_some());
        Search { model, calls, answered, open, done: Done::default(), tried: HashMap::new() }
    }

    fn run(mut self, steps_max: u64) -> Verdict {
        let mut steps = 0;
        let mut furthest = Stuck { placed: 0, next: Vec::new(), state: String::new() };
        let mut placed = 0;
        let mut state = self.model.initial();
        let mut frames: Vec<Frame<M::State>> = Vec::new();
        loop {
            if placed == self.answered.len() {
                return Verdict::Possible(steps);
            }
            let choices = self.choices(&state);
            if choices.is_empty() && placed >= furthest.placed {
                furthest = Stuck { placed, next: self.next(), state: format!("{state:?}") };
            }
            frames.push(Frame { before: self.done.clone(), state, choices: choices.into_iter() });
            state = loop {
                let Some(frame) = frames.last_mut() else { return Verdict::Impossible(furthest) };
                let Some(choice) = frame.choices.next() else {
                    frames.pop();
                    continue;
                };
                steps += 1;
                if steps > steps_max {
                    return Verdict::TooHard;
                }
                let (before, now) = (frame.before.clone(), frame.state.clone());
                self.done = before;
                if let Some(after) = self.take(choice, &now)
                    && self.is_new(&after)
                {
                    break after;
                }
            };
            placed = self.done.answered.count();
        }
    }

    /// Whether this place was not met before, nor with fewer unanswered calls used up.
    fn is_new(&mut self, state: &M::State) -> bool {
        let place = (self.done.answered.clone(), state.clone());
        let sets = self.tried.entry(place).or_default();
        let open = &self.done.open;
        let is_within = |set: &Vec<u64>| {
            set.iter().enumerate().all(|(n, word)| word & !open.get(n).unwrap_or(&0) == 0)
        };
        if sets.iter().any(is_within) {
            return false;
        }
        sets.push(open.clone());
        true
    }

    /// The calls that may come next, likely ones first.
    fn choices(&self, state: &M::State) -> Vec<Choice> {
        let mut choices = Vec::new();
        let mut first_end = u64::MAX;
        for at in self.done.answered.low..self.answered.len() {
            let call = &self.calls[self.answered[at]];
            if call.begin > first_end {
                break;
            }
            if self.done.answered.has(at) {
                continue;
            }
            first_end = first_end.min(call.end.unwrap_or(u64::MAX));
            match self.model.apply(state, &call.act) {
                Some(after) if after == *state => return vec![Choice::Answered(at)],
                Some(_) => choices.push(Choice::Answered(at)),
                None => {}
            }
        }
        choices.sort_by_key(|choice| match choice {
            Choice::Answered(at) => self.calls[self.answered[*at]].end,
            Choice::Open(_) => None,
        });
        let mut offered: Vec<&M::Act> = Vec::new();
        for (at, call) in self.open.iter().enumerate() {
            let call = &self.calls[*call];
            if call.begin > first_end {
                break;
            }
            if !has(&self.done.open, at)
                && self.model.apply(state, &call.act).is_some_and(|after| after != *state)
                && !offered.contains(&&call.act)
            {
                offered.push(&call.act);
                choices.push(Choice::Open(at));
            }
        }
        choices
    }

    /// The answered calls that nothing must precede, whether they fit or not.
    fn next(&self) -> Vec<usize> {
        let mut next = Vec::new();
        let mut first_end = u64::MAX;
        for at in self.done.answered.low..self.answered.len() {
            let call = &self.calls[self.answered[at]];
            if call.begin > first_end {
                break;
            }
            if !self.done.answered.has(at) {
                first_end = first_end.min(call.end.unwrap_or(u64::MAX));
                next.push(self.answered[at]);
            }
        }
        next
    }

    fn take(&mut self, choice: Choice, state: &M::State) -> Option<M::State> {
        let call = match choice {
            Choice::Answered(at) => {
                self.done.answered.take(at);
                self.answered[at]
            }
            Choice::Open(at) => {
                set(&mut self.done.open, at);
                self.open[at]
            }
        };
        self.model.apply(state, &self.calls[call].act)
    }
}

impl Answered {
    fn has(&self, at: usize) -> bool {
        at < self.low || has(&self.behind, at - self.low)
    }

    /// How many answered calls have their place.
    fn count(&self) -> usize {
        self.low + self.behind.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }

    fn take(&mut self, at: usize) {
        set(&mut self.behind, at - self.low);
        while self.behind.first() == Some(&u64::MAX) {
            self.behind.remove(0);
            self.low += 64;
        }
        let ones = self.behind.first().map_or(0, |word| word.trailing_ones());
        if ones > 0 {
            self.low += ones as usize;
            for at in 0..self.behind.len() {
                let above = self.behind.get(at + 1).map_or(0, |word| word << (64 - ones));
                self.behind[at] = self.behind[at] >> ones | above;
            }
        }
        while self.behind.last() == Some(&0) {
            self.behind.pop();
        }
    }
}

fn has(bits: &[u64], at: usize) -> bool {
    bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

fn set(bits: &mut Vec<u64>, at: usize) {
    if bits.len() <= at / 64 {
        bits.resize(at / 64 + 1, 0);
    }
    bits[at / 64] |= 1 << (at % 64);
}

#[cfg(test)]
mod tests {
    use super::Answered;

    #[test]
    fn what_is_done_is_known_wherever_the_low_end_is() {
        let mut rng = crate::seed::Rng::new(1);
        for _ in 0..200 {
            let mut left: Vec<usize> = (0..300).collect();
            let mut done = Answered::default();
            let mut is_done = [false; 300];
            while !left.is_empty() {
                let at = left.remove(rng.below(left.len().min(90)));
                done.take(at);
                is_done[at] = true;
                assert!((0..300).all(|at| done.has(at) == is_done[at]));
                assert_eq!(done.count(), 300 - left.len());
            }
            assert_eq!(done.low, 300);
        }
    }
}
