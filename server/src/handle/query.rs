//! `GET /name()`: a page of entities, and where the next one starts.

use crate::error::WireError;
use crate::faults::fault::Fault;
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::Response;
use crate::odata::literal::percent_encoded;
use crate::odata::options::token_encoded;
use crate::odata::{json_out, parser};
use crate::services::base::{Services, Store};
use crate::services::entities::ReadEntities;
use std::ops::ControlFlow;
use tabulith::table::page::{Blocks, Continuation};

/// Characters of a plan that stand in its header as they are.
const PLAN_PLAIN: &str = " !\"#$&'()*+,/:;<=>?@[]^`{|}";

/// Answers a query of `table`. With `x-tabulith-explain: true` the answer also tells the plan and
/// the rows that were read for it, and where zones were asked the blocks that were read and spared;
/// not to who may see some of the keys alone, as such figures may hang on what lies beside them.
pub fn query<S: Store>(
    services: &Services<S>,
    call: &Call,
    table: &str,
) -> Result<Response, WireError> {
    let select = call.params.select()?;
    let read = ReadEntities {
        filter: parser::parse(call.params.get("$filter").unwrap_or_default())?,
        top: call.params.top()?,
        from: call.params.next_entity()?,
        time: call.time_left(services.clock().steady()),
        as_of: call.as_of,
    };
    let begun_at = read.from.clone();
    let empty = call.fault == Some(Fault::EmptyPage);
    let mut has_one = false; // Without that the next page would begin, and end, where this one does.
    let mut list = json_out::Entities::new(reply::form(call), table, select.as_ref());
    let mut page = services.query(call.grant()?, read, |entity| {
        if has_one && list.bytes() >= services.page_bytes_max() {
            return Ok(ControlFlow::Break(()));
        }
        has_one = true;
        if !empty {
            list.push(&entity)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if empty {
        // Nothing comes before the empty keys.
        let (partition_key, row_key) = begun_at.unwrap_or_default();
        page.next = Some(Continuation { partition_key, row_key });
    }
    let body = list.finish();
    let mut response = reply::json(call, 200, body);
    if call.explain && call.grant()?.range().is_everything() {
        // A header holds plain ASCII; keys in a plan may hold anything.
        response.header("x-tabulith-plan", percent_encoded(&page.plan.to_string(), PLAN_PLAIN));
        response.header("x-tabulith-rows-examined", page.examined.to_string());
        let Blocks { read, skipped } = page.blocks;
        if read + skipped > 0 {
            response.header("x-tabulith-blocks-read", read.to_string());
            response.header("x-tabulith-blocks-skipped", skipped.to_string());
        }
    }
    if let Some(next) = page.next {
        // Even an empty key has a token with text in it: some clients drop empty headers.
        response.header("x-ms-continuation-NextPartitionKey", token_encoded(&next.partition_key));
        response.header("x-ms-continuation-NextRowKey", token_encoded(&next.row_key));
    }
    Ok(response)
}
