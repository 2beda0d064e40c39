//! The knee of a load curve: the highest rate that is still served as it was asked for.

use tabulith_results::result::Step;

/// What Azure serves of one partition, in entities a second.
pub(crate) const AZURE_PARTITION: f64 = 2_000.0;

/// A rate is served while so much of it is achieved.
const ACHIEVED: f64 = 0.95;

/// And no more than this of it fails or waits for ever.
const LOST: f64 = 0.01;

/// And p99 stays below so many times what it was at low rates,
const SLOWER: f64 = 10.0;

/// or below this many microseconds: a fast server may slow down tenfold and still be fast.
const FAST_US: f64 = 5_000.0;

/// Rates that are tried between the last that was served and the first that was not.
const NARROWED: usize = 3;

/// Why a step is beyond the knee; `None` where it was served. `calm`: p99 at low rates.
pub(crate) fn broken(step: &Step, calm: Option<f64>) -> Option<String> {
    let at = step.offered;
    if step.lost > LOST {
        return Some(format!(
            "at {at:.0} a second {:.1} % were refused, failed or never begun",
            step.lost * 100.0
        ));
    }
    if step.achieved < ACHIEVED * at {
        return Some(format!("of {at:.0} a second {:.0} were achieved", step.achieved));
    }
    let (p99, calm) = (step.latency_us.p99?, calm?);
    (p99 > (SLOWER * calm).max(FAST_US)).then(|| {
        format!(
            "at {at:.0} a second p99 is {:.1} ms, {:.0} times what it was",
            p99 / 1e3,
            p99 / calm
        )
    })
}

/// The least p99 of the first three steps.
fn calm(steps: &[Step]) -> Option<f64> {
    steps.iter().take(3).filter_map(|step| step.latency_us.p99).min_by(f64::total_cmp)
}

/// What a curve says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// The highest rate below the first that was not served; 0 where none was.
    pub(crate) served: f64,
    /// The lowest rate that was not served, with the reason.
    pub(crate) beyond: Option<(f64, String)>,
}

/// Looks for the knee in steps of any order.
pub(crate) fn find(steps: &[Step]) -> Found {
    let mut steps = steps.to_vec();
    steps.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let calm = calm(&steps);
    let mut served = 0.0;
    let mut late = None;
    for (at, step) in steps.iter().enumerate() {
        match broken(step, calm) {
            None => {
                served = step.offered;
                late = None;
            }
            // One bad step between good ones is a hiccup of the machine, not the knee.
            Some(why) => {
                if late.is_none() {
                    late = Some((step.offered, why));
                }
                let next_is_good =
                    steps.get(at + 1).is_some_and(|next| broken(next, calm).is_none());
                if !next_is_good {
                    break;
                }
            }
        }
    }
    Found { served, beyond: late }
}

/// Which rates are tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    from: f64,
    to: f64,
    confirmed: bool,
    narrowed: usize,
}

impl Search {
    /// From a rate up to another one.
    pub(crate) fn new(from: f64, to: f64) -> Search {
        Search { from, to, confirmed: false, narrowed: 0 }
    }

    /// The next rate: half as much again until one is not served and the next neither, for one may
    /// be a hiccup; then between the last that was served and the first that was not.
    pub(crate) fn next(&mut self, steps: &[Step]) -> Option<f64> {
        let Some(highest) = steps.iter().map(|step| step.offered).max_by(f64::total_cmp) else {
            return Some(self.from.min(self.to));
        };
        let higher = (highest * 1.5).min(self.to);
        let Found { served, beyond } = find(steps);
        let Some((beyond, _)) = beyond else {
            self.confirmed = false;
            return (highest < self.to).then_some(higher);
        };
        if served <= 0.0 {
            return None;
        }
        if beyond == highest && !self.confirmed && highest < self.to {
            self.confirmed = true;
            return Some(higher);
        }
        self.narrowed += 1;
        (self.narrowed <= NARROWED && beyond / served > 1.05).then(|| (served * beyond).sqrt())
    }
}

/// What follows for whoever wants to use these keys.
pub(crate) fn advice(found: &Found, puts_percent: u8) -> Vec<String> {
    let served = found.served;
    let mut advice = Vec::new();
    let times = served / AZURE_PARTITION;
    advice.push(match served {
        s if s <= 0.0 => "Not even the first rate was served: begin with a lower --from, or look for errors.".to_owned(),
        s if s < AZURE_PARTITION => format!(
            "That is below the 2,000 entities a second that Azure serves of one partition ({times:.2} of it): \
             the limit is here, in the client, the network or this server, not in the keys."
        ),
        _ => format!(
            "That is {times:.1} times the 2,000 entities a second that Azure serves of one partition: what \
             passes here may be refused with 503 there."
        ),
    });
    if served > AZURE_PARTITION {
        let partitions = (served / AZURE_PARTITION).ceil();
        advice.push(format!(
            "To reach {served:.0} a second on Azure, the same rows need at least {partitions:.0} partitions, each \
             equally busy: `bench keys` shows candidates."
        ));
    }
    if puts_percent > 0 {
        advice.push(
            "Stay below half of the knee in operation: splits, merges and retries need the other half."
                .to_owned(),
        );
    }
    if found.beyond.is_none() && served > 0.0 {
        advice.push("The highest rate that was tried was served: --to goes further.".to_owned());
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabulith_results::latency::Latency;

    /// A server that serves up to a rate, with a latency that grows as queues do.
    fn served_up_to(limit: f64, offered: f64) -> Step {
        let load = (offered / limit).min(0.9999);
        let p99 = if offered > limit { 2e6 } else { 1_000.0 / (1.0 - load) };
        let achieved = offered.min(limit);
        let latency_us = Latency { p99: Some(p99), ..Latency::default() };
        Step { offered, achieved, lost: (1.0 - achieved / offered).max(0.0), latency_us }
    }

    /// Drives a curve as the command does.
    fn driven(from: f64, to: f64, curve: impl Fn(f64, usize) -> Step) -> (Found, Vec<f64>) {
        let mut steps = Vec::new();
        let mut search = Search::new(from, to);
        while let Some(rate) = search.next(&steps) {
            assert!(steps.len() < 60, "it ends: {steps:?}");
            steps.push(curve(rate, steps.len()));
        }
        (find(&steps), steps.iter().map(|step| step.offered).collect())
    }

    #[test]
    fn the_knee_is_found_near_the_limit() {
        for limit in [700.0, 1_900.0, 5_000.0, 33_000.0] {
            let (found, rates) = driven(250.0, 100_000.0, |rate, _| served_up_to(limit, rate));
            let share = found.served / limit;
            assert!((0.8..=1.0).contains(&share), "{limit}: {found:?} by {rates:?}");
            assert!(found.beyond.is_some());
            assert!(
                rates.iter().all(|rate| *rate <= limit * 2.3),
                "no needless hammering: {rates:?}"
            );
        }
    }

    #[test]
    fn a_limit_that_is_never_reached_is_no_knee() {
        let (found, rates) = driven(100.0, 1_000.0, |rate, _| served_up_to(1e9, rate));
        assert_eq!(found, Found { served: 1_000.0, beyond: None });
        assert_eq!(rates.last(), Some(&1_000.0));
        assert!(advice(&found, 50).iter().any(|line| line.contains("--to")));
    }

    #[test]
    fn nothing_served_is_said_and_ends() {
        let (found, rates) = driven(100.0, 1_000.0, |rate, _| served_up_to(10.0, rate));
        assert_eq!((found.served, rates.len()), (0.0, 1));
        assert!(advice(&found, 0)[0].contains("Not even"));
    }

    #[test]
    fn one_bad_step_between_good_ones_is_a_hiccup() {
        let curve = |rate: f64, at: usize| {
            let mut step = served_up_to(10_000.0, rate);
            if at == 3 {
                step.latency_us.p99 = Some(9e6);
            }
            step
        };
        let (found, rates) = driven(250.0, 100_000.0, curve);
        assert!(found.served > 7_500.0, "{found:?} by {rates:?}");
    }

    #[test]
    fn latency_alone_is_a_knee_unless_it_is_still_fast() {
        let step = |offered: f64, p99: f64| Step {
            offered,
            achieved: offered,
            lost: 0.0,
            latency_us: Latency { p99: Some(p99), ..Latency::default() },
        };
        let found = find(&[
            step(100.0, 100.0),
            step(200.0, 120.0),
            step(400.0, 4_000.0),
            step(800.0, 50_000.0),
        ]);
        assert_eq!(found.served, 400.0);
        assert!(found.beyond.is_some_and(|(rate, why)| rate == 800.0 && why.contains("500 times")));
        let refused = Step { lost: 0.02, ..step(800.0, 100.0) };
        assert!(broken(&refused, Some(100.0)).is_some_and(|why| why.contains("2.0 %")));
    }

    #[test]
    fn advice_compares_with_azure() {
        let found = |served| Found { served, beyond: Some((served * 1.2, String::new())) };
        assert!(advice(&found(1_000.0), 50)[0].contains("below the 2,000"));
        let above = advice(&found(9_000.0), 50);
        assert!(above[0].contains("4.5 times") && above[1].contains("5 partitions"), "{above:?}");
    }
}
