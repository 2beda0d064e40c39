//! What the database must hold: every state that the commit order went through.
//!
//! After a crash the database must equal one of them, and one late enough that all is there that
//! was promised. Row timestamps, table numbers and times of creation are part of a state, so a
//! commit that came back half, twice or under another ETag equals none. What has expired by the
//! time of who looks, or has outlived its table's time to live, is in a state and not shown.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tabulith::ids::CommitTs;
use tabulith::options::Durability;

/// All tables and rows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) tables: BTreeMap<String, Table>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) id: u32,
    pub(crate) created: u64,
    pub(crate) life: Life,
    /// The columns that it declares.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Arc<BTreeMap<Place, Stored>>,
}

/// How long a table's rows live, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// 0 for ever.
    pub(crate) ttl: u64,
    /// Rows of commits up to here were gone before it was set.
    cutoff: u64,
    /// Where time stopped for its readers, as the next one was set.
    stop: Option<u64>,
}

impl Life {
    /// As found in a database, which does not show what is gone.
    pub(crate) fn found(ttl: u64) -> Life {
        Life { ttl, ..Life::default() }
    }

    /// Rows of commits up to here are gone by `now`.
    fn outlived_to(&self, now: u64) -> u64 {
        match self.ttl {
            0 => self.cutoff,
            ttl => self.cutoff.max(self.stop.map_or(now, |stop| now.min(stop)).saturating_sub(ttl)),
        }
    }
}

/// A row as a commit wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) ts: u64,
    /// From when on it is gone; [`NEVER`] for one that stays.
    pub(crate) expires: u64,
    pub(crate) value: Bytes,
}

impl Stored {
    /// As the database shows it.
    pub(crate) fn found(ts: CommitTs, expires: Option<CommitTs>, value: Bytes) -> Stored {
        Stored { ts: ts.0, expires: expires.map_or(NEVER, |expires| expires.0), value }
    }
}

/// The end of time.
pub(crate) const NEVER: u64 = u64::MAX;

impl Table {
    /// The rows that are there by `now`.
    pub(crate) fn shown(&self, now: u64) -> impl Iterator<Item = (&Place, &Stored)> {
        let outlived_to = self.life.outlived_to(now);
        self.rows.iter().filter(move |(_, row)| now < row.expires && row.ts > outlived_to)
    }

    /// Whether it looks by `now` like what was found, all of which was shown.
    fn shows(&self, found: &Table, now: u64) -> bool {
        let facts = |table: &Table| (table.id, table.created, table.life.ttl);
        let same = facts(self) == facts(found) && self.columns == found.columns;
        same && self.shown(now).eq(found.rows.iter())
    }
}

/// PartitionKey and RowKey.
pub(crate) type Place = (Bytes, Bytes);

/// One commit.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Those that it writes are gone from `expires` on.
    Rows {
        table: String,
        pk: Bytes,
        rows: Vec<(Bytes, Option<Bytes>)>,
        expires: u64,
    },
    Truncate {
        table: String,
    },
    Create {
        table: String,
        id: u32,
    },
    Drop {
        table: String,
    },
    Declare {
        table: String,
        columns: Vec<String>,
    },
    /// Sets the time to live, 0 for none, as of the time `now`.
    SetTtl {
        table: String,
        ttl: u64,
        now: u64,
    },
}

impl Change {
    /// The name of the table that it concerns.
    pub(crate) fn table(&self) -> &str {
        let (Change::Rows { table, .. }
        | Change::Truncate { table }
        | Change::Create { table, .. }
        | Change::Drop { table }
        | Change::SetTtl { table, .. }
        | Change::Declare { table, .. }) = self;
        table
    }
}

/// What a crash must leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// So many commits from the start of the order, when the process is killed.
    pub(crate) kill: usize,
    /// The same when the power goes.
    pub(crate) power: usize,
    /// The newest timestamp that someone was told. It is never given again, lost or not.
    pub(crate) told_ts: u64,
}

/// Tells a mark that counts commits from one that is a timestamp; those stay below for 100 years.
const COUNTS: u64 = 1 << 63;

impl Need {
    /// The first `count` commits after every crash.
    pub(crate) fn all(count: usize) -> Need {
        Need { kill: count, power: count, told_ts: 0 }
    }

    pub(crate) fn max(self, other: Need) -> Need {
        Need {
            kill: self.kill.max(other.kill),
            power: self.power.max(other.power),
            told_ts: self.told_ts.max(other.told_ts),
        }
    }

    /// As marks of a trace.
    pub(crate) fn to_marks(self) -> [u64; 2] {
        [COUNTS | (self.kill as u64) << 32 | self.power as u64, self.told_ts]
    }

    pub(crate) fn from_mark(mark: u64) -> Need {
        match mark & COUNTS {
            0 => Need { told_ts: mark, ..Need::default() },
            _ => Need {
                kill: ((mark & !COUNTS) >> 32) as usize,
                power: mark as u32 as usize,
                told_ts: 0,
            },
        }
    }
}

/// The commits in their order, and the state after each.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// `states[k]`: after k commits.
    states: Vec<Arc<World>>,
    levels: Vec<Durability>,
    timestamps: Vec<u64>,
    changes: Vec<Arc<Change>>,
    /// Timestamps of commits of which nobody told when they came.
    guessed: Vec<u64>,
    /// What commits must come after, beside those that are here.
    taken_ts: u64,
    /// The greatest table number that was made durable.
    pub(crate) last_table: u32,
    /// So many commits survive everything, whatever their own durability.
    pub(crate) safe: usize,
}

impl History {
    pub(crate) fn new() -> History {
        History {
            states: vec![Arc::default()],
            levels: Vec::new(),
            timestamps: Vec::new(),
            changes: Vec::new(),
            guessed: Vec::new(),
            taken_ts: 0,
            last_table: 0,
            safe: 0,
        }
    }

    /// The number of commits.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    pub(crate) fn last(&self) -> &World {
        &self.states[self.len()]
    }

    /// The state after the first `count` commits, and the last one's timestamp.
    pub(crate) fn after(&self, count: usize) -> (u64, &World) {
        (count.checked_sub(1).map_or(0, |last| self.timestamps[last]), &self.states[count])
    }

    /// Adds a commit. Errors: a timestamp or table number that is not above all others.
    pub(crate) fn push(
        &mut self,
        ts: u64,
        level: Durability,
        change: Change,
    ) -> Result<usize, String> {
        let before = self.newest();
        if ts <= before {
            return Err(format!("commit {ts} does not come after {before}"));
        }
        let mut world = World::clone(self.last());
        match change.clone() {
            Change::Rows { table, pk, rows, expires } => {
                world.write(&table, &pk, rows, ts, expires)?;
            }
            Change::Truncate { table } => {
                let table = world.tables.get_mut(&table).ok_or("truncates what is not there")?;
                table.rows = Arc::default();
            }
            Change::Create { table, id } if id > self.last_table => {
                self.last_table = id;
                world.tables.insert(table, Table { id, created: ts, ..Table::default() });
            }
            Change::Create { id, .. } => return Err(format!("table number {id} was given twice")),
            Change::Drop { table } => drop(world.tables.remove(&table)),
            Change::Declare { table, columns } => {
                let table = world.tables.get_mut(&table).ok_or("columns of what is not there")?;
                table.columns = columns;
            }
            Change::SetTtl { table, ttl, now } => {
                self.stop_time(&table, now);
                let table = world.tables.get_mut(&table).ok_or("a life of what is not there")?;
                let cutoff = table.life.outlived_to(now);
                table.life = Life { ttl, cutoff, stop: None };
            }
        }
        self.changes.push(Arc::new(change));
        self.states.push(Arc::new(world));
        self.levels.push(level);
        self.timestamps.push(ts);
        Ok(self.len())
    }

    /// Readers of a table who do not see its new time to live go by no later time than `now`.
    fn stop_time(&mut self, name: &str, now: u64) {
        for state in &mut self.states {
            let stops = state.tables.get(name).is_some_and(|table| table.life.stop.is_none());
            if stops && let Some(table) = Arc::make_mut(state).tables.get_mut(name) {
                table.life.stop = Some(now);
            }
        }
    }

    /// Time goes on for everybody: the database was opened anew.
    pub(crate) fn restart_time(&mut self) {
        for state in &mut self.states {
            if state.tables.values().any(|table| table.life.stop.is_some()) {
                let tables = Arc::make_mut(state).tables.values_mut();
                tables.for_each(|table| table.life.stop = None);
            }
        }
    }

    /// Adds a commit that turns out to have happened, before the later ones.
    pub(crate) fn insert(&mut self, ts: u64, change: Change) -> Result<(), String> {
        let at = self.count_at(ts);
        let mut history = History { safe: self.safe, ..self.truncated(at, self.taken_ts) };
        history.push(ts, Durability::Synced, change)?;
        for later in at..self.len() {
            let change = Change::clone(&self.changes[later]);
            history.push(self.timestamps[later], self.levels[later], change)?;
        }
        *self = history;
        Ok(())
    }

    /// The same where all that is known is that it came after the commit `after`.
    pub(crate) fn insert_after(&mut self, after: u64, change: Change) -> Result<(), String> {
        self.guessed.push(after + 1);
        self.insert(after + 1, change)
    }

    /// Whether the moment `ts` may lie before the commit that it stands for.
    pub(crate) fn is_guessed(&self, ts: u64) -> bool {
        self.guessed.contains(&ts)
    }

    /// The states from `from` on, of commits not above `visible`, that are `found` by the time
    /// `now`. Where a table was made and dropped, or a row was written that is gone, there may be
    /// several.
    pub(crate) fn find(
        &self,
        found: &World,
        from: usize,
        visible: u64,
        now: u64,
    ) -> Option<RangeInclusive<usize>> {
        let to = self.count_at(visible);
        let mut equal = (from..=to).filter(|k| self.states[*k].shows(found, now));
        let first = equal.next()?;
        Some(first..=equal.next_back().unwrap_or(first))
    }

    /// What a reader or a writer may rely on who has seen the first `count` commits.
    pub(crate) fn promised(&self, count: usize) -> Need {
        let reach = |level| {
            let last = self.levels[..count].iter().rposition(|l| *l >= level);
            last.map_or(0, |last| last + 1).max(self.safe.min(count))
        };
        Need {
            kill: reach(Durability::Flushed),
            power: reach(Durability::Synced),
            told_ts: self.timestamps[..count].last().copied().unwrap_or(0),
        }
    }

    /// The timestamp that all commits to come are above: that of the last one, or of a later
    /// moment that was shown.
    pub(crate) fn newest(&self) -> u64 {
        self.timestamps.last().copied().unwrap_or(0).max(self.taken_ts)
    }

    /// No commit comes at `ts` or before it from here on.
    pub(crate) fn take_up_to(&mut self, ts: u64) {
        self.taken_ts = self.taken_ts.max(ts);
    }

    /// The number of commits up to `ts`.
    pub(crate) fn count_at(&self, ts: u64) -> usize {
        self.timestamps.partition_point(|t| *t <= ts)
    }

    /// The first `count` commits, all of them safe; nothing up to `told_ts` is given again.
    pub(crate) fn truncated(&self, count: usize, told_ts: u64) -> History {
        let mut history = History {
            states: self.states[..=count].to_vec(),
            levels: self.levels[..count].to_vec(),
            timestamps: self.timestamps[..count].to_vec(),
            changes: self.changes[..count].to_vec(),
            guessed: self.guessed.clone(),
            taken_ts: told_ts,
            last_table: 0,
            safe: count,
        };
        let tables = history.states.iter().flat_map(|state| state.tables.values());
        history.last_table = tables.map(|table| table.id).max().unwrap_or(0);
        history
    }

    /// Why `found` is not a state with at least `need` commits.
    pub(crate) fn explain(&self, found: &World, need: usize, now: u64) -> String {
        if let Some(k) = self.find(found, 0, u64::MAX, now) {
            let k = k.end();
            let first = self.timestamps.get(*k).copied().unwrap_or(0);
            let table = self.changes.get(*k).map_or("", |change| change.table());
            return format!(
                "only {k} commits are there, {need} were promised: not {first}, of table {table}"
            );
        }
        let differences = |k: usize| self.states[k].differences(found, now);
        let nearest = (0..=self.len()).rev().min_by_key(|k| differences(*k).len()).unwrap_or(0);
        let differences = differences(nearest);
        let first: Vec<_> = differences.iter().take(4).map(String::as_str).collect();
        format!(
            "no state of the {} commits ({need} promised) by {now}; against the one after {nearest}: \
             {} differences: {}",
            self.len(),
            differences.len(),
            first.join("; ")
        )
    }
}

impl World {
    fn write(
        &mut self,
        table: &str,
        pk: &Bytes,
        rows: Vec<(Bytes, Option<Bytes>)>,
        ts: u64,
        expires: u64,
    ) -> Result<(), String> {
        let table = self.tables.get_mut(table).ok_or("a commit into a table that is not there")?;
        let there = Arc::make_mut(&mut table.rows);
        for (rk, value) in rows {
            match value {
                Some(value) => there.insert((pk.clone(), rk), Stored { ts, expires, value }),
                None => there.remove(&(pk.clone(), rk)),
            };
        }
        Ok(())
    }

    /// Whether it looks like `found` by `now`.
    pub(crate) fn shows(&self, found: &World, now: u64) -> bool {
        let same = |((name, own), (other, found)): ((&String, &Table), (&String, &Table))| {
            name == other && own.shows(found, now)
        };
        self.tables.len() == found.tables.len() && self.tables.iter().zip(&found.tables).all(same)
    }

    /// In which tables and rows it does not.
    pub(crate) fn differences(&self, found: &World, now: u64) -> Vec<String> {
        let mut out = Vec::new();
        let names: std::collections::BTreeSet<_> =
            self.tables.keys().chain(found.tables.keys()).collect();
        for name in names {
            match (self.tables.get(name), found.tables.get(name)) {
                (Some(want), Some(got)) => {
                    if (want.id, want.created) != (got.id, got.created) {
                        out.push(format!("{name}: number {} for {}", got.id, want.id));
                    }
                    if want.life.ttl != got.life.ttl {
                        let (got, want) = (got.life.ttl, want.life.ttl);
                        out.push(format!("{name}: lives {got} ticks, not {want}"));
                    }
                    if want.columns != got.columns {
                        out.push(format!("{name}: declares {:?}", got.columns));
                    }
                    row_differences(name, want.shown(now).collect(), got, &mut out);
                }
                (want, _) => out.push(format!(
                    "table {name} is {}",
                    if want.is_some() { "missing" } else { "there" }
                )),
            }
        }
        out
    }
}

fn row_differences(
    table: &str,
    want: BTreeMap<&Place, &Stored>,
    got: &Table,
    out: &mut Vec<String>,
) {
    let places: std::collections::BTreeSet<_> =
        want.keys().copied().chain(got.rows.keys()).collect();
    for place in places {
        let (want, got) = (want.get(place).copied(), got.rows.get(place));
        if want != got {
            let of = |row: Option<&Stored>| match row {
                None => "none".to_owned(),
                Some(Stored { ts, expires: NEVER, .. }) => ts.to_string(),
                Some(Stored { ts, expires, .. }) => format!("{ts} until {expires}"),
            };
            let (pk, rk) = place;
            out.push(format!("{table} {pk:?} {rk:?} is of commit {} not {}", of(got), of(want)));
        }
    }
}
