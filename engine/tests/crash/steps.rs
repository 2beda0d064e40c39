//! Does the steps of a workload, one after the other.

use crate::finished::Finished;
use crate::look::name_of;
use crate::model::{History, Need};
use crate::opening::START_TICKS;
use crate::ops::{Op, key_of};
use crate::run::Run;
use crate::stop::Stop;
use std::sync::Arc;
use std::time::Duration;
use tabulith::Codec;
use tabulith::options::{Advanced, Options};
use tabulith::vfs::mem::SimFs;

impl Run {
    /// Runs `ops` on an empty disk.
    pub(crate) fn of(ops: &[Op], options: &Options) -> Result<Finished, Stop> {
        let sim = SimFs::new();
        if options.advanced.compression.upper == Codec::None {
            sim.refuse_direct(); // Half of the long workloads write the log in two calls.
        }
        let vfs = Arc::new(sim.clone());
        let run = Run::new(&sim, vfs, options, History::new(), Need::default());
        let mut run = run.recorded();
        run.open(|need| need.power)?;
        run.apply_all(ops)?;
        Ok(run.finish(Need::default()))
    }

    pub(crate) fn apply_all(&mut self, ops: &[Op]) -> Result<(), Stop> {
        ops.iter().try_for_each(|op| self.apply(op))
    }

    pub(crate) fn apply(&mut self, op: &Op) -> Result<(), Stop> {
        self.clock.advance(Duration::from_nanos(300));
        self.perform(op)?;
        self.hear()
    }

    fn perform(&mut self, op: &Op) -> Result<(), Stop> {
        match op {
            Op::Transact { table, pk, read, rows } => {
                self.transact(&name_of(*table), *pk, *read, rows)
            }
            Op::Entities { pk, changes } => self.change_entities(*pk, changes),
            Op::Setting { owner, name, bytes } => self.set_setting(*owner, *name, *bytes),
            Op::Urge => {
                self.tickets.iter().for_each(|ticket| ticket.urge());
                Ok(())
            }
            Op::Ask => self.ask(),
            Op::Notify => {
                self.notify();
                Ok(())
            }
            Op::Write { table, pk, rows, level, wait } => {
                self.write(&name_of(*table), *pk, rows, *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Ingest { table, pk, rows } => self.ingest(&name_of(*table), *pk, rows),
            Op::CompactPartition { table, pk } => {
                let table = name_of(*table);
                if let Some(table) = self.db()?.find(&table)? {
                    let pk = key_of('p', *pk);
                    let range = (pk.clone(), Vec::new())..=(pk, vec![0xff]);
                    table.compact(range)?;
                    self.promise_all()?;
                }
                Ok(())
            }
            Op::WaitAll => self.wait_all(),
            Op::Read => self.read(),
            Op::ReadQuiet => self.read_quiet(),
            Op::Create(table) => self.create(&name_of(*table)),
            Op::Fill { table, pk, level, wait } => {
                let rows: Vec<_> = (0..70).map(|rk| (rk, Some(1))).collect();
                self.write(&name_of(*table), *pk, &rows, *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Count { table, pk, times } => self.count_up(&name_of(*table), *pk, *times),
            Op::Erase { table, pk, from, to, level, wait } => {
                self.erase(&name_of(*table), *pk, *from, *to, *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Truncate { table, level, wait } => {
                self.truncate(&name_of(*table), *level)?;
                if *wait { self.wait_all() } else { Ok(()) }
            }
            Op::Drop(table) => self.drop_table(&name_of(*table)),
            Op::Life(ticks) => {
                self.life = *ticks;
                Ok(())
            }
            Op::Declare { table, columns } => self.declare(&name_of(*table), *columns),
            Op::SetTtl { table, ticks } => self.set_ttl(&name_of(*table), *ticks),
            Op::Flush => {
                self.db()?.flush()?;
                self.promise_all()
            }
            Op::Compact => {
                self.db()?.compact()?;
                self.promise_all()
            }
            Op::Settle => Ok(self.db()?.settle()?),
            Op::Step => Ok(self.db()?.step().map(drop)?),
            Op::Idle => self.idle(),
            Op::Scrub => self.scrub(),
            Op::Reopen => self.reopen(self.options.clone()),
            Op::Kill => self.kill(self.options.clone()),
            Op::Alter { history, durability, blob_bytes_min, kill } => {
                let blob_bytes_min = usize::from(*blob_bytes_min);
                let advanced = Advanced { blob_bytes_min, ..self.options.advanced.clone() };
                let history = history.map(|ticks| Duration::from_nanos(ticks * 100));
                let durability = *durability;
                let options = Options { history, durability, advanced, ..self.options.clone() };
                self.is_altered = true;
                if *kill { self.kill(options) } else { self.reopen(options) }
            }
            Op::Peek => self.peek(),
            Op::Checkpoint => {
                let dir = self.folder();
                self.checkpoint(&dir).map(drop)
            }
            Op::Hold => {
                self.held = Some(self.hold()?);
                Ok(())
            }
            Op::Export => self.export(),
            Op::ClockBack => {
                self.clock.set_wall(START_TICKS - 3600 * 10_000_000);
                Ok(())
            }
        }
    }
}
