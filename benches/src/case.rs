//! Cases: things to be measured, run in turns so that a slow minute of the machine falls on all of
//! them.

use crate::sample::Sample;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How large and how long everything is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where databases and files are made.
    pub dir: PathBuf,
    /// Factor on all row counts; 1 is the documented size.
    pub scale: f64,
    /// How long one sample takes.
    pub span: Duration,
    /// Samples per case.
    pub rounds: usize,
    /// Where random choices start from.
    pub seed: u64,
}

impl Plan {
    /// `count` rows at scale 1, at least 10,000.
    pub fn rows(&self, count: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(10_000)
    }

    /// A new folder below [`Plan::dir`].
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(path)
    }

    /// The folder of everything.
    pub fn root(&self) -> &Path {
        &self.dir
    }
}

type Take = dyn FnMut(&Plan) -> Result<Sample>;

/// One line of the table.
pub struct Case {
    /// What is done.
    pub name: String,
    /// What is counted.
    pub unit: &'static str,
    sample: Box<Take>,
}

impl Case {
    /// A case; `sample` measures it once.
    pub fn new(
        name: impl Into<String>,
        unit: &'static str,
        sample: impl FnMut(&Plan) -> Result<Sample> + 'static,
    ) -> Case {
        Case { name: name.into(), unit, sample: Box::new(sample) }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Case({}, {})", self.name, self.unit)
    }
}

/// What all rounds of one case showed.
#[derive(Debug)]
pub struct Measured {
    /// The case's name.
    pub name: String,
    /// What is counted.
    pub unit: &'static str,
    /// One per round.
    pub samples: Vec<Sample>,
}

/// Measures all cases once per round, one after the other, after a round that only warms up.
/// `progress` hears of every step.
pub fn run(
    mut cases: Vec<Case>,
    plan: &Plan,
    mut progress: impl FnMut(usize, &Case),
) -> Result<Vec<Measured>> {
    let mut samples: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    let short = Plan { span: plan.span / 4, ..plan.clone() };
    for round in 0..=plan.rounds {
        for (case, samples) in cases.iter_mut().zip(&mut samples) {
            progress(round, case);
            let plan = if round == 0 { &short } else { plan };
            let sample = (case.sample)(plan).with_context(|| case.name.clone())?;
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let measured =
        |(case, samples): (Case, _)| Measured { name: case.name, unit: case.unit, samples };
    Ok(cases.into_iter().zip(samples).map(measured).collect())
}
