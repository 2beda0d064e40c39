//! Connections and their work over a disk in memory, without a socket and by a clock that only the
//! test moves.

mod conn;
mod work;
mod cold;

use crate::app::App;
use crate::auth::canonical;
use crate::auth::shared_key::signature_text;
use crate::config::{Config, DEVELOPMENT_ACCOUNT, Key};
use crate::http::message::Head;
use crate::net::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock, ManualClock};
use tabulith::env::jobs::{ByHand, Jobs};
use tabulith::table::store::TableStore;
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::SimFs;

fn delete() -> Head {
    let target = format!("/{DEVELOPMENT_ACCOUNT}/T(PartitionKey='',RowKey='')?timeout=7");
    let authority = "127.0.0.1".to_owned();
    signed(Head { method: "DELETE".to_owned(), target, authority, ..Head::default() })
}

fn signed(mut head: Head) -> Head {
    let comp = head.query().split('&').find_map(|option| option.strip_prefix("comp="));
    let resource = canonical::resource(DEVELOPMENT_ACCOUNT, head.path(), comp);
    let string = canonical::shared_key_lite("soon", &resource);
    let signature = signature_text(&Key::development(), &string);
    head.headers.push("Date", "soon");
    let authorization = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
    head.headers.push("Authorization", authorization);
    head
}

fn shared(clock: &Arc<ManualClock>) -> Shared<Db> {
    shared_with(clock, None)
}

fn shared_with(clock: &Arc<ManualClock>, slow_time: Option<Duration>) -> Shared<Db> {
    shared_over(clock.clone(), Arc::new(ByHand), Config { slow_time, ..Config::default() })
}

fn shared_over(clock: Arc<dyn Clock>, jobs: Arc<dyn Jobs>, config: Config) -> Shared<Db> {
    shared_on(opened(Arc::new(SimFs::new()), clock.clone(), jobs), clock, config)
}

fn opened(disk: Arc<dyn Vfs>, clock: Arc<dyn Clock>, jobs: Arc<dyn Jobs>) -> Arc<TableStore<Db>> {
    let db = Db::builder().parts(disk, clock, jobs).open("data").expect("a database");
    Arc::new(TableStore::new(Arc::new(db)))
}

fn shared_on(tables: Arc<TableStore<Db>>, clock: Arc<dyn Clock>, config: Config) -> Shared<Db> {
    let config = Config { date_checked: false, ..config };
    Shared::new(App::new(config, tables, clock, 1))
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work)
}
