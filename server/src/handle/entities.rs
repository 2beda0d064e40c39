//! One entity: look up, insert, replace, merge, delete.

use crate::error::{
    MISSING_REQUIRED_HEADER, OVERLOADED, RESOURCE_NOT_FOUND, TABLE_NOT_FOUND, WireError,
};
use crate::handle::answer::{Answer, TakeRoom};
use crate::handle::call::{Call, Prefer};
use crate::handle::reply::{self, add_preference_applied};
use crate::http::message::Response;
use crate::odata::address::{entity_path, entity_path_bytes_max};
use crate::odata::json_in::Draft;
use crate::odata::json_out;
use crate::refusal::refusal;
use crate::route::{Change, Operation, Place};
use crate::services::base::{Services, Store};
use crate::services::entities::Found;
use std::sync::Arc;
use tabulith::options::Reach;
use tabulith::table::etag::{ETag, IfMatch};
use tabulith::table::lent::EntityRef;
use tabulith::table::rules::check_keys;
use tabulith::table::write::{Write, WriteOutcome};

/// `GET /name(PartitionKey='p',RowKey='r')`
pub fn get<S: Store>(
    services: &Services<S>,
    call: &Call,
    place: &Place,
    reach: Reach,
) -> Result<Option<Response>, WireError> {
    let select = call.params.select()?;
    let Place { table, partition_key, row_key } = place;
    let keys = (partition_key.as_str(), row_key.as_str());
    let read = |entity: EntityRef<'_>| {
        let body = json_out::entity(reply::form(call), table, select.as_ref(), &entity)?;
        Ok((body, ETag(entity.ts)))
    };
    let found = match call.as_of {
        None => services.get(call.grant()?, keys, reach, read)?,
        Some(_) if reach == Reach::Memory => Found::NeedsDisk,
        Some(at) => services.get_past(call.grant()?, keys, at, read)?,
    };
    match found {
        Found::NeedsDisk => Ok(None),
        Found::Nothing => Err(RESOURCE_NOT_FOUND),
        Found::Entity((body, etag)) => {
            let mut response = reply::json(call, 200, body);
            response.header("ETag", etag.to_string());
            Ok(Some(response))
        }
    }
}

/// Every change of one entity.
pub fn change<S: Store>(
    services: &Services<S>,
    call: &Arc<Call>,
    body: &[u8],
    reach: Reach,
    take_room: TakeRoom<'_>,
) -> Result<Answer, WireError> {
    if reach == Reach::Memory && services.counts_entities() {
        return Ok(Answer::NeedsDisk);
    }
    let write = write_of(services, call, body)?;
    if !take_room(changed_bytes_max(call, &write)) {
        return Err(OVERLOADED);
    }
    if let Operation::Insert(_) = &call.operation {
        // Its keys were in the body; all others were looked at with the address.
        let (grant, (partition_key, row_key)) = (call.grant()?, write.keys());
        grant.check_keys(partition_key, row_key)?;
        services.throttle(grant, partition_key, 1)?;
    }
    let inserted =
        matches!(call.operation, Operation::Insert(_)).then(|| write.keys().0.to_owned());
    let Some(pending) = services.write(call.grant()?, write, reach)? else {
        return Ok(Answer::NeedsDisk);
    };
    if let Some(partition_key) = inserted {
        services.count_hot(call.grant()?, &partition_key, 1);
    }
    Ok(Answer::after(call, pending, |call, outcome| Ok(changed(call, &outcome.map_err(refusal)?))))
}

/// The change that a request asks for.
pub fn write_of<S: Store>(
    services: &Services<S>,
    call: &Call,
    body: &[u8],
) -> Result<Write, WireError> {
    let condition = call.condition()?;
    match &call.operation {
        Operation::Change(place, Change::Delete) => Ok(Write::Delete {
            partition_key: place.partition_key.clone(),
            row_key: place.row_key.clone(),
            condition: condition.ok_or(MISSING_REQUIRED_HEADER)?,
        }),
        Operation::Change(place, change) => {
            let mut draft = Draft::parse(body)?;
            if let Some(fault) = draft.fault.take() {
                let keys = (place.partition_key.as_str(), place.row_key.as_str());
                return Err(first_of(services, call, Some(keys), fault));
            }
            let entity = draft.under(place.partition_key.clone(), place.row_key.clone());
            let condition = condition.unwrap_or(IfMatch::Any);
            Ok(match change {
                Change::InsertOrReplace => Write::InsertOrReplace(entity),
                Change::InsertOrMerge => Write::InsertOrMerge(entity),
                Change::Update => Write::Update(entity, condition),
                Change::Merge => Write::Merge(entity, condition),
                Change::Delete => unreachable!("handled above, without a body"),
            })
        }
        _ => {
            let mut draft = Draft::parse(body)?;
            let fault = draft.fault.take();
            let entity = draft.under_own_keys();
            let entity = entity.map_err(|error| first_of(services, call, None, error))?;
            if let Some(fault) = fault {
                let keys = (entity.partition_key.as_str(), entity.row_key.as_str());
                return Err(first_of(services, call, Some(keys), fault));
            }
            Ok(Write::Insert(entity))
        }
    }
}

/// The refusal of a body with a `fault` in its properties, or, where it has no `keys`, in those:
/// the service looks for the table first, then at the keys, and only then at properties.
fn first_of<S: Store>(
    services: &Services<S>,
    call: &Call,
    keys: Option<(&str, &str)>,
    fault: WireError,
) -> WireError {
    let check = || {
        if !services.has_table(call.grant()?)? {
            return Err(TABLE_NOT_FOUND);
        }
        let checked = keys.map(|(partition_key, row_key)| check_keys(partition_key, row_key));
        checked.unwrap_or(Ok(())).map_err(refusal)
    };
    check().err().unwrap_or(fault)
}

/// How long the answer to a change will be at most, but for what all such answers have.
pub fn changed_bytes_max(call: &Call, write: &Write) -> usize {
    let (Operation::Insert(table), Write::Insert(entity)) = (&call.operation, write) else {
        return 0;
    };
    let path_bytes = entity_path_bytes_max(table, &entity.partition_key, &entity.row_key);
    let location_bytes = call.address.base.len() + 1 + path_bytes;
    match call.prefer {
        // Told twice, as `DataServiceId` too.
        Some(Prefer::ReturnNoContent) => 2 * location_bytes,
        _ => location_bytes + json_out::inserted_bytes_max(reply::form(call), table, entity),
    }
}

/// The answer to a change that was made.
pub fn changed(call: &Call, outcome: &WriteOutcome) -> Response {
    let response = change_answered(call, outcome);
    Response { is_of_change: true, ..response }
}

fn change_answered(call: &Call, outcome: &WriteOutcome) -> Response {
    match (&call.operation, &outcome.entity) {
        (Operation::Insert(table), Some(entity)) => {
            let path = entity_path(table, &entity.partition_key, &entity.row_key);
            let location = format!("{}/{path}", call.address.base);
            let mut response = match call.prefer {
                Some(Prefer::ReturnNoContent) => {
                    let mut response = Response::new(204);
                    response.header("DataServiceId", location.clone());
                    response
                }
                _ => {
                    let mut body = json_out::inserted(reply::form(call), table, entity);
                    // Its place is as long as it is.
                    body.shrink_to_fit();
                    reply::json(call, 201, body)
                }
            };
            response.header("Location", location);
            response.header("ETag", ETag(outcome.ts).to_string());
            add_preference_applied(&mut response, call.prefer);
            response
        }
        _ => {
            let mut response = Response::new(204);
            if let Some(etag) = outcome.etag() {
                response.header("ETag", etag.to_string());
            }
            response
        }
    }
}
