//! The simulated machine: a disk, clocks, a server that is started, stopped and killed, and whoever
//! disturbs it.

use crate::accounts::accounts;
use crate::stream::{Fate, Stream, Wire, pair};
use parking_lot::Mutex;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::Clock;
use tabulith::env::jobs::ByHand;
use tabulith::options::{Advanced, Options};
use tabulith::table::store::TableStore;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith_server::app::App;
use tabulith_server::config::{Accounts, Config};
use tabulith_server::net::indoors::Indoors;
use tabulith_testkit::seed::Rng;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// 2026-01-01, in ticks of 100 ns since 1970.
const START_TICKS: u64 = 17_672_256_000_000_000;

/// The clock of the machine: that of the event loop, with a wall clock that somebody may set.
#[derive(Debug)]
pub(crate) struct SimClock {
    start: Instant,
    /// Ticks that the wall clock is off.
    off: Mutex<i64>,
    /// What threads slept: the event loop stands still meanwhile.
    slept: Mutex<Duration>,
}

impl SimClock {
    fn new() -> SimClock {
        SimClock { start: Instant::now(), off: Mutex::default(), slept: Mutex::default() }
    }

    /// What a clock that nobody has set says.
    pub(crate) fn true_ticks(&self) -> u64 {
        START_TICKS + self.steady().as_nanos() as u64 / 100
    }

    pub(crate) fn set_off(&self, ticks: i64) {
        *self.off.lock() = ticks;
    }

    pub(crate) fn is_off(&self) -> bool {
        *self.off.lock() != 0
    }
}

impl Clock for SimClock {
    fn wall_ticks(&self) -> u64 {
        self.true_ticks().saturating_add_signed(*self.off.lock())
    }

    fn steady(&self) -> Duration {
        self.start.elapsed() + *self.slept.lock()
    }

    fn sleep(&self, time: Duration) {
        *self.slept.lock() += time;
    }
}

/// The machine.
pub(crate) struct World {
    rng: Mutex<Rng>,
    pub(crate) clock: Arc<SimClock>,
    config: Config,
    options: Options,
    state: Mutex<State>,
    /// Whether events are printed.
    is_told: bool,
    /// Everything that happened, as one number.
    events: Mutex<DefaultHasher>,
}

struct State {
    disk: SimFs,
    faults: FaultFs,
    house: Option<Indoors<Db>>,
    db: Option<Arc<Db>>,
    tasks: Vec<JoinHandle<()>>,
    wires: Vec<Wire>,
    /// How long background work rests between two looks.
    pace: Duration,
    /// Goes up with every disturbance, and again when it is over.
    disturbed: u64,
    disturbances: u64,
    accounts: String,
    boots: u64,
    rotations: u64,
    /// In the lives before this one.
    failed_syncs: u64,
}

/// How many syncs have failed in the life that `faults` is of.
fn failed_syncs(faults: &FaultFs) -> u64 {
    let failed = faults.injected_counts().into_iter();
    failed.filter(|((call, _), _)| *call == Call::Sync).map(|(_, times)| times).sum()
}

impl World {
    pub(crate) fn new(seed: u64, config: Config) -> Arc<World> {
        let mut rng = Rng::new(seed);
        let options = Options {
            threads: Some(1),
            advanced: Advanced {
                memtable_bytes: Some([8 << 10, 64 << 10, 1 << 20][rng.below(3)]),
                wal_segment_bytes: [64 << 10, 256 << 10][rng.below(2)],
                block_bytes: 512,
                file_bytes: 8 << 10,
                level_base_bytes: 32 << 10,
                level_fanout: 3,
                l0_compact_files: 2,
                block_cache_bytes: Some([0, 64 << 10][rng.below(2)]),
                blob_bytes_min: [0, 100][rng.below(2)],
                ..Advanced::default()
            },
            ..Options::default()
        };
        let disk = SimFs::new();
        let faults = FaultFs::new(Arc::new(disk.process()));
        let state = State {
            disk,
            faults,
            house: None,
            db: None,
            tasks: Vec::new(),
            wires: Vec::new(),
            pace: Duration::from_millis(1),
            disturbed: 0,
            disturbances: 0,
            accounts: String::new(),
            boots: 0,
            rotations: 0,
            failed_syncs: 0,
        };
        Arc::new(World {
            rng: Mutex::new(rng),
            clock: Arc::new(SimClock::new()),
            config,
            options: options.validated().expect("settings that can be"),
            state: Mutex::new(state),
            is_told: std::env::var_os("TABULITH_SIM_EVENTS").is_some(),
            events: Mutex::default(),
        })
    }

    /// A generator of its own for somebody.
    pub(crate) fn rng(&self) -> Rng {
        Rng::new(self.rng.lock().next_u64())
    }

    /// Notes that something happened.
    pub(crate) fn event(&self, what: &impl std::fmt::Debug) {
        let event = format!("{:?} {what:?}", self.clock.steady());
        if self.is_told {
            eprintln!("{event}");
        }
        event.hash(&mut *self.events.lock());
    }

    /// All that happened so far, as a number.
    pub(crate) fn hash(&self) -> u64 {
        self.events.lock().finish()
    }

    /// Opens the database and begins to serve.
    pub(crate) fn boot(self: &Arc<World>, served: &str) {
        let mut state = self.state.lock();
        served.clone_into(&mut state.accounts);
        state.boots += 1;
        state.failed_syncs += failed_syncs(&state.faults);
        state.faults = FaultFs::new(Arc::new(state.disk.process()));
        let builder = Db::builder().options(self.options.clone());
        let builder =
            builder.parts(Arc::new(state.faults.clone()), self.clock.clone(), Arc::new(ByHand));
        let db = Arc::new(builder.open("db").expect("what a crash leaves is a database"));
        let tables = TableStore::with_clock(db.clone(), self.clock.clone());
        let accounts = Accounts::parse(served).expect("accounts");
        let config = Config { accounts, ..self.config.clone() };
        let app = App::new(config, Arc::new(tables), self.clock.clone(), state.boots);
        state.house = Some(Indoors::new(app));
        state.db = Some(db.clone());
        let world = self.clone();
        let mut rng = self.rng();
        state.tasks.push(tokio::spawn(async move {
            loop {
                let pace = world.state.lock().pace;
                sleep(pace.mul_f64(rng.between(1, 30) as f64 / 10.0)).await;
                // What fails is tried again the next time.
                for _ in 0..rng.between(1, 4) {
                    if !matches!(db.step(), Ok(true)) {
                        break;
                    }
                }
            }
        }));
    }

    /// A new connection, where anybody listens.
    pub(crate) fn connect(&self, fate: Fate) -> Option<Stream> {
        let mut rng = self.rng();
        let mut state = self.state.lock();
        let (client, server, wire) = pair(&mut rng, fate);
        let serving = state.house.as_ref()?.serve(server, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let task = tokio::spawn(serving);
        state.tasks.push(task);
        state.wires.push(wire);
        Some(client)
    }

    /// How many times a disturbance has begun or ended so far.
    pub(crate) fn disturbed(&self) -> u64 {
        self.state.lock().disturbed
    }

    /// Whether one is under way.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.state.lock().disturbances > 0
    }

    /// A disturbance begins.
    pub(crate) fn begin(&self, what: &impl std::fmt::Debug) {
        self.event(what);
        let mut state = self.state.lock();
        state.disturbed += 1;
        state.disturbances += 1;
    }

    /// It is over.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.disturbed += 1;
        state.disturbances -= 1;
    }

    /// Ends the process at once, and perhaps the power with it.
    pub(crate) fn kill(&self, power: bool) {
        let mut rng = self.rng();
        let mut state = self.state.lock();
        state.tasks.drain(..).for_each(|task| task.abort());
        state.wires.drain(..).for_each(|wire| wire.cut());
        match power {
            true => state.disk = state.disk.lose_power(rng.next_u64()),
            false => state.disk.kill(),
        }
        state.house = None;
        state.db = None;
    }

    /// Stops as the process does when it is asked to: what is in flight is answered, for a while.
    pub(crate) async fn stop(&self) {
        let house = self.state.lock().house.take();
        if let Some(house) = house {
            let time_max = self.config.stop_time_max;
            let stopped = timeout(time_max, house.stop()).await;
            self.event(&stopped.is_ok());
        }
        let mut state = self.state.lock();
        state.tasks.drain(..).for_each(|task| task.abort());
        state.wires.drain(..).for_each(|wire| wire.cut());
        if let Some(db) = state.db.take() {
            // With no room on its disk it cannot.
            let _ = db.close();
        }
        // Requests that took too long are cut off with the process.
        state.disk.kill();
    }

    /// Whether its server goes by a clock that is behind the newest commit.
    pub(crate) fn believes_clock(&self) -> bool {
        self.config.clock_believed
    }

    /// Whether the clock is further behind the newest commit than a request's date may be off.
    pub(crate) fn is_far_behind(&self) -> bool {
        let db = self.state.lock().db.clone();
        db.is_some_and(|db| db.stats().clock_behind_us > 15 * 60 * 1_000_000)
    }

    /// Sets the time that background work rests.
    pub(crate) fn set_pace(&self, pace: Duration) {
        self.state.lock().pace = pace;
    }

    /// Lets the disk take so many bytes more.
    pub(crate) fn set_room(&self, bytes: Option<u64>) {
        self.state.lock().faults.set_room(bytes);
    }

    /// Fails the next sync of the log: the database takes no more commits until it is opened again.
    pub(crate) fn fail_log(&self) {
        self.state.lock().faults.add(Rule::fail(Call::Sync).named("*.wal"));
    }

    /// How many syncs have failed so far.
    pub(crate) fn failed_syncs(&self) -> u64 {
        let state = self.state.lock();
        state.failed_syncs + failed_syncs(&state.faults)
    }

    /// Serves with another first key from now on; none comes back.
    pub(crate) fn rotate(&self) {
        let mut state = self.state.lock();
        state.rotations += 1;
        state.accounts = accounts(1 + state.rotations);
        let accounts = &state.accounts;
        if let Some(house) = &state.house {
            house.app().keyring().replace(Accounts::parse(accounts).expect("accounts"));
        }
    }

    /// The accounts that are served.
    pub(crate) fn accounts(&self) -> String {
        self.state.lock().accounts.clone()
    }

    /// How many times it was started.
    pub(crate) fn boots(&self) -> u64 {
        self.state.lock().boots
    }
}
