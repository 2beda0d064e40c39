//! Stored policies of the tables: kept with the table, remembered in memory, and steady while a
//! change that depends on one is applied.
//!
//! Promise: once policies are set, or their table is gone, no change is applied any more by leave
//! of the old ones, not even one that was admitted before. Whoever sets policies or removes a table
//! waits for the changes that are being applied; they wait for nobody here. A reader compares once
//! more when it has read, and shows nothing where they are not what they were.

use crate::auth::policy::{self, Policy, Stored};
use crate::error::{AUTHENTICATION_FAILED, WireError};
use crate::remembered::Remembered;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use tabulith::ids::TableId;
use tabulith::options::Reach;
use tabulith::rows::{Catalog, RowStore};
use tabulith::table::error::{TableError, TableResult};
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;

/// The setting that they are kept under, as the XML that shows them.
const SETTING: &str = "acl";

/// Most tables whose policies are remembered; beyond that the older half is forgotten.
const TABLES_MAX: usize = 10_000;

/// Tables share so many gates: whose policies change keeps few others waiting.
const GATES: usize = 256;

/// The policies of one store's tables.
#[derive(Debug)]
pub struct StoredPolicies {
    gates: Box<[Gate]>,
    hashes: RandomState,
    known: Remembered<TableId, Arc<[Policy]>>,
}

/// What tables share whose names have one hash.
#[derive(Debug, Default)]
struct Gate {
    /// Held by who sets policies, or makes or removes a table, from beginning to end.
    changing: Mutex<()>,
    applying: Mutex<Applying>,
    /// Told when the last one of a side has applied its change.
    applied: Condvar,
}

/// How many changes of entities are being applied: those that began before policies were set or a
/// table was removed on one side, those that began after it on the other.
#[derive(Debug, Default)]
struct Applying {
    /// The side of those that begin now.
    side: usize,
    counts: [usize; 2],
}

impl Gate {
    /// Waits for all changes that have begun. Those that begin meanwhile wait for nobody, and see
    /// what was done before this. The caller holds `changing`, so that the other side is empty.
    fn let_apply(&self) {
        let mut applying = self.applying.lock();
        let begun = applying.side;
        applying.side = 1 - begun;
        while applying.counts[begun] > 0 {
            self.applied.wait(&mut applying);
        }
    }
}

impl Default for StoredPolicies {
    fn default() -> StoredPolicies {
        let (gates, hashes) = ((0..GATES).map(|_| Gate::default()).collect(), RandomState::new());
        StoredPolicies { gates, hashes, known: Remembered::new(TABLES_MAX) }
    }
}

/// While one lives, who sets policies or removes the table is not done, and its name means no other
/// table than before.
#[derive(Debug)]
pub struct Steady<'a> {
    gate: &'a Gate,
    side: usize,
}

impl Drop for Steady<'_> {
    fn drop(&mut self) {
        let mut applying = self.gate.applying.lock();
        applying.counts[self.side] -= 1;
        if applying.counts[self.side] == 0 {
            self.gate.applied.notify_all();
        }
    }
}

/// While one lives, a name belongs to who makes its table.
pub type Making<'a> = MutexGuard<'a, ()>;

/// While one lives, a table belongs to who removes it. Its end waits for the changes that may have
/// found the table there.
#[derive(Debug)]
pub struct Removing<'a> {
    gate: &'a Gate,
    _one_at_a_time: MutexGuard<'a, ()>,
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.gate.let_apply();
    }
}

impl StoredPolicies {
    /// To be held from the look at a policy to the end of the change that it allows. Waits for
    /// nobody.
    pub fn steady(&self, account: &AccountName, table: &TableName) -> Steady<'_> {
        let gate = self.gate(account, table);
        let mut applying = gate.applying.lock();
        let side = applying.side;
        applying.counts[side] += 1;
        Steady { gate, side }
    }

    /// To be held while a table is made: until whoever removes one of that name, and those who
    /// apply what its policies allow, are done.
    pub fn making(&self, account: &AccountName, table: &TableName) -> Making<'_> {
        self.gate(account, table).changing.lock()
    }

    /// To be held while a table is removed. Changes go on meanwhile, by leave of policies that are
    /// still there.
    pub fn removing(&self, account: &AccountName, table: &TableName) -> Removing<'_> {
        let gate = self.gate(account, table);
        Removing { gate, _one_at_a_time: gate.changing.lock() }
    }

    /// Of a table by its name, in whatever case: one that is made anew has the gate of the one
    /// before.
    fn gate(&self, account: &AccountName, table: &TableName) -> &Gate {
        let hash = self.hashes.hash_one((account, table.folded()));
        &self.gates[hash as usize % GATES]
    }

    /// The policy of that name as of now, if its table is there and has one. Waits for nobody.
    ///
    /// `reach`: with [`Reach::Memory`] an answer that needs the disk is
    /// [`Kind::WouldBlock`](tabulith::error::Kind::WouldBlock).
    pub fn get<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        id: &str,
        reach: Reach,
    ) -> TableResult<Option<Stored>> {
        let found = match self.all(tables, account, table, reach) {
            Err(TableError::TableNotFound) => return Ok(None),
            found => found?,
        };
        let policy = found.1.iter().find(|policy| policy.id == id).cloned();
        Ok(policy.map(|policy| Stored { table: found.0, policy }))
    }

    /// Whether a policy still is what it was. `reach`: as for [`StoredPolicies::get`].
    pub fn check<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        stored: &Stored,
        reach: Reach,
    ) -> TableResult<Result<(), WireError>> {
        let now = self.get(tables, account, table, &stored.policy.id, reach)?;
        let same = now.as_ref() == Some(stored);
        Ok(if same { Ok(()) } else { Err(AUTHENTICATION_FAILED) })
    }

    /// All policies of a table, and the table that has them. Waits for nobody. `reach`: as for
    /// [`StoredPolicies::get`].
    pub fn all<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        reach: Reach,
    ) -> TableResult<(TableId, Arc<[Policy]>)> {
        let found = tables.get_table(account, table)?.ok_or(TableError::TableNotFound)?;
        let begun = match self.known.get(&found.id) {
            Ok(policies) => return Ok((found.id, policies)),
            Err(begun) => begun,
        };
        let kept = tables.table_setting_within(account, table, SETTING, reach)?;
        let policies = kept.map_or(Ok(Vec::new()), |kept| policy::read(&kept));
        let policies: Arc<[Policy]> = policies
            .unwrap_or_else(|error| {
                // Nobody is let in by what cannot be read.
                tracing::error!(%error, "stored policies that do not parse");
                Vec::new()
            })
            .into();
        // They are found by the table's name, which may mean another one by now.
        let again = tables.get_table(account, table)?.filter(|again| again.id == found.id);
        let id = again.ok_or(TableError::TableNotFound)?.id;
        self.known.keep(begun, id, policies.clone());
        Ok((id, policies))
    }

    /// Keeps these policies and no others for a table; returns once that is durable.
    pub fn set<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        policies: Vec<Policy>,
    ) -> TableResult<()> {
        let gate = self.gate(account, table);
        let _one_at_a_time = gate.changing.lock();
        let found = tables.get_table(account, table)?.ok_or(TableError::TableNotFound)?;
        let text = (!policies.is_empty()).then(|| policy::written(&policies));
        // Until then everything goes on by the old ones, and nobody waits for the disk.
        let set = tables.set_table_setting(account, table, SETTING, text.as_deref());
        // One that failed may have been kept all the same: the store will be asked what it has.
        self.known.change(found.id, set.is_ok().then(|| policies.into()));
        // Then whoever compared with the old ones has applied what they allow.
        gate.let_apply();
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;
    use tabulith::Db;
    use tabulith::env::clock::SystemClock;
    use tabulith::env::jobs::Threads;
    use tabulith::vfs::fault::{Call, FaultFs, Rule};
    use tabulith::vfs::mem::SimFs;

    #[test]
    fn who_reads_waits_for_no_change() {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let parts = (Arc::new(disk.clone()), Arc::new(SystemClock::new()), Arc::new(Threads));
        let db = Db::builder().parts(parts.0, parts.1, parts.2).open("data").expect("a database");
        let tables = TableStore::new(Arc::new(db));
        let account = AccountName::parse("devstoreaccount1").expect("a name");
        let [asked, changed] = ["asked", "changed"].map(|name| {
            let name = TableName::parse(name).expect("a name");
            tables.create_table(&account, &name).expect("a table");
            name
        });
        let policy = Policy { id: "p".to_owned(), ..Policy::default() };
        let set = |policies: &StoredPolicies, table| {
            policies.set(&tables, &account, table, vec![policy.clone()]).expect("kept");
        };
        set(&StoredPolicies::default(), &asked);
        let policies = StoredPolicies::default(); // They remember nothing.
        let ((is_held, held), (go_on, still)) = (channel(), channel::<()>());
        disk.interrupt(Rule::fail(Call::Sync), move || {
            let _ = is_held.send(());
            let _ = still.recv();
        });
        std::thread::scope(|scope| {
            scope.spawn(|| set(&policies, &changed));
            held.recv().expect("a sync");
            let (done, read) = channel();
            let (policies, tables, account, asked) = (&policies, &tables, &account, &asked);
            scope.spawn(move || done.send(policies.get(tables, account, asked, "p", Reach::Disk)));
            let found = read.recv_timeout(Duration::from_secs(20));
            let (done, steady) = channel();
            let changed = &changed;
            scope.spawn(move || {
                drop(policies.steady(account, changed));
                done.send(())
            });
            let steady = steady.recv_timeout(Duration::from_secs(20));
            drop(go_on);
            assert_ne!(found.as_ref().err(), Some(&RecvTimeoutError::Timeout), "it waits");
            assert!(found.expect("read").expect("sound").is_some());
            assert!(steady.is_ok(), "a change waits for the disk that keeps the policies");
        });
        let found = policies.get(&tables, &account, &changed, "p", Reach::Memory);
        assert!(found.expect("sound").is_some());
    }

    /// Who had a turn to commit kept it while waiting for whoever removed the table, and who
    /// removes one waits for the disk and for all who make or remove others.
    #[test]
    fn who_applies_a_change_waits_for_no_removal() {
        let policies = StoredPolicies::default();
        let account = AccountName::parse("devstoreaccount1").expect("a name");
        let own = TableName::parse("Table").expect("a name");
        let removing = policies.removing(&account, &own);
        let (done, applied) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drop(policies.steady(&account, &own));
                done.send(())
            });
            let applied = applied.recv_timeout(Duration::from_secs(20));
            drop(removing);
            assert!(applied.is_ok(), "it waits");
        });
    }

    #[test]
    fn a_name_is_free_when_all_have_applied_who_may_have_found_its_table() {
        let policies = StoredPolicies::default();
        let account = AccountName::parse("devstoreaccount1").expect("a name");
        let table = |name: &str| TableName::parse(name).expect("a name");
        let own = table("Table");
        let gate = policies.gate(&account, &own);
        for _ in 0..3 {
            let (before, side) = (policies.steady(&account, &own), gate.applying.lock().side);
            std::thread::scope(|scope| {
                let (done, removed) = channel();
                let (policies, account) = (&policies, &account);
                let other_case = table("tAble");
                scope.spawn(move || {
                    drop(policies.removing(account, &other_case));
                    done.send(())
                });
                while gate.applying.lock().side == side {
                    std::thread::yield_now();
                }
                let after = policies.steady(account, &own);
                assert!(gate.changing.try_lock().is_none(), "it may be made anew");
                assert!(removed.try_recv().is_err(), "the removal is told");
                drop(before);
                // Whoever began since then has found no table.
                removed.recv_timeout(Duration::from_secs(20)).expect("the removal waits");
                drop(policies.making(account, &own));
                drop(after);
            });
        }
        assert_eq!(gate.applying.lock().counts, [0, 0]);
    }
}
