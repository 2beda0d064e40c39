//! Stored policies of the tables: kept with the table, remembered in memory, and steady while a
//! change that depends on one is applied.
//!
//! Promise: once policies are set, or their table is gone, no change is applied any more by leave
//! of the old ones, not even one that was admitted before. Who reads waits for nobody: he compares
//! once more when he has read, and shows nothing where they are not what they were.

use crate::auth::policy::{self, Policy, Stored};
use crate::error::{AUTHENTICATION_FAILED, WireError};
use crate::remembered::Remembered;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
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

/// Most tables whose policies are remembered; then all are forgotten at once.
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
    /// Held by who sets policies or removes a table, from beginning to end.
    changing: Mutex<()>,
    /// Shared by changes of entities.
    steady: RwLock<()>,
}

impl Default for StoredPolicies {
    fn default() -> StoredPolicies {
        let (gates, hashes) = ((0..GATES).map(|_| Gate::default()).collect(), RandomState::new());
        StoredPolicies { gates, hashes, known: Remembered::new(TABLES_MAX) }
    }
}

/// While one lives, a table stays, and so do its policies.
pub type Steady<'a> = RwLockReadGuard<'a, ()>;

/// While one lives, a table belongs to who removes it.
#[derive(Debug)]
pub struct Changing<'a> {
    _steady: RwLockWriteGuard<'a, ()>,
    _one_at_a_time: MutexGuard<'a, ()>,
}

impl StoredPolicies {
    /// Keeps a table as it is: to be held from the look at a policy to the end of the change that
    /// it allows. Waits for whoever removes the table, and so for the disk; nothing for one who
    /// must not.
    pub fn steady(
        &self,
        account: &AccountName,
        table: &TableName,
        reach: Reach,
    ) -> Option<Steady<'_>> {
        let gate = &self.gate(account, table).steady;
        match reach {
            Reach::Memory => gate.try_read(),
            Reach::Disk => Some(gate.read()),
        }
    }

    /// To be held while a table is removed, and while one is made that no removal may meet.
    pub fn changing(&self, account: &AccountName, table: &TableName) -> Changing<'_> {
        let gate = self.gate(account, table);
        let one_at_a_time = gate.changing.lock();
        Changing { _steady: gate.steady.write(), _one_at_a_time: one_at_a_time }
    }

    /// Of a table by its name, in whatever case: one that is made anew has the gate of the one
    /// before.
    fn gate(&self, account: &AccountName, table: &TableName) -> &Gate {
        let hash = self.hashes.hash_one((account, table.folded()));
        &self.gates[hash as usize % GATES]
    }

    /// The policy of that name as of now, if its table is there and has one. Waits for nobody.
    pub fn get<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        id: &str,
    ) -> TableResult<Option<Stored>> {
        let found = match self.all(tables, account, table) {
            Err(TableError::TableNotFound) => return Ok(None),
            found => found?,
        };
        let policy = found.1.iter().find(|policy| policy.id == id).cloned();
        Ok(policy.map(|policy| Stored { table: found.0, policy }))
    }

    /// Whether a policy still is what it was.
    pub fn check<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
        stored: &Stored,
    ) -> TableResult<Result<(), WireError>> {
        let now = self.get(tables, account, table, &stored.policy.id)?;
        let same = now.as_ref() == Some(stored);
        Ok(if same { Ok(()) } else { Err(AUTHENTICATION_FAILED) })
    }

    /// All policies of a table, and the table that has them. Waits for nobody.
    pub fn all<S: RowStore + Catalog>(
        &self,
        tables: &TableStore<S>,
        account: &AccountName,
        table: &TableName,
    ) -> TableResult<(TableId, Arc<[Policy]>)> {
        let found = tables.get_table(account, table)?.ok_or(TableError::TableNotFound)?;
        let begun = match self.known.get(&found.id) {
            Ok(policies) => return Ok((found.id, policies)),
            Err(begun) => begun,
        };
        let kept = tables.table_setting(account, table, SETTING)?;
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
        // Once this is had, whoever compared with the old ones has applied what they allow.
        let _nobody_applies = gate.steady.write();
        // One that failed may have been kept all the same: the store will be asked what it has.
        self.known.change(found.id, set.is_ok().then(|| policies.into()));
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
            scope.spawn(move || done.send(policies.get(tables, account, asked, "p")));
            let found = read.recv_timeout(Duration::from_secs(20));
            let steady = policies.steady(account, &changed, Reach::Memory).is_some();
            drop(go_on);
            assert_ne!(found.as_ref().err(), Some(&RecvTimeoutError::Timeout), "it waits");
            assert!(found.expect("read").expect("sound").is_some());
            assert!(steady, "a change waits for the disk that keeps the policies");
        });
        assert!(policies.get(&tables, &account, &changed, "p").expect("sound").is_some());
    }

    #[test]
    fn who_must_not_wait_is_not_kept_waiting() {
        let policies = StoredPolicies::default();
        let account = AccountName::parse("devstoreaccount1").expect("a name");
        let table = |name: &str| TableName::parse(name).expect("a name");
        let own = table("Table");
        let steady = |name: &str, reach| policies.steady(&account, &table(name), reach);
        let changing = policies.changing(&account, &own);
        assert!(steady("tAble", Reach::Memory).is_none(), "somebody removes it");
        // Of a hundred others hardly one shares the gate.
        let others = (0..100).filter(|n| steady(&format!("table{n}"), Reach::Memory).is_some());
        assert!(others.count() > 50, "nobody removes other tables");
        drop(changing);
        let (one, other) = (steady("Table", Reach::Memory), steady("Table", Reach::Disk));
        assert!(one.is_some() && other.is_some());
    }
}
