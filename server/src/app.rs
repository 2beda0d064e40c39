//! The app: a request in, a response out, as plain values. Nothing here knows of sockets.
//!
//! A request passes in this order, and is refused at the first step that it fails: address,
//! version, CORS, signature, rate, verb, permission, form of the answer (all of [`App::receive`],
//! before its body is read), then size and syntax of the body, table, keys, properties, entity.

use crate::auth::bearer::{Bearer, challenge};
use crate::auth::keyring::Keyring;
use crate::auth::origin::Origin;
use crate::auth::policy::Policies;
use crate::auth::sas;
use crate::auth::verify::{Authority, authenticate};
use crate::batch::changeset::{self, Outline};
use crate::config::Config;
use crate::context::{Context, DEFAULT_VERSION, Ids, echoed, is_version};
use crate::error::{
    CORS_PREFLIGHT_FAILURE, INTERNAL_ERROR, INVALID_HEADER_VALUE, INVALID_QUERY_PARAMETER_VALUE,
    OPERATION_TIMED_OUT, OVERLOADED, REQUEST_BODY_TOO_LARGE, SERVER_BUSY, WireError,
};
use crate::faults::fault::Fault;
use crate::handle::answer::{Answer, TakeRoom};
use crate::handle::call::{Call, check_length};
use crate::handle::reply::{self, ErrorForm, is_by_front_end};
use crate::handle::{acl, entities, group, query, service, tables};
use crate::http::message::{Body, Head, Request, Response};
use crate::lab::{Asked, HEADER, Lab};
use crate::limits::{DATE_SKEW_MAX, QUERY_TIME_MAX};
use crate::observe::hot::Hot;
use crate::observe::requests::Requests;
use crate::odata::address::Address;
use crate::odata::options::Params;
use crate::properties::cors::{Cors, Question};
use crate::properties::model::CorsRule;
use crate::route::Operation;
use crate::services::base::{Bounds, Services, Store};
use crate::throttle::gate::Gates;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::table::name::AccountName;
use tabulith::table::store::TableStore;

/// The service over some store.
#[derive(Debug)]
pub struct App<S> {
    services: Services<S>,
    keyring: Arc<Keyring>,
    bearer: Option<Arc<Bearer>>,
    lab: Option<Arc<Lab>>,
    config: Config,
    requests: Arc<Requests>,
    hot: Arc<Hot>,
    ids: Ids,
    clock_is_back: AtomicBool,
}

impl<S: Store> App<S> {
    /// The service over `tables`. Request ids depend on `ids_seed` alone.
    pub fn new(
        config: Config,
        tables: Arc<TableStore<S>>,
        clock: Arc<dyn Clock>,
        ids_seed: u64,
    ) -> App<S> {
        let keyring = Arc::new(Keyring::new(config.accounts.clone()));
        let bearer = config.bearer.clone().map(|config| Arc::new(Bearer::new(config)));
        let lab = config.faults.clone().map(|rules| Arc::new(Lab::new(rules)));
        let gates = Gates::new(&config.throttling);
        let hot = Arc::new(Hot::new(config.hot_partitions));
        let bounds = Bounds {
            page_bytes_max: config.page_bytes_max(),
            group_bytes_max: config.group_bytes_max(),
            keeps_history: config.history,
        };
        let services = Services::new(tables, clock, gates, hot.clone(), lab.clone(), bounds);
        let (requests, ids) = (Arc::default(), Ids::seeded(ids_seed));
        let clock_is_back = AtomicBool::new(false);
        App { services, keyring, bearer, lab, config, requests, hot, ids, clock_is_back }
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The tables and the clock.
    pub fn services(&self) -> &Services<S> {
        &self.services
    }

    /// What was answered so far; whoever gives answers to clients counts them here.
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Which partitions are asked for most.
    pub fn hot(&self) -> &Arc<Hot> {
        &self.hot
    }

    /// The accounts that it serves, to be replaced while it does.
    pub fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Who judges bearer tokens, if any are accepted.
    pub fn bearer(&self) -> Option<&Arc<Bearer>> {
        self.bearer.as_ref()
    }

    /// Answers a request, waiting for whatever it needs.
    pub fn answer(&self, request: Request) -> Response {
        let call = match self.receive(&request.head) {
            Ok(call) => call,
            Err(response) => return response,
        };
        match self.perform(&call, &request.body, Reach::Disk) {
            Answer::Now(response) => response,
            Answer::Later(later) => later.wait(),
            Answer::NeedsDisk => reply::answered(&call, Err(OVERLOADED)),
        }
    }

    /// Admits a request by its head alone, or refuses it. Who is refused has not made the server
    /// read a body.
    pub fn receive(&self, head: &Head) -> Result<Arc<Call>, Response> {
        let received = self.receive_within(head, self.services.clock().steady(), Reach::Disk);
        received.unwrap_or_else(|| Err(self.refuse(head, &INTERNAL_ERROR)))
    }

    /// The same for one that came at `began` by the steady clock. With [`Reach::Memory`] nothing
    /// where settings of its account or its table are not in memory.
    pub fn receive_within(
        &self,
        head: &Head,
        began: Duration,
        reach: Reach,
    ) -> Option<Result<Arc<Call>, Response>> {
        let params = Params::parse(head.query());
        let mut context = self.context(head, params.as_ref().ok(), began);
        let secure = Origin::of(head, &self.config.trusted_proxies).secure;
        let address = Address::parse(head, secure);
        let account = address.as_ref().ok().and_then(|address| self.served(&address.account));
        let rules = match account {
            Some(account) => Some(self.services.cors_rules(&account, reach)?),
            None => None,
        };
        let rules = rules.as_ref().map_or(&[][..], |properties| &properties.cors);
        if head.method != "OPTIONS" {
            context.cors = Cors::of(rules, &head.method, head.headers.get("Origin"));
        }
        context.speaks_xml = params.as_ref().is_ok_and(Params::is_for_settings);
        let policies = self.services.policies_within(reach);
        let judge = || {
            let refused = |error: WireError| self.refused(head, &context, &error);
            let known = address.and_then(|address| Ok((address, params?)));
            let known = known.and_then(|known| check_version(head).map(|()| known));
            let (address, params) = known.map_err(refused)?;
            if head.method == "OPTIONS" {
                let answer = preflight(head, rules).map_err(refused)?;
                return Err(reply::finished(&context, answer));
            }
            let call = self.admit(head, address, params, &context, &policies);
            call.map(Arc::new).map_err(refused)
        };
        let received = judge();
        (!policies.needs_disk()).then_some(received)
    }

    /// The answer to a request that nobody could look at.
    pub fn refuse(&self, head: &Head, error: &WireError) -> Response {
        let params = Params::parse(head.query());
        let began = self.services.clock().steady();
        self.refused(head, &self.context(head, params.as_ref().ok(), began), error)
    }

    /// The answer to one that is not let in.
    fn refused(&self, head: &Head, context: &Context, error: &WireError) -> Response {
        let params = Params::parse(head.query()).unwrap_or_default();
        let form = ErrorForm::of(head, &params, error);
        let mut context = context.clone();
        if is_by_front_end(error) {
            context.version.clear();
        }
        let mut response = reply::error_response(&context, form, error);
        if error.status == 401 {
            response.header("WWW-Authenticate", challenge(self.bearer.as_deref()));
        }
        reply::finished(&context, response)
    }

    /// Does what an admitted request asks for. With [`Reach::Memory`] a point read or a change of
    /// one entity may come back as [`Answer::NeedsDisk`]; everything else may wait for the disk.
    pub fn perform(&self, call: &Arc<Call>, body: &Body, reach: Reach) -> Answer {
        self.perform_with_room(call, (body, None), reach, &|_| true)
    }

    /// The same where answers to changes, which are given in any case, must have room: a change for
    /// whose answer there is none is not made. The body of a batch is read unless its outline is
    /// there.
    pub fn perform_with_room(
        &self,
        call: &Arc<Call>,
        (body, outline): (&Body, Option<&Outline>),
        reach: Reach,
        take_room: TakeRoom<'_>,
    ) -> Answer {
        let answer = match body {
            Body::TooLarge => Err(REQUEST_BODY_TOO_LARGE),
            Body::Empty => self.dispatch(call, (&[], outline), reach, take_room),
            Body::Whole(body) => self.dispatch(call, (body, outline), reach, take_room),
        };
        answer.unwrap_or_else(|error| Answer::Now(reply::answered(call, Err(error))))
    }

    /// The answer to an admitted request that the server has no room for.
    pub fn busy(&self, call: &Call) -> Response {
        reply::answered(call, Err(OVERLOADED))
    }

    /// The answer to a request whose time is over. What it asked for may still happen.
    pub fn timed_out(&self, call: &Call) -> Response {
        reply::answered(call, Err(OPERATION_TIMED_OUT))
    }

    /// How long an admitted request may still take. A query whose own time is over answers where
    /// it stands, and gets the time to do so.
    pub fn time_left(&self, call: &Call) -> Duration {
        let left = call.time_left(self.services.clock().steady());
        let may_be_short = matches!(call.operation, Operation::Query(_));
        if may_be_short { left + QUERY_TIME_MAX } else { left }
    }

    fn context(&self, head: &Head, params: Option<&Params>, began: Duration) -> Context {
        Context {
            request_id: self.ids.next(),
            client_request_id: echoed(head.headers.get("x-ms-client-request-id")),
            version: version(head, params).unwrap_or(DEFAULT_VERSION).to_owned(),
            received: CommitTs(self.services.clock().wall_ticks()),
            started: began,
            ..Context::default()
        }
    }

    /// The time `now` of the clock, unless that stands further behind the newest commit than a
    /// request's date may be off: what has expired must not count again because a clock was set
    /// back. Said once each way. [`Config::clock_believed`] has it count all the same.
    fn believed(&self, now: CommitTs) -> Option<CommitTs> {
        let behind = self.services.newest().0.saturating_sub(now.0) / CommitTs::TICKS_PER_SECOND;
        let is_sound = behind <= DATE_SKEW_MAX.as_secs();
        if is_sound == self.clock_is_back.load(Ordering::Relaxed)
            && self.clock_is_back.swap(!is_sound, Ordering::Relaxed) == is_sound
        {
            match is_sound {
                true => tracing::warn!("the clock is with the newest commit again"),
                false if self.config.clock_believed => tracing::error!(
                    behind_seconds = behind,
                    "the clock stands behind the newest commit: what had expired counts again"
                ),
                false => tracing::error!(
                    behind_seconds = behind,
                    "the clock stands behind the newest commit: what has an end or a date is refused"
                ),
            }
        }
        (is_sound || self.config.clock_believed).then_some(now)
    }

    /// The account of that name, if it is served.
    fn served(&self, account: &str) -> Option<AccountName> {
        let is_served = self.keyring.accounts().keys(account).is_served();
        AccountName::parse(account).ok().filter(|_| is_served)
    }

    fn admit(
        &self,
        head: &Head,
        address: Address,
        params: Params,
        context: &Context,
        policies: &dyn Policies,
    ) -> Result<Call, WireError> {
        if params.get("api-version").is_some_and(|version| !is_version(version)) {
            return Err(INVALID_QUERY_PARAMETER_VALUE);
        }
        let authority = Authority {
            accounts: &self.keyring.accounts(),
            policies,
            bearer: self.bearer.as_deref(),
            version: &context.version,
            trusted_proxies: &self.config.trusted_proxies,
            now: self.believed(context.received),
            date_checked: self.config.date_checked,
        };
        let principal = authenticate(head, &address, &params, &authority)?;
        self.services.throttle_request(&address.account)?;
        let mut call =
            Call::open(head, address, params, Arc::new(principal), Arc::new(context.clone()))?;
        check_length(head, &call.operation)?;
        if let Operation::Get(place) | Operation::Change(place, _) = &call.operation {
            self.services.charge_for(call.grant()?, place)?;
        }
        if let Some(lab) = &self.lab {
            call.fault = lab.decide(Asked {
                account: &call.address.account,
                operation: &call.operation,
                goes_on: call.params.get("NextPartitionKey").is_some(),
                header: head.headers.get(HEADER),
            })?;
            if let Some(Fault::Busy { retry_after }) = call.fault {
                Arc::make_mut(&mut call.context).retry_after = retry_after;
            }
        }
        Ok(call)
    }

    fn dispatch(
        &self,
        call: &Arc<Call>,
        (body, outline): (&[u8], Option<&Outline>),
        reach: Reach,
        take_room: TakeRoom<'_>,
    ) -> Result<Answer, WireError> {
        // A body may have taken its time: the key that its head was signed with may be gone.
        let services = &self.services;
        let now = self.believed(CommitTs(services.clock().wall_ticks()));
        call.check_sender(&self.keyring.accounts(), now)?;
        if let Some(Fault::Busy { .. }) = call.fault {
            return Err(SERVER_BUSY);
        }
        if call.fault == Some(Fault::TimedOut) || self.time_left(call).is_zero() {
            return Err(OPERATION_TIMED_OUT);
        }
        let response = match &call.operation {
            Operation::Insert(_) | Operation::Change(..) => {
                return entities::change(services, call, body, reach, take_room);
            }
            Operation::Batch => {
                let reading = match outline {
                    Some(outline) => outline.reading(body),
                    None => changeset::read(&call.content_type, body),
                };
                return group::batch(services, &self.ids, call, reading, take_room);
            }
            Operation::Get(place) => match entities::get(services, call, place, reach)? {
                Some(response) => response,
                None => return Ok(Answer::NeedsDisk),
            },
            Operation::Query(table) => query::query(services, call, table)?,
            Operation::ListTables => tables::list(services, call)?,
            Operation::GetTable(_) => tables::show(services, call)?,
            Operation::CreateTable => tables::create(services, call, body)?,
            Operation::DeleteTable(_) => tables::delete(services, call)?,
            Operation::Document => service::document(services, call)?,
            Operation::Metadata => service::metadata(services, call)?,
            Operation::GetProperties => service::properties(services, call)?,
            Operation::SetProperties => service::set_properties(services, call, body)?,
            Operation::GetStats => service::stats(services, call)?,
            Operation::GetAcl(_) => acl::show(services, call)?,
            Operation::SetAcl(_) => acl::replace(services, call, body)?,
        };
        Ok(Answer::Now(reply::finished(&call.context, response)))
    }
}

/// The version that a request is of: the one in its address, that of its header, or that of the
/// shared access signature it comes by.
fn version<'a>(head: &'a Head, params: Option<&'a Params>) -> Option<&'a str> {
    let param = |name| params.and_then(|params| params.get(name));
    let is_signed = head.headers.get("Authorization").is_none() && params.is_some_and(sas::is_in);
    let given =
        [param("api-version"), head.headers.get("x-ms-version"), param("sv").filter(|_| is_signed)];
    given.into_iter().flatten().find(|version| is_version(version))
}

fn check_version(head: &Head) -> Result<(), WireError> {
    let is_none = head.headers.get("x-ms-version").is_some_and(|version| !is_version(version));
    if is_none { Err(INVALID_HEADER_VALUE) } else { Ok(()) }
}

/// Answers what a browser asks before a request. Whether what it is about exists is not looked at.
fn preflight(head: &Head, rules: &[CorsRule]) -> Result<Response, WireError> {
    let header = |name| head.headers.get(name).filter(|value| !value.is_empty());
    let question = header("Origin").zip(header("Access-Control-Request-Method"));
    let (origin, method) =
        question.ok_or(INVALID_HEADER_VALUE.saying("A required CORS header is not present."))?;
    let headers = header("Access-Control-Request-Headers");
    Question { origin, method, headers }.answer(rules).ok_or(CORS_PREFLIGHT_FAILURE)
}
