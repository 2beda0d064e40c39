//! What a list means, whichever way it goes: which call each operation is, what happens to the
//! service, and looks at the past.

use crate::house::House;
use crate::model::Model;
use crate::ops::{Change, Filter, Op, PASTS, Select, TABLES};
use tabulith::CommitTs;

/// What differed, in words.
pub(crate) type Difference = String;

/// What a list works on, and how far it went there.
pub(crate) struct Site {
    pub(crate) house: House,
    pub(crate) model: Model,
    /// When reads are as of, if that is not now.
    pub(crate) as_of: Option<CommitTs>,
    pasts: [Option<Past>; PASTS],
    /// Entities that were read.
    pub(crate) entities: u64,
    /// Those of them that were read in the past.
    pub(crate) past: u64,
    /// Losses of power that could leave one state or another.
    pub(crate) power_losses: u64,
}

/// A moment, and what was there then.
struct Past {
    moment: CommitTs,
    model: Model,
}

impl Site {
    pub(crate) fn start(options: usize) -> Result<Site, Difference> {
        Ok(Site {
            house: House::start(options)?,
            model: Model::default(),
            as_of: None,
            pasts: Default::default(),
            entities: 0,
            past: 0,
            power_losses: 0,
        })
    }

    /// The newest moment that may be asked for.
    fn present(&self) -> Past {
        Past { moment: self.house.db().visible(), model: self.model.clone() }
    }
}

/// A way to do operations to tables; each is held against the model.
pub(crate) trait Way {
    /// What it is called where something differs.
    const NAME: &'static str;

    fn site(&mut self) -> &mut Site;
    fn create(&mut self, table: usize) -> Result<(), Difference>;
    fn drop_table(&mut self, table: usize) -> Result<(), Difference>;
    fn list(&mut self, top: Option<u32>) -> Result<(), Difference>;
    fn change(&mut self, table: usize, pk: &str, change: &Change) -> Result<(), Difference>;
    fn batch(&mut self, table: usize, pk: &str, changes: &[Change]) -> Result<(), Difference>;
    fn get(&mut self, table: usize, pk: &str, rk: &str, select: &Select) -> Result<(), Difference>;
    fn query(
        &mut self,
        table: usize,
        filter: Option<&Filter>,
        select: &Select,
        top: Option<u32>,
    ) -> Result<(), Difference>;
    fn walk(
        &mut self,
        table: usize,
        top: u32,
        changes: &[(String, Change)],
    ) -> Result<(), Difference>;

    /// Does all of a list, and reads all that it left; the first difference ends it.
    fn all(&mut self, ops: &[Op]) -> Result<(), Difference> {
        let way = Self::NAME;
        for (n, op) in ops.iter().enumerate() {
            let outcome = self.one(op);
            outcome.map_err(|what| format!("operation {n}, {}, {way}: {what}", op.kind()))?;
        }
        for table in 0..TABLES {
            let what = self.query(table, None, &Select::All, None);
            what.map_err(|what| format!("at the end, table {table}, {way}: {what}"))?;
        }
        Ok(())
    }

    fn one(&mut self, op: &Op) -> Result<(), Difference> {
        self.site().house.let_time_pass();
        match op {
            Op::CreateTable { table } => self.create(*table),
            Op::DropTable { table } => self.drop_table(*table),
            Op::ListTables { top } => self.list(*top),
            Op::Change { table, pk, change } => self.change(*table, pk, change),
            Op::Batch { table, pk, changes } => self.batch(*table, pk, changes),
            Op::Get { table, pk, rk, select } => self.get(*table, pk, rk, select),
            Op::Query { table, filter, select, top } => {
                self.query(*table, filter.as_ref(), select, *top)
            }
            Op::Walk { table, top, changes } => self.walk(*table, *top, changes),
            Op::Remember { past } => {
                let site = self.site();
                site.pasts[*past] = Some(site.present());
                Ok(())
            }
            Op::GetPast { past, table, pk, rk, select } => {
                self.look_back(*past, |way| way.get(*table, pk, rk, select))
            }
            Op::QueryPast { past, table, filter, select, top } => {
                self.look_back(*past, |way| way.query(*table, filter.as_ref(), select, *top))
            }
            Op::ListPast { past, top } => self.look_back(*past, |way| way.list(*top)),
            other => {
                let site = self.site();
                site.power_losses += u64::from(site.house.endure(other)?);
                Ok(())
            }
        }
    }

    /// Has `look` see what was there at a moment that was noted; where none was, at the newest.
    fn look_back(
        &mut self,
        past: usize,
        look: impl FnOnce(&mut Self) -> Result<(), Difference>,
    ) -> Result<(), Difference> {
        let site = self.site();
        let Past { moment, model } = site.pasts[past].take().unwrap_or_else(|| site.present());
        let is_past = model.newest() < site.model.newest();
        let (now, before) = (std::mem::replace(&mut site.model, model), site.entities);
        site.as_of = Some(moment);
        let outcome = look(self).map_err(|what| format!("as of {moment}: {what}"));
        let site = self.site();
        site.as_of = None;
        if is_past {
            site.past += site.entities - before;
        }
        let model = std::mem::replace(&mut site.model, now);
        site.pasts[past] = Some(Past { moment, model });
        outcome
    }
}
