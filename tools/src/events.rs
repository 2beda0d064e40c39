//! What the log says of what happens in the engine: damage, work that failed, commits that wait,
//! and what the start put right. The daily work is in the metrics.

use std::sync::LazyLock;
use tabulith::Event;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith_server::sparing::Sparing;

/// Work is tried again twice a second, and each commit of a full engine waits by itself: both are
/// told once a second.
static FAILURES: Sparing = Sparing::new();
static WAITS: Sparing = Sparing::new();
static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

/// Tells the log, where an operator is to see it. What `--silent` must not hide is an error.
pub(crate) fn tell(event: &Event) {
    match event {
        Event::DamageFound { error, .. } => tracing::error!("damage found: {error}"),
        Event::BackgroundError { error, .. } => {
            if let Some(unsaid) = FAILURES.one_more(CLOCK.steady()) {
                tracing::error!(error, unsaid, "background work failed");
            }
        }
        Event::StallBegin { reason, stopped: true, .. } => {
            if let Some(unsaid) = WAITS.one_more(CLOCK.steady()) {
                tracing::warn!(reason = ?reason, unsaid, "commits wait for background work");
            }
        }
        Event::Opened { repairs, .. } => {
            for repair in repairs {
                tracing::warn!(repair, "the start put damage right");
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests"
)]
mod tests {
    use super::tell;
    use std::fs::File;
    use std::path::Path;
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;
    use tabulith::env::clock::{Clock, ManualClock, SystemClock};
    use tabulith::env::jobs::{ByHand, Threads};
    use tabulith::vfs::api::{Access, Vfs};
    use tabulith::vfs::fault::{Call, FaultFs, Rule};
    use tabulith::vfs::mem::SimFs;
    use tabulith::{Db, Event, Options};
    use tracing_subscriber::filter::LevelFilter;

    /// What a log with the level of `--silent` has of an event.
    fn told(event: &Event) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = tracing_subscriber::fmt().with_max_level(LevelFilter::ERROR).with_ansi(false);
        let log = log.with_writer(Arc::new(File::create(&path).unwrap())).finish();
        tracing::subscriber::with_default(log, || tell(event));
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn damage_that_the_scrub_found_is_an_error() {
        let (sim, found) = (SimFs::new(), Arc::new(Mutex::new(Vec::new())));
        let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
        let (time, listener) = (Arc::clone(&clock) as Arc<dyn Clock>, Arc::clone(&found));
        let builder = Db::builder().parts(Arc::new(sim.clone()), time, Arc::new(ByHand));
        let builder = builder.on_event(move |event| {
            if matches!(event, Event::DamageFound { .. }) {
                listener.lock().unwrap().push(event.clone());
            }
        });
        let db = builder.open("db").unwrap();
        db.table("rows").unwrap().upsert("p", "r", "value").unwrap();
        db.flush().unwrap();
        for name in sim.list(Path::new("db")).unwrap() {
            if name.ends_with(".sst") {
                let file = sim.open(&Path::new("db").join(name), Access::ReadWrite).unwrap();
                let byte = file.read_vec_at(1, 0).unwrap();
                file.write_all_at(&[byte[0] ^ 1], 0).unwrap();
            }
        }
        while found.lock().unwrap().is_empty() {
            let pause = db.scrub_step().unwrap();
            clock.advance(pause.max(Duration::from_nanos(1)));
        }
        let text = told(&found.lock().unwrap()[0]);
        assert!(text.contains("ERROR") && text.contains("damage found: "), "{text}");
    }

    #[test]
    fn background_work_that_failed_is_an_error() {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let mut options = Options::default();
        options.advanced.memtable_bytes = Some(4 << 10);
        let (tell, failed) = mpsc::channel();
        let builder = Db::builder().options(options).on_event(move |event| {
            if matches!(event, Event::BackgroundError { .. }) {
                let _ = tell.send(event.clone());
            }
        });
        let clock = Arc::new(SystemClock::new());
        let builder = builder.parts(Arc::new(disk.clone()), clock, Arc::new(Threads));
        let db = builder.open("db").unwrap();
        disk.add(Rule::fail(Call::Create).named("*.sst"));
        let rows = db.table("rows").unwrap();
        for n in 0..4_u32 {
            rows.upsert("p", n.to_be_bytes(), vec![0_u8; 2 << 10]).unwrap();
        }
        let text = told(&failed.recv().unwrap());
        assert!(text.contains("ERROR") && text.contains("background work failed"), "{text}");
    }
}
