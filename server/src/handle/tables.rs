//! Tables: list, show, make, remove.

use crate::error::WireError;
use crate::faults::fault::Fault;
use crate::handle::call::{Call, Prefer};
use crate::handle::reply::{self, add_preference_applied};
use crate::http::message::Response;
use crate::odata::address::table_path;
use crate::odata::options::table_token_encoded;
use crate::odata::{json_in, json_out, parser};
use crate::services::base::{Services, Store};
use crate::services::tables::ListTables;
use std::time::Duration;

/// `GET /Tables`
pub fn list<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    let list = ListTables {
        filter: parser::parse(call.params.get("$filter").unwrap_or_default())?,
        top: call.params.top()?,
        from: call.params.next_table()?,
        as_of: call.as_of,
    };
    call.params.select()?;
    let (page, created) = services.list_tables(call.grant()?, list)?;
    let names = page.tables.iter().map(|table| table.name.as_str());
    let mut response = reply::json(call, 200, json_out::tables(reply::form(call), names));
    if let Some(next) = page.next {
        let token = table_token_encoded(&next, created.unwrap_or_default());
        response.header("x-ms-continuation-NextTableName", token);
    }
    Ok(response)
}

/// `GET /Tables('name')`
pub fn show<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    let name = services.get_table(call.grant()?, call.as_of)?;
    Ok(reply::json(call, 200, json_out::table(reply::form(call), &name)))
}

/// `POST /Tables`
pub fn create<S: Store>(
    services: &Services<S>,
    call: &Call,
    body: &[u8],
) -> Result<Response, WireError> {
    let name = json_in::table_name(body)?;
    services.create_table(call.grant()?, &name)?;
    let location = format!("{}/{}", call.address.base, table_path(&name));
    let mut response = match call.prefer {
        Some(Prefer::ReturnNoContent) => {
            let mut response = Response::new(204);
            response.header("DataServiceId", location.clone());
            response
        }
        _ => reply::json(call, 201, json_out::table(reply::form(call), &name)),
    };
    response.header("Location", location);
    add_preference_applied(&mut response, call.prefer);
    Ok(response)
}

/// `DELETE /Tables('name')`
pub fn delete<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    let going = match call.fault {
        Some(Fault::BeingDeleted { seconds }) => Some(Duration::from_secs(seconds)),
        _ => None,
    };
    services.delete_table(call.grant()?, going)?;
    Ok(Response::new(204))
}
