//! Runs a list of operations against the service and the model side by side.

use crate::house::House;
use crate::model::{Entity, Model, Refusal, Shown, name_of, partition_of};
use crate::ops::{Change, Filter, Op, PASTS, Properties, Select, Verb};
use crate::talk::{self, Asked};
use serde_json::Value;
use std::collections::BTreeMap;
use tabulith::table::value::DateTime;
use tabulith_server::http::message::Response;

/// What differed, in words.
type Difference = String;

/// How far a list went, so that one which reaches nothing cannot pass for a good one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) pages: u64,
    pub(crate) entities: u64,
    pub(crate) batches_done: u64,
    pub(crate) batches_refused: u64,
    /// Entities that were there unchanged while others changed between pages.
    pub(crate) undisturbed: u64,
    pub(crate) flushes: u64,
    pub(crate) scrubbed: u64,
    /// Entities that were found in the past.
    pub(crate) past: u64,
    /// Losses of power that could leave one state or another.
    pub(crate) power_losses: u64,
}

impl Reached {
    pub(crate) fn add(&mut self, other: &Reached) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.pages += other.pages;
        self.entities += other.entities;
        self.batches_done += other.batches_done;
        self.batches_refused += other.batches_refused;
        self.undisturbed += other.undisturbed;
        self.flushes += other.flushes;
        self.scrubbed += other.scrubbed;
        self.past += other.past;
        self.power_losses += other.power_losses;
    }
}

struct Run {
    house: House,
    model: Model,
    reached: Reached,
    pasts: [Option<Past>; PASTS],
    /// What requests say that they want to see, if that is not the present.
    as_of: Option<String>,
}

/// A moment, and what was there then.
struct Past {
    moment: String,
    model: Model,
}

/// Runs `ops` on a service of their own; the first difference ends it.
pub(crate) fn run(ops: &[Op], options: usize) -> Result<Reached, Difference> {
    let house = House::start(options)?;
    let (model, reached) = (Model::default(), Reached::default());
    let mut run = Run { house, model, reached, pasts: Default::default(), as_of: None };
    for (n, op) in ops.iter().enumerate() {
        run.one(op).map_err(|what| format!("operation {n}, {}, HTTP: {what}", op.kind()))?;
    }
    (run.reached.flushes, run.reached.scrubbed) = (run.house.flushes(), run.house.scrubbed());
    // At the end all of it, whatever was asked before.
    for table in 0..crate::ops::TABLES {
        let what = run.query(table, None, &Select::All, None);
        what.map_err(|what| format!("at the end, table {table}: {what}"))?;
    }
    Ok(run.reached)
}

impl Run {
    fn one(&mut self, op: &Op) -> Result<(), Difference> {
        match op {
            Op::CreateTable { table } => self.create(*table),
            Op::DropTable { table } => {
                let path = format!("/Tables('{}')", name_of(*table));
                let response = self.ask("DELETE", &path);
                let expected = self.model.drop_table(*table);
                self.told(&response, expected.map(|()| 204)).map(drop)
            }
            Op::ListTables { top } => self.list(*top),
            Op::Change { table, pk, change } => self.change(*table, pk, change),
            Op::Batch { table, pk, changes } => self.batch(*table, pk, changes),
            Op::Get { table, pk, rk, select } => self.get(*table, pk, rk, select),
            Op::Query { table, filter, select, top } => {
                self.query(*table, filter.as_ref(), select, *top)
            }
            Op::Walk { table, top, changes } => self.walk(*table, *top, changes),
            Op::Remember { past } => {
                self.pasts[*past] = Some(self.present());
                Ok(())
            }
            Op::GetPast { past, table, pk, rk, select } => {
                self.look_back(*past, |run| run.get(*table, pk, rk, select))
            }
            Op::QueryPast { past, table, filter, select, top } => {
                self.look_back(*past, |run| run.query(*table, filter.as_ref(), select, *top))
            }
            Op::ListPast { past, top } => self.look_back(*past, |run| run.list(*top)),
            other => {
                let could_lose = self.house.endure(other)?;
                self.reached.power_losses += u64::from(could_lose);
                Ok(())
            }
        }
    }

    /// The newest moment that may be asked for.
    fn present(&self) -> Past {
        let moment = DateTime::from(self.house.db().visible()).to_string();
        Past { moment, model: self.model.clone() }
    }

    /// Has `look` see what was there at a moment that was noted; where none was, at the newest.
    fn look_back(
        &mut self,
        past: usize,
        look: impl FnOnce(&mut Run) -> Result<(), Difference>,
    ) -> Result<(), Difference> {
        let Past { moment, model } = self.pasts[past].take().unwrap_or_else(|| self.present());
        let is_past = model.newest() < self.model.newest();
        let (now, before) = (std::mem::replace(&mut self.model, model), self.reached.entities);
        self.as_of = Some(moment.clone());
        let outcome = look(self).map_err(|what| format!("as of {moment}: {what}"));
        self.as_of = None;
        if is_past {
            self.reached.past += self.reached.entities - before;
        }
        let model = std::mem::replace(&mut self.model, now);
        self.pasts[past] = Some(Past { moment, model });
        outcome
    }

    fn send(&mut self, asked: &Asked) -> Response {
        self.reached.requests += 1;
        let response = self.house.send(asked);
        self.reached.refused += u64::from(response.status >= 400);
        response
    }

    fn ask(&mut self, method: &'static str, path: &str) -> Response {
        let accept = ("Accept", "application/json;odata=minimalmetadata".to_owned());
        let as_of = self.as_of.clone().map(|moment| ("x-tabulith-as-of", moment));
        let headers = [Some(accept), as_of].into_iter().flatten().collect();
        self.send(&Asked { method, path: path.to_owned(), headers, body: String::new() })
    }

    /// The answer has the status, or is the refusal, that it must be; whether it is no refusal.
    fn told(
        &self,
        response: &Response,
        expected: Result<u16, Refusal>,
    ) -> Result<bool, Difference> {
        let (status, code) = talk::refusal(response);
        match expected {
            Ok(wanted) if status == wanted => Ok(true),
            Err((wanted, why)) if status == wanted && code == why => Ok(false),
            expected => Err(format!("{expected:?} must be answered, not {status} {code}")),
        }
    }

    fn create(&mut self, table: usize) -> Result<(), Difference> {
        let asked = Asked {
            method: "POST",
            path: "/Tables".to_owned(),
            headers: vec![
                ("Content-Type", "application/json".to_owned()),
                ("Prefer", "return-no-content".to_owned()),
            ],
            body: format!("{{\"TableName\":\"{}\"}}", name_of(table)),
        };
        let response = self.send(&asked);
        let expected = self.model.create(table);
        self.told(&response, expected.map(|()| 204)).map(drop)
    }

    fn list(&mut self, top: Option<u32>) -> Result<(), Difference> {
        let (mut names, mut next) = (Vec::new(), None::<String>);
        loop {
            let mut options = Vec::new();
            options.extend(top.map(|top| format!("$top={top}")));
            options.extend(
                next.map(|next| format!("NextTableName={}", crate::common::escaped(&next))),
            );
            let response = self.ask("GET", &format!("/Tables?{}", options.join("&")));
            self.told(&response, Ok(200))?;
            let page = talk::json(&response)?;
            let page = page["value"].as_array().ok_or("no list")?;
            if top.is_some_and(|top| page.len() > top as usize) {
                return Err(format!("{} names on a page of {top:?}", page.len()));
            }
            names
                .extend(page.iter().filter_map(|one| one["TableName"].as_str().map(str::to_owned)));
            next = response.get("x-ms-continuation-NextTableName").map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        let expected = self.model.names();
        (names == expected).then_some(()).ok_or(format!("tables {names:?}, not {expected:?}"))
    }

    /// An ETag that comes after all others.
    fn rises(&self, etag: Option<u64>) -> Result<u64, Difference> {
        let (etag, newest) = (etag.ok_or("no ETag")?, self.model.newest());
        (etag > newest).then_some(etag).ok_or(format!("ETag {etag} does not come after {newest}"))
    }

    fn change(&mut self, table: usize, pk: &str, change: &Change) -> Result<(), Difference> {
        let tag = self.model.tag(table, pk, change);
        let response = self.send(&talk::change(table, pk, change, tag));
        let expected = self.model.judge(table, pk, change);
        let shows = change.verb == Verb::InsertAndShow;
        let status = if shows { 201 } else { 204 };
        if !self.told(&response, expected.as_ref().map(|_| status).map_err(|refusal| *refusal))? {
            return Ok(());
        }
        let left = expected.unwrap_or_default();
        let ts = match left {
            Some(_) => self.rises(response.get("ETag").and_then(talk::ticks_of_etag))?,
            None => self.model.newest() + 1, // Nobody is told.
        };
        self.model.commit(table, pk, ts, &[(change.rk.clone(), left)]);
        if shows {
            let entity = self.model.get(table, pk, &change.rk).map_err(|_| "it is not there")?;
            return same(&talk::shown(&talk::json(&response)?)?, &entity.shown(&Select::All));
        }
        Ok(())
    }

    fn batch(&mut self, table: usize, pk: &str, changes: &[Change]) -> Result<(), Difference> {
        let with_tag = |change| {
            let pk = partition_of(pk, Change::astray(change));
            (change, self.model.tag(table, &pk, change))
        };
        let tagged: Vec<_> = changes.iter().map(with_tag).collect();
        let response = self.send(&talk::batch(table, pk, &tagged));
        self.told(&response, Ok(202))?;
        let parts = talk::parts(&response);
        let left = match self.model.judge_all(table, pk, changes) {
            Ok(left) => left,
            Err((at, (status, code))) => {
                self.reached.batches_refused += 1;
                let body: Value = match parts.as_slice() {
                    [part] if part.status == status => {
                        serde_json::from_str(&part.body).map_err(|error| error.to_string())?
                    }
                    parts => return Err(format!("{status} {code} at {at}, not {parts:?}")),
                };
                let error = &body["odata.error"];
                let message = error["message"]["value"].as_str().unwrap_or_default();
                let right = error["code"] == code && message.starts_with(&format!("{at}:"));
                return right.then_some(()).ok_or(format!("{code} at {at}, not {error}"));
            }
        };
        self.reached.batches_done += 1;
        let statuses: Vec<u16> = parts.iter().map(|part| part.status).collect();
        let shows = |change: &Change| change.verb == Verb::InsertAndShow;
        let expected: Vec<u16> =
            changes.iter().map(|change| if shows(change) { 201 } else { 204 }).collect();
        if statuses != expected {
            return Err(format!("parts {statuses:?}, not {expected:?}: {parts:?}"));
        }
        let mut etags = parts.iter().zip(&left).filter(|(_, left)| left.is_some());
        let ts = match etags.next() {
            Some((part, _)) => self.rises(part.etag)?,
            None => self.model.newest() + 1,
        };
        if let Some((part, _)) = etags.find(|(part, _)| part.etag != Some(ts)) {
            return Err(format!("one commit, and ETags {ts} and {:?}", part.etag));
        }
        let own = partition_of(pk, changes.first().is_some_and(Change::astray));
        let left: Vec<(String, Option<Properties>)> =
            changes.iter().map(|change| change.rk.clone()).zip(left).collect();
        self.model.commit(table, &own, ts, &left);
        Ok(())
    }

    fn get(&mut self, table: usize, pk: &str, rk: &str, select: &Select) -> Result<(), Difference> {
        let options = talk::query(None, select, None);
        let path = format!("{}?{options}", talk::entity_path(table, pk, rk));
        let response = self.ask("GET", &path);
        let expected = self.model.get(table, pk, rk);
        let status = expected.as_ref().map(|_| 200).map_err(|refusal| *refusal);
        if !self.told(&response, status)? {
            return Ok(());
        }
        let expected = expected.map_err(|refusal| format!("{refusal:?}"))?.shown(select);
        if response.get("ETag").and_then(talk::ticks_of_etag) != Some(expected.etag) {
            return Err(format!("ETag {:?}, not {}", response.get("ETag"), expected.etag));
        }
        self.reached.entities += 1;
        same(&talk::shown(&talk::json(&response)?)?, &expected)
    }

    /// One page, and where the next one begins.
    fn page(
        &mut self,
        table: usize,
        options: &str,
        next: Option<&str>,
    ) -> Result<(Response, Option<String>), Difference> {
        let path = format!("/{}()?{options}&{}", name_of(table), next.unwrap_or_default());
        let response = self.ask("GET", path.trim_end_matches(['&', '?']));
        self.reached.pages += 1;
        let token = |name: &str| {
            let value = response.get(&format!("x-ms-continuation-{name}"))?;
            Some(format!("{name}={}", crate::common::escaped(value)))
        };
        let tokens: Vec<String> =
            ["NextPartitionKey", "NextRowKey"].into_iter().filter_map(token).collect();
        let next = (!tokens.is_empty()).then(|| tokens.join("&"));
        Ok((response, next))
    }

    fn query(
        &mut self,
        table: usize,
        filter: Option<&Filter>,
        select: &Select,
        top: Option<u32>,
    ) -> Result<(), Difference> {
        let options = talk::query(filter, select, top);
        let expected = self.model.query(table, filter);
        let status = expected.as_ref().map(|_| 200).map_err(|refusal| *refusal);
        let (mut found, mut next) = (Vec::new(), None::<String>);
        loop {
            let (response, token) = self.page(table, &options, next.as_deref())?;
            if !self.told(&response, status)? {
                return Ok(());
            }
            found.extend(rows(&response, top)?);
            next = token;
            if next.is_none() {
                break;
            }
        }
        let expected = expected.map_err(|refusal| format!("{refusal:?}"))?;
        self.reached.entities += expected.len() as u64;
        for (found, expected) in found.iter().zip(&expected) {
            same(found, &expected.shown(select)).map_err(|what| format!("{options}: {what}"))?;
        }
        let (found, expected) = (found.len(), expected.len());
        (found == expected).then_some(()).ok_or(format!("{options}: {found} of {expected}"))
    }

    /// Each page is of its own moment; what nobody changes meanwhile comes once, and in its order.
    fn walk(
        &mut self,
        table: usize,
        top: u32,
        changes: &[(String, Change)],
    ) -> Result<(), Difference> {
        let Ok(before) = self.model.query(table, None) else { return Ok(()) };
        let options = talk::query(None, &Select::All, Some(top));
        let (mut found, mut next): (Vec<Shown>, _) = (Vec::new(), None::<String>);
        let mut changes = changes.iter();
        loop {
            let (response, token) = self.page(table, &options, next.as_deref())?;
            self.told(&response, Ok(200))?;
            let now = self.model.query(table, None).unwrap_or_default();
            for row in rows(&response, Some(top))? {
                let is_there = now.iter().any(|entity| entity.shown(&Select::All) == row);
                if !is_there {
                    return Err(format!("a page has what is not there: {row:?}"));
                }
                found.push(row);
            }
            next = token;
            if next.is_none() {
                break;
            }
            if let Some((pk, change)) = changes.next() {
                self.change(table, pk, change)?;
            }
        }
        let mut times: BTreeMap<(Option<String>, Option<String>), u32> = BTreeMap::new();
        found.iter().for_each(|row| *times.entry(row.keys.clone()).or_default() += 1);
        if let Some((keys, _)) = times.iter().find(|(_, times)| **times > 1) {
            return Err(format!("{keys:?} comes on two pages"));
        }
        let after = self.model.query(table, None).unwrap_or_default();
        let stays = |entity: &&Entity| after.contains(*entity);
        let stayed: Vec<Shown> =
            before.iter().filter(stays).map(|entity| entity.shown(&Select::All)).collect();
        self.reached.undisturbed += stayed.len() as u64;
        let came: Vec<&Shown> = found.iter().filter(|row| stayed.contains(row)).collect();
        let same = came.len() == stayed.len() && came.iter().zip(&stayed).all(|(a, b)| **a == *b);
        same.then_some(()).ok_or(format!(
            "{} of {} unchanged entities come, in pages of {top}",
            came.len(),
            stayed.len()
        ))
    }
}

impl Change {
    fn astray(&self) -> bool {
        self.astray
    }
}

/// The entities of a page of `top` at most.
fn rows(response: &Response, top: Option<u32>) -> Result<Vec<Shown>, Difference> {
    let page = talk::json(response)?;
    let page = page["value"].as_array().ok_or("no list")?;
    if page.len() > top.unwrap_or(1000) as usize {
        return Err(format!("{} entities on a page of {top:?}", page.len()));
    }
    page.iter().map(talk::shown).collect()
}

fn same(found: &Shown, expected: &Shown) -> Result<(), Difference> {
    (found == expected).then_some(()).ok_or_else(|| format!("{found:?}, not {expected:?}"))
}
