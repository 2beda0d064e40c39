//! Runs a list of operations against the service and the model side by side.

use crate::common::Sas;
use crate::model::{Entity, Refusal, Shown, name_of, partition_of};
use crate::ops::{Change, Compare, Op, Policy, Properties, Select, Verb};
use crate::talk::{self, Asked};
use crate::way::{ALL, Difference, Form, Look, Site, Way};
use serde_json::Value;
use std::collections::BTreeMap;
use tabulith::table::value::DateTime;
use tabulith_server::http::message::Response;

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
    pub(crate) past: u64,
    pub(crate) power_losses: u64,
    /// Queries that a stored policy gave leave to.
    pub(crate) by_policy: u64,
    /// Entities that one saw who may see a stretch of keys alone.
    pub(crate) signed: u64,
    /// Kills between two pages of a query.
    pub(crate) kills_between: u64,
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
        self.by_policy += other.by_policy;
        self.signed += other.signed;
        self.kills_between += other.kills_between;
    }
}

/// For how many days figures by the hour are kept where nobody has said anything.
const DAYS_DEFAULT: u16 = 7;

struct Run {
    site: Site,
    reached: Reached,
}

/// Runs `ops` on a service of their own; the first difference ends it.
pub(crate) fn run(ops: &[Op], options: usize) -> Result<Reached, Difference> {
    let mut run = Run { site: Site::start(options)?, reached: Reached::default() };
    run.all(ops)?;
    let Run { site, reached } = run;
    let Site { entities, past, power_losses, .. } = site;
    let (flushes, scrubbed) = (site.house.flushes(), site.house.scrubbed());
    Ok(Reached { entities, past, power_losses, flushes, scrubbed, ..reached })
}

impl Run {
    fn send(&mut self, asked: &Asked) -> Response {
        self.reached.requests += 1;
        let response = self.site.house.send(asked);
        self.reached.refused += u64::from(response.status >= 400);
        response
    }

    fn ask(&mut self, method: &'static str, path: &str) -> Response {
        self.ask_in(Form::Plain, method, path, None)
    }

    fn ask_in(
        &mut self,
        form: Form,
        method: &'static str,
        path: &str,
        leave: Option<&Sas>,
    ) -> Response {
        let metadata = if form == Form::Bare { "nometadata" } else { "minimalmetadata" };
        let accept = ("Accept", format!("application/json;odata={metadata}"));
        let as_of = self.site.as_of.map(|at| ("x-tabulith-as-of", DateTime::from(at).to_string()));
        let headers = [Some(accept), as_of].into_iter().flatten().collect();
        let mut path = path.to_owned();
        if let Some(leave) = leave {
            let joint = if path.contains('?') { '&' } else { '?' };
            path = format!("{path}{joint}{}", leave.token());
        }
        let is_signed = leave.is_some();
        self.send(&Asked { method, path, headers, body: String::new(), is_signed })
    }

    fn xml(&mut self, method: &'static str, path: &str, body: String) -> Response {
        let headers = vec![("Content-Type", "application/xml".to_owned())];
        self.send(&Asked { method, path: path.to_owned(), headers, body, is_signed: false })
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

    /// An ETag that comes after all others.
    fn rises(&self, etag: Option<u64>) -> Result<u64, Difference> {
        let (etag, newest) = (etag.ok_or("no ETag")?, self.site.model.newest());
        (etag > newest).then_some(etag).ok_or(format!("ETag {etag} does not come after {newest}"))
    }

    /// One page, and where the next one begins.
    fn page(
        &mut self,
        table: usize,
        look: &Look<'_>,
        next: Option<&str>,
    ) -> Result<(Response, Option<String>), Difference> {
        let options = talk::query(look.filter, look.select, look.top);
        let path = format!("/{}()?{options}&{}", name_of(table), next.unwrap_or_default());
        let by_stretch = look.stretch.map(|stretch| talk::leave_for(table, stretch));
        let leave = look.policy.map(|id| talk::leave_by(table, id)).or(by_stretch);
        let path = path.trim_end_matches(['&', '?']);
        let response = self.ask_in(look.form, "GET", path, leave.as_ref());
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
}

impl Way for Run {
    const NAME: &'static str = "HTTP";

    fn site(&mut self) -> &mut Site {
        &mut self.site
    }

    fn create(&mut self, table: usize, is_shown: bool) -> Result<(), Difference> {
        let name = name_of(table);
        let prefer = if is_shown { "return-content" } else { "return-no-content" };
        let asked = Asked {
            method: "POST",
            path: "/Tables".to_owned(),
            headers: vec![
                ("Content-Type", "application/json".to_owned()),
                ("Prefer", prefer.to_owned()),
            ],
            body: format!("{{\"TableName\":\"{name}\"}}"),
            is_signed: false,
        };
        let response = self.send(&asked);
        let status = if is_shown { 201 } else { 204 };
        let expected = self.site.model.create(table);
        if self.told(&response, expected.map(|()| status))? && is_shown {
            return is_table(&response, &name);
        }
        Ok(())
    }

    fn find(&mut self, table: usize) -> Result<(), Difference> {
        let response = self.ask("GET", &format!("/Tables('{}')", name_of(table)));
        let expected = self.site.model.find(table);
        match self.told(&response, expected.as_ref().map(|_| 200).map_err(|refusal| *refusal))? {
            true => is_table(&response, &name_of(table)),
            false => Ok(()),
        }
    }

    fn drop_table(&mut self, table: usize) -> Result<(), Difference> {
        let path = format!("/Tables('{}')", name_of(table));
        let response = self.ask("DELETE", &path);
        let expected = self.site.model.drop_table(table);
        self.told(&response, expected.map(|()| 204)).map(drop)
    }

    fn list(&mut self, only: Option<(Compare, usize)>, top: Option<u32>) -> Result<(), Difference> {
        let filter = only.map(|(op, table)| talk::name_filter(op, &name_of(table)));
        let (mut names, mut next) = (Vec::new(), None::<String>);
        loop {
            let mut options = Vec::new();
            options.extend(filter.clone());
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
        let expected = match only {
            Some((op, table)) => self.site.model.some_names(op, table),
            None => self.site.model.names(),
        };
        (names == expected).then_some(()).ok_or(format!("tables {names:?}, not {expected:?}"))
    }

    fn change(&mut self, table: usize, pk: &str, change: &Change) -> Result<(), Difference> {
        let tag = self.site.model.tag(table, pk, change);
        let response = self.send(&talk::change(table, pk, change, tag));
        let expected = self.site.model.judge(table, pk, change);
        let shows = change.verb == Verb::InsertAndShow;
        let status = if shows { 201 } else { 204 };
        if !self.told(&response, expected.as_ref().map(|_| status).map_err(|refusal| *refusal))? {
            return Ok(());
        }
        let left = expected.unwrap_or_default();
        let ts = match left {
            Some(_) => self.rises(response.get("ETag").and_then(talk::ticks_of_etag))?,
            None => self.site.model.newest() + 1, // Nobody is told.
        };
        self.site.model.commit(table, pk, ts, &[(change.rk.clone(), left)]);
        if shows {
            let entity =
                self.site.model.get(table, pk, &change.rk).map_err(|_| "it is not there")?;
            let found = talk::shown(&talk::json(&response)?, false)?;
            return same(&found, &entity.shown(&Select::All));
        }
        Ok(())
    }

    fn batch(&mut self, table: usize, pk: &str, changes: &[Change]) -> Result<(), Difference> {
        let with_tag = |change| {
            let pk = partition_of(pk, Change::astray(change));
            (change, self.site.model.tag(table, &pk, change))
        };
        let tagged: Vec<_> = changes.iter().map(with_tag).collect();
        let response = self.send(&talk::batch(table, pk, &tagged));
        self.told(&response, Ok(202))?;
        let parts = talk::parts(&response);
        let left = match self.site.model.judge_all(table, pk, changes) {
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
            None => self.site.model.newest() + 1,
        };
        if let Some((part, _)) = etags.find(|(part, _)| part.etag != Some(ts)) {
            return Err(format!("one commit, and ETags {ts} and {:?}", part.etag));
        }
        let own = partition_of(pk, changes.first().is_some_and(Change::astray));
        let left: Vec<(String, Option<Properties>)> =
            changes.iter().map(|change| change.rk.clone()).zip(left).collect();
        self.site.model.commit(table, &own, ts, &left);
        Ok(())
    }

    fn get(
        &mut self,
        table: usize,
        [pk, rk]: [&str; 2],
        select: &Select,
        form: Form,
    ) -> Result<(), Difference> {
        let options = talk::query(None, select, None);
        let path = format!("{}?{options}", talk::entity_path(table, pk, rk));
        let response = match form {
            Form::InBatch => {
                let response = self.send(&talk::batch_of(path.trim_end_matches('?')));
                self.told(&response, Ok(202))?;
                talk::part_of(&response)?
            }
            form => self.ask_in(form, "GET", &path, None),
        };
        let expected = self.site.model.get(table, pk, rk);
        let status = expected.as_ref().map(|_| 200).map_err(|refusal| *refusal);
        if !self.told(&response, status)? {
            return Ok(());
        }
        let expected = expected.map_err(|refusal| format!("{refusal:?}"))?.shown(select);
        if response.get("ETag").and_then(talk::ticks_of_etag) != Some(expected.etag) {
            return Err(format!("ETag {:?}, not {}", response.get("ETag"), expected.etag));
        }
        self.site.entities += 1;
        let found = talk::shown(&talk::json(&response)?, form == Form::Bare)?;
        same(&found, &in_form(expected, form))
    }

    fn query(&mut self, table: usize, look: Look<'_>) -> Result<(), Difference> {
        let expected = match look.policy.map(|id| self.site.model.may_read(table, id)) {
            Some(Err(refusal)) => Err(refusal),
            _ => self.site.model.query(table, look.whole_filter().as_ref()),
        };
        let status = expected.as_ref().map(|_| 200).map_err(|refusal| *refusal);
        let (mut found, mut next) = (Vec::new(), None::<String>);
        loop {
            let (response, token) = self.page(table, &look, next.as_deref())?;
            if !self.told(&response, status)? {
                return Ok(());
            }
            found.extend(rows(&response, look.top, look.form)?);
            next = token;
            if next.is_none() {
                break;
            }
            if let Some(options) = look.killed {
                self.reached.kills_between += 1;
                self.site.house.endure(&Op::Kill { options })?;
            }
        }
        let expected = expected.map_err(|refusal| format!("{refusal:?}"))?;
        self.site.entities += expected.len() as u64;
        self.reached.by_policy += u64::from(look.policy.is_some());
        self.reached.signed += look.stretch.map_or(0, |_| expected.len() as u64);
        for (found, expected) in found.iter().zip(&expected) {
            let expected = in_form(expected.shown(look.select), look.form);
            same(found, &expected).map_err(|what| format!("{look:?}: {what}"))?;
        }
        let (found, expected) = (found.len(), expected.len());
        (found == expected).then_some(()).ok_or(format!("{look:?}: {found} of {expected}"))
    }

    /// Each page is of its own moment; what nobody changes meanwhile comes once, and in its order.
    fn walk(
        &mut self,
        table: usize,
        top: u32,
        changes: &[(String, Change)],
    ) -> Result<(), Difference> {
        let Ok(before) = self.site.model.query(table, None) else { return Ok(()) };
        let look = Look { top: Some(top), ..ALL };
        let (mut found, mut next): (Vec<Shown>, _) = (Vec::new(), None::<String>);
        let mut changes = changes.iter();
        loop {
            let (response, token) = self.page(table, &look, next.as_deref())?;
            self.told(&response, Ok(200))?;
            let now = self.site.model.query(table, None).unwrap_or_default();
            for row in rows(&response, Some(top), Form::Plain)? {
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
        let after = self.site.model.query(table, None).unwrap_or_default();
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

    fn set_policies(&mut self, table: usize, policies: &[Policy]) -> Result<(), Difference> {
        let path = format!("/{}?comp=acl", name_of(table));
        let response = self.xml("PUT", &path, talk::policies(policies));
        let expected = self.site.model.set_policies(table, policies);
        self.told(&response, expected.map(|()| 204)).map(drop)
    }

    fn policies(&mut self, table: usize) -> Result<(), Difference> {
        let response = self.xml("GET", &format!("/{}?comp=acl", name_of(table)), String::new());
        let expected = self.site.model.policies(table);
        let status = expected.as_ref().map(|_| 200).map_err(|refusal| *refusal);
        if !self.told(&response, status)? {
            return Ok(());
        }
        let expected = talk::policies_shown(&expected.unwrap_or_default());
        let found = String::from_utf8_lossy(&response.body);
        (found == expected).then_some(()).ok_or(format!("{found}, not {expected}"))
    }

    fn set_properties(&mut self, days: u16) -> Result<(), Difference> {
        let metrics = talk::hour_metrics(days);
        let body = format!("<StorageServiceProperties>{metrics}</StorageServiceProperties>");
        let response = self.xml("PUT", "/?restype=service&comp=properties", body);
        self.site.model.set_days(days);
        self.told(&response, Ok(202)).map(drop)
    }

    fn properties(&mut self) -> Result<(), Difference> {
        let response = self.xml("GET", "/?restype=service&comp=properties", String::new());
        self.told(&response, Ok(200))?;
        let expected = talk::hour_metrics(self.site.model.days().unwrap_or(DAYS_DEFAULT));
        let found = String::from_utf8_lossy(&response.body);
        found.contains(&expected).then_some(()).ok_or(format!("{found}, not with {expected}"))
    }
}

impl Change {
    fn astray(&self) -> bool {
        self.astray
    }
}

/// The entities of a page of `top` at most.
fn rows(response: &Response, top: Option<u32>, form: Form) -> Result<Vec<Shown>, Difference> {
    let page = talk::json(response)?;
    let page = page["value"].as_array().ok_or("no list")?;
    if page.len() > top.unwrap_or(1000) as usize {
        return Err(format!("{} entities on a page of {top:?}", page.len()));
    }
    page.iter().map(|one| talk::shown(one, form == Form::Bare)).collect()
}

/// What is shown in a form: a bare one has no ETag.
fn in_form(shown: Shown, form: Form) -> Shown {
    Shown { etag: if form == Form::Bare { 0 } else { shown.etag }, ..shown }
}

fn is_table(response: &Response, name: &str) -> Result<(), Difference> {
    let body = talk::json(response)?;
    (body["TableName"] == name).then_some(()).ok_or(format!("{body}, not {name}"))
}

fn same(found: &Shown, expected: &Shown) -> Result<(), Difference> {
    (found == expected).then_some(()).ok_or_else(|| format!("{found:?}, not {expected:?}"))
}
