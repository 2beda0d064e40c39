//! The service over an engine in one process, without sockets: a disk in memory, a clock that only
//! the test moves, and no threads. It is closed and opened, or killed.

use crate::common::{date_of, request, sign};
use crate::ops::{OPTION_SETS, Op};
use crate::talk::Asked;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::error::Error;
use tabulith::options::{Advanced, Options};
use tabulith::table::store::TableStore;
use tabulith::verify;
use tabulith::vfs::api::Vfs as _;
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith_server::app::App;
use tabulith_server::config::Config;
use tabulith_server::http::message::Response;

/// 2026-01-01, in ticks of 100 ns since 1970.
const START: u64 = 17_672_256_000_000_000;

/// A service, and the machine below it.
pub(crate) struct House {
    disk: SimFs,
    clock: Arc<ManualClock>,
    /// The folder. Checkpoints are made beside it, and replace it.
    dir: PathBuf,
    /// `None` only while it is being started.
    open: Option<Open>,
    starts: u64,
    /// Memtables that were flushed in the openings that ended.
    flushes: u64,
    /// Bytes that were scrubbed in them.
    scrubbed: u64,
}

struct Open {
    tables: Arc<TableStore<Db>>,
    app: App<Db>,
}

impl House {
    pub(crate) fn start(options: usize) -> Result<House, String> {
        let clock = Arc::new(ManualClock::at(START));
        let (disk, dir) = (SimFs::new(), PathBuf::from("db"));
        let (starts, flushes, scrubbed) = (0, 0, 0);
        let mut house = House { disk, clock, dir, open: None, starts, flushes, scrubbed };
        house.open(options)?;
        Ok(house)
    }

    fn open(&mut self, options: usize) -> Result<(), String> {
        self.starts += 1;
        let disk = Arc::new(self.disk.process());
        let builder = Db::builder().options(settings(options));
        let builder = builder.parts(disk, self.clock.clone(), Arc::new(ByHand));
        let db = Arc::new(builder.open(&self.dir).map_err(|error| format!("opening: {error}"))?);
        let tables = Arc::new(TableStore::with_clock(db, self.clock.clone()));
        // The clock goes anywhere; what is asked is not about dates.
        let config = Config { date_checked: false, history: true, ..Config::default() };
        let app = App::new(config, tables.clone(), self.clock.clone(), self.starts);
        self.open = Some(Open { tables, app });
        Ok(())
    }

    pub(crate) fn db(&self) -> &Db {
        self.tables().rows()
    }

    /// The tables below the service.
    pub(crate) fn tables(&self) -> &TableStore<Db> {
        &self.opened().tables
    }

    fn opened(&self) -> &Open {
        self.open.as_ref().expect("it is open between operations")
    }

    /// Memtables that were flushed so far.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes + self.db().stats().flushes
    }

    /// Bytes that were scrubbed so far.
    pub(crate) fn scrubbed(&self) -> u64 {
        self.scrubbed + self.db().stats().scrub.bytes
    }

    /// What happens to a service that nobody asks for: its ends and starts, its work in the
    /// background, the clock. Gives whether there was anything to lose, where the power goes.
    pub(crate) fn endure(&mut self, op: &Op) -> Result<bool, String> {
        let work = match op {
            Op::Reopen { options } => return self.reopen(*options).map(|()| false),
            Op::Kill { options } => return self.kill(*options).map(|()| false),
            Op::LosePower { options, state } => return self.lose_power(*options, *state),
            Op::Checkpoint { options } => {
                let copy = |db: &Db, dir: &Path| db.checkpoint(dir).map(drop);
                return self.move_out(copy, *options).map(|()| false);
            }
            Op::Export { options } => {
                let copy = |db: &Db, dir: &Path| db.snapshot()?.export(dir).map(drop);
                return self.move_out(copy, *options).map(|()| false);
            }
            Op::Check { options } => return self.check(*options).map(|()| false),
            Op::Scrub { pieces } => return self.scrub(*pieces).map(|()| false),
            Op::Settle => self.db().settle(),
            Op::Step => self.db().step().map(drop),
            Op::Flush => self.db().flush(),
            Op::Compact => self.db().compact(),
            Op::Clock { ticks } => {
                self.turn_clock(*ticks);
                self.db().step().map(drop)
            }
            asked => return Err(format!("somebody has to ask: {asked:?}")),
        };
        work.map(|()| false).map_err(|error| error.to_string())
    }

    fn reopen(&mut self, options: usize) -> Result<(), String> {
        self.db().close().map_err(|error| format!("closing: {error}"))?;
        self.end();
        self.open(options)
    }

    /// Nothing is ever damaged.
    fn check(&mut self, options: usize) -> Result<(), String> {
        self.db().close().map_err(|error| format!("closing: {error}"))?;
        self.end();
        let disk = Arc::new(self.disk.process());
        let found = verify::check_with(disk, &self.dir).map_err(|error| error.to_string())?.damage;
        if !found.is_empty() {
            return Err(format!("a check finds what is not there: {found:?}"));
        }
        self.open(options)
    }

    /// Goes on with a copy in another folder.
    fn move_out(
        &mut self,
        copy: impl FnOnce(&Db, &Path) -> Result<(), Error>,
        options: usize,
    ) -> Result<(), String> {
        let dir = PathBuf::from(format!("db-{}", self.starts));
        copy(self.db(), &dir).map_err(|error| format!("a copy: {error}"))?;
        self.db().close().map_err(|error| format!("closing: {error}"))?;
        self.end();
        let left = std::mem::replace(&mut self.dir, dir);
        let names = self.disk.list(&left);
        let removed = names
            .and_then(|names| names.iter().try_for_each(|name| self.disk.remove(&left.join(name))));
        removed.map_err(|error| format!("removing: {error}"))?;
        self.open(options)
    }

    /// Nothing is ever damaged.
    fn scrub(&self, pieces: usize) -> Result<(), String> {
        for _ in 0..pieces {
            let pause = self.db().scrub_step().map_err(|error| format!("a scrub: {error}"))?;
            self.clock.sleep(pause);
        }
        let scrub = self.db().stats().scrub;
        (scrub.finds == 0)
            .then_some(())
            .ok_or(format!("a scrub finds what is not there: {scrub:?}"))
    }

    fn end(&mut self) {
        (self.flushes, self.scrubbed) = (self.flushes(), self.scrubbed());
        self.open = None;
    }

    fn kill(&mut self, options: usize) -> Result<(), String> {
        self.disk.kill();
        self.end();
        self.open(options)
    }

    /// Every change that was answered is synced, so all of them are there. Gives whether there was
    /// anything to lose.
    fn lose_power(&mut self, options: usize, state: u64) -> Result<bool, String> {
        let can_lose = self.disk.crash_states(Profile::Hostile, 2, 0).count() > 1;
        self.disk = self.disk.lose_power(state);
        self.end();
        self.open(options)?;
        Ok(can_lose)
    }

    /// Moves the wall clock, back as well.
    fn turn_clock(&self, ticks: i64) {
        self.clock.set_wall(self.clock.wall_ticks().saturating_add_signed(ticks).max(START / 2));
    }

    /// As much as a request takes.
    pub(crate) fn let_time_pass(&self) {
        self.clock.advance(Duration::from_nanos(300));
    }

    pub(crate) fn send(&self, asked: &Asked) -> Response {
        self.let_time_pass();
        let headers: Vec<(&str, &str)> =
            asked.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut request = request(asked.method, &asked.path, &headers, &asked.body);
        if !asked.is_signed {
            sign(&mut request.head, &date_of(self.clock.wall_ticks()));
        }
        self.opened().app.answer(request)
    }
}

/// Small everything, so that few requests reach the deep levels.
fn settings(set: usize) -> Options {
    let small = Advanced {
        memtable_bytes: Some(16 << 10),
        wal_segment_bytes: 64 << 10,
        block_bytes: 512,
        file_bytes: 8 << 10,
        level_base_bytes: 16 << 10,
        level_fanout: 2,
        l0_compact_files: 2,
        block_cache_bytes: Some(64 << 10),
        scrub_period_s: 4, // A scrub pauses; all looks back are into the history.
        ..Advanced::default()
    };
    let advanced = match set % OPTION_SETS {
        0 => small,
        1 => Advanced { filter_bits: 0, block_cache_bytes: Some(0), blob_bytes_min: 100, ..small },
        2 => Advanced {
            memtable_bytes: Some(4 << 10),
            mapped: true,
            index_and_filter_bytes: Some(4 << 10),
            ..small
        },
        _ => Advanced { memtable_bytes: Some(1 << 20), ..small },
    };
    // Longer than any list.
    let history = Some(Duration::from_secs(24 * 3600));
    let options = Options { threads: Some(1), history, advanced, ..Options::default() };
    options.validated().expect("settings that can be")
}
