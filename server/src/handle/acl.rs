//! `?comp=acl`: a table's stored policies, shown and replaced.

use crate::auth::policy;
use crate::error::WireError;
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::Response;
use crate::services::base::{Services, Store};

/// `GET /name?comp=acl`
pub fn show<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    let policies = services.policies(call.grant()?)?;
    Ok(reply::xml(200, policy::written(&policies)))
}

/// `PUT /name?comp=acl`
pub fn replace<S: Store>(
    services: &Services<S>,
    call: &Call,
    body: &[u8],
) -> Result<Response, WireError> {
    services.set_policies(call.grant()?, policy::read(body)?)?;
    Ok(Response::new(204))
}
