//! What a subscriber sees with the feature `tracing`. One test and a program of its own, because
//! what `tracing` keeps of whether anybody listens is the process's: a test beside it that meets a
//! span first, without a subscriber, may switch it off for both.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::{Arc, Mutex};
use tabulith::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::mem::SimFs;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

/// The names of spans as they begin, `end` as they end, and the levels of events.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<String>>>);

impl Subscriber for Names {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tabulith"
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(span.metadata().name().to_owned());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() <= Level::INFO {
            self.0.lock().unwrap().push(event.metadata().level().to_string());
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().push("end".to_owned());
    }
}

#[test]
fn work_is_a_span() {
    let names = Names::default();
    tracing::subscriber::with_default(names.clone(), || {
        let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
        let builder = Db::builder().parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand));
        let db = builder.open("/db").unwrap();
        db.table("rows").unwrap().upsert("p", "1", "v").unwrap();
        db.checkpoint("/copy").unwrap();
    });
    let names = names.0.lock().unwrap().join(" ");
    let opened = "open recovery end INFO end";
    assert_eq!(names, format!("{opened} checkpoint flush end INFO end"));
}
