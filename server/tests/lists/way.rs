//! What a list means, whichever way it goes: which call each operation is, what happens to the
//! service, and looks at the past.

use crate::house::House;
use crate::model::Model;
use crate::ops::{Change, Compare, Filter, Op, PASTS, Policy, Select, Stretch, TABLES, both};
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

/// How an answer is asked for, which makes no difference to what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// JSON that says no types.
    Bare,
    /// As the one part of a batch.
    InBatch,
}

/// What is looked for in a table, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) filter: Option<&'a Filter>,
    pub(crate) select: &'a Select,
    pub(crate) top: Option<u32>,
    pub(crate) form: Form,
    /// All that the one who asks may see.
    pub(crate) stretch: Option<&'a Stretch>,
    /// The stored policy by whose leave they ask.
    pub(crate) policy: Option<&'a str>,
    /// The options with which the service is started again behind each page.
    pub(crate) killed: Option<usize>,
}

/// Everything, at once.
pub(crate) const ALL: Look<'static> = Look {
    filter: None,
    select: &Select::All,
    top: None,
    form: Form::Plain,
    stretch: None,
    policy: None,
    killed: None,
};

impl Look<'_> {
    /// The filter that finds the same for one who may see all.
    pub(crate) fn whole_filter(&self) -> Option<Filter> {
        match (self.stretch.map(Stretch::filter), self.filter.cloned()) {
            (Some(seen), Some(filter)) => Some(both(seen, filter)),
            (seen, filter) => seen.or(filter),
        }
    }
}

/// A way to do operations to tables; each is held against the model.
pub(crate) trait Way {
    /// What it is called where something differs.
    const NAME: &'static str;

    fn site(&mut self) -> &mut Site;
    fn create(&mut self, table: usize, is_shown: bool) -> Result<(), Difference>;
    fn drop_table(&mut self, table: usize) -> Result<(), Difference>;
    fn find(&mut self, table: usize) -> Result<(), Difference>;
    /// All names, or those that compare so with a table's.
    fn list(&mut self, only: Option<(Compare, usize)>, top: Option<u32>) -> Result<(), Difference>;
    fn change(&mut self, table: usize, pk: &str, change: &Change) -> Result<(), Difference>;
    fn batch(&mut self, table: usize, pk: &str, changes: &[Change]) -> Result<(), Difference>;
    fn get(
        &mut self,
        table: usize,
        keys: [&str; 2],
        select: &Select,
        form: Form,
    ) -> Result<(), Difference>;
    fn query(&mut self, table: usize, look: Look<'_>) -> Result<(), Difference>;
    fn walk(
        &mut self,
        table: usize,
        top: u32,
        changes: &[(String, Change)],
    ) -> Result<(), Difference>;

    fn set_policies(&mut self, table: usize, policies: &[Policy]) -> Result<(), Difference>;
    fn policies(&mut self, table: usize) -> Result<(), Difference>;
    fn set_properties(&mut self, days: u16) -> Result<(), Difference>;
    fn properties(&mut self) -> Result<(), Difference>;

    /// Does all of a list, and reads all that it left; the first difference ends it.
    fn all(&mut self, ops: &[Op]) -> Result<(), Difference> {
        let way = Self::NAME;
        for (n, op) in ops.iter().enumerate() {
            let outcome = self.one(op);
            outcome.map_err(|what| format!("operation {n}, {}, {way}: {what}", op.kind()))?;
        }
        for table in 0..TABLES {
            let what = self.query(table, ALL);
            what.map_err(|what| format!("at the end, table {table}, {way}: {what}"))?;
        }
        Ok(())
    }

    fn one(&mut self, op: &Op) -> Result<(), Difference> {
        self.site().house.let_time_pass();
        match op {
            Op::CreateTable { table } => self.create(*table, false),
            Op::CreateShown { table } => self.create(*table, true),
            Op::DropTable { table } => self.drop_table(*table),
            Op::Find { table } => self.find(*table),
            Op::ListTables { top } => self.list(None, *top),
            Op::ListSome { op, table, top } => self.list(Some((*op, *table)), *top),
            Op::Change { table, pk, change } => self.change(*table, pk, change),
            Op::Batch { table, pk, changes } => self.batch(*table, pk, changes),
            Op::Get { table, pk, rk, select } => self.get(*table, [pk, rk], select, Form::Plain),
            Op::GetInBatch { table, pk, rk, select } => {
                self.get(*table, [pk, rk], select, Form::InBatch)
            }
            Op::GetBare { table, pk, rk, select } => self.get(*table, [pk, rk], select, Form::Bare),
            Op::Query { table, filter, select, top } => {
                self.query(*table, Look { filter: filter.as_ref(), select, top: *top, ..ALL })
            }
            Op::QueryBare { table, filter, select, top } => {
                let look = Look { filter: filter.as_ref(), select, top: *top, ..ALL };
                self.query(*table, Look { form: Form::Bare, ..look })
            }
            Op::QueryKeys { table, keys, rest, select, top } => {
                let filter = match rest.clone() {
                    Some(rest) => both(keys.filter(), rest),
                    None => keys.filter(),
                };
                self.query(*table, Look { filter: Some(&filter), select, top: *top, ..ALL })
            }
            Op::QuerySigned { table, stretch, filter, top } => {
                let look = Look { filter: filter.as_ref(), top: *top, ..ALL };
                self.query(*table, Look { stretch: Some(stretch), ..look })
            }
            Op::QueryByPolicy { table, id } => self.query(*table, Look { policy: Some(id), ..ALL }),
            Op::QueryAcrossKills { table, top, options } => {
                self.query(*table, Look { top: Some(*top), killed: Some(*options), ..ALL })
            }
            Op::Walk { table, top, changes } => self.walk(*table, *top, changes),
            Op::Remember { past } => {
                let site = self.site();
                site.pasts[*past] = Some(site.present());
                Ok(())
            }
            Op::GetPast { past, table, pk, rk, select } => {
                self.look_back(*past, |way| way.get(*table, [pk, rk], select, Form::Plain))
            }
            Op::QueryPast { past, table, filter, select, top } => {
                let look = Look { filter: filter.as_ref(), select, top: *top, ..ALL };
                self.look_back(*past, |way| way.query(*table, look))
            }
            Op::ListPast { past, top } => self.look_back(*past, |way| way.list(None, *top)),
            Op::FindPast { past, table } => self.look_back(*past, |way| way.find(*table)),
            Op::SetPolicies { table, policies } => self.set_policies(*table, policies),
            Op::AskPolicies { table } => self.policies(*table),
            Op::SetProperties { days } => self.set_properties(*days),
            Op::AskProperties => self.properties(),
            Op::Export { options } => {
                let site = self.site();
                site.house.endure(&Op::Export { options: *options })?;
                site.pasts = Default::default(); // It has no history.
                Ok(())
            }
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
