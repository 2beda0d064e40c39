//! Workloads that failed as files: made shorter, written, and replayed for ever.

use crate::explore::{Depth, Explorer, Tally, Violation};
use crate::ops::Op;
use crate::run::Run;
use crate::workload::Name;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tabulith::options::Options;
use tabulith::vfs::mem::Profile;
use tabulith_testkit::script::Script;
use tabulith_testkit::shrink::shrink;

/// So often a shorter list is tried: each time may take seconds.
const TRIES: usize = 120;

/// What a list runs under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The workload that had these options.
    pub(crate) options_of: String,
    /// What the disk may do to names.
    pub(crate) hostile: bool,
    /// States of a crash point.
    pub(crate) states: usize,
    /// Of so many states one is opened with a crash after every effect of that.
    pub(crate) one_nested_in: u64,
    /// Crashes within crashes.
    pub(crate) levels: usize,
}

impl Settings {
    fn options(&self) -> Options {
        let name = Name::parse(&self.options_of).expect("a workload such as: random:17");
        name.workload().options
    }

    fn depth(&self) -> Depth {
        Depth {
            profile: if self.hostile { Profile::Hostile } else { Profile::Ordered },
            states: self.states,
            one_used_in: 16,
            one_nested_in: self.one_nested_in,
            levels: self.levels,
            nested_states: 12,
        }
    }

    /// Crashes a list after every effect.
    fn explore(&self, ops: &[Op]) -> Result<Tally, Violation> {
        let run = Run::of(ops, &self.options()).map_err(|stop| Violation {
            places: vec!["without any crash".to_owned()],
            first_effect: 0,
            what: stop.to_string(),
        })?;
        Explorer::new(&run, &self.depth()).all()
    }
}

/// Makes a failing list shorter, as far as few tries go, and writes it into a file; gives what
/// there is to say of that.
pub(crate) fn save(settings: Settings, ops: &[Op], file: &str) -> String {
    let mut tries = 0;
    let few = shrink(ops, |rest| {
        tries += 1;
        tries <= TRIES && settings.explore(rest).is_err()
    });
    let story = match settings.explore(&few) {
        Ok(_) => "It does not fail alone.".to_owned(),
        Err(violation) => violation.to_string(),
    };
    let script = Script { story: vec![story], settings, ops: few };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
    let text = script.to_text().unwrap_or_else(|what| what);
    format!("{text}saved: {:?}", script.save(&folder, file))
}

/// Lists that failed once, each with its story.
#[test]
fn lists_that_failed_once_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/regress");
    let scripts = Script::<Settings, Op>::all_in(&folder).unwrap_or_else(|what| panic!("{what}"));
    let mut states = 0;
    for (name, script) in &scripts {
        for hostile in [false, true] {
            let settings = Settings { hostile, ..script.settings.clone() };
            match settings.explore(&script.ops) {
                Ok(tally) => states += tally.opened,
                Err(violation) => panic!("{name}, hostile: {hostile}: {violation}"),
            }
        }
    }
    assert!(states > 500 * scripts.len() as u64, "{states} states of {} lists", scripts.len());
}

#[test]
fn a_list_that_was_written_reads_back() {
    for number in 0..60 {
        let families = [
            "triple", "random", "mixed", "tiny", "rolling", "filling", "aging", "entities",
            "counting", "changing",
        ];
        let options_of = format!("{}:{number}", families[number % families.len()]);
        let ops = Name::parse(&options_of).expect("a name").workload().ops;
        let (states, one_nested_in, levels) = (150, 512, 2);
        let settings = Settings { options_of, hostile: true, states, one_nested_in, levels };
        let script = Script { story: vec!["One.".to_owned()], settings, ops };
        let text = script.to_text().expect("text");
        let read = Script::<Settings, Op>::parse(&text).expect("a list");
        assert_eq!(format!("{script:?}"), format!("{read:?}"));
    }
}
