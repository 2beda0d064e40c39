//! Addresses and options of requests: any text is a resource or refused, and the address of a
//! resource means that resource.
//!
//! Input: an authority up to the first line end, then a request target.

use crate::input::text;
use tabulith_server::http::message::Head;
use tabulith_server::odata::address::{Address, Resource, entity_path, table_path};
use tabulith_server::odata::literal::{Plus, percent_decoded, percent_encoded};
use tabulith_server::odata::options::{Params, negotiate};
use tabulith_server::route::{route, verb};

/// Reads the input as the address of a request.
pub fn address(data: &[u8]) {
    let given = text(data);
    let (authority, target) = given.split_once('\n').unwrap_or(("localhost", &given));
    let head =
        Head { target: target.to_owned(), authority: authority.to_owned(), ..Head::default() };
    escaped_and_back(target);
    let params = Params::parse(head.query());
    if let Ok(params) = &params {
        options(params);
    }
    let Ok(address) = Address::parse(&head, head.secure) else { return };
    if let Ok(params) = &params {
        for method in ["GET", "POST", "PUT", "MERGE", "PATCH", "DELETE", "HEAD"] {
            let head = Head { method: method.to_owned(), ..head.clone() };
            let verb = verb(&head).expect("no verb is tunnelled");
            let _ = route(&verb, &address, params, &head);
        }
    }
    means_itself(&address);
}

fn escaped_and_back(text: &str) {
    let escaped = percent_encoded(text, "/");
    assert_eq!(percent_decoded(&escaped, Plus::IsPlus).as_deref(), Some(text));
    assert_eq!(percent_decoded(&escaped, Plus::IsBlank).as_deref(), Some(text));
}

fn options(params: &Params) {
    if let Ok(top) = params.top() {
        assert!(top <= 1000, "a page of {top}");
    }
    if let Ok(Some(select)) = params.select() {
        assert!(select.names.is_none_or(|names| !names.is_empty() && names.len() <= 255));
    }
    let _ = (params.check(), params.next_entity(), params.next_table());
    let _ = negotiate(params.get("$format"), params.get("a"));
}

/// The path that is written for a resource is read as the same resource.
fn means_itself(address: &Address) {
    let path = match &address.resource {
        Resource::Table(table) => table_path(table),
        Resource::Entity { table, partition_key, row_key } => {
            assert!(!partition_key.contains('/') && !row_key.contains('/'));
            entity_path(table, partition_key, row_key)
        }
        _ => return,
    };
    // The name of a table is any text here; only names that are names stand in paths unescaped.
    let is_name = |table: &String| table.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (Resource::Table(table) | Resource::Entity { table, .. }) = &address.resource else {
        return;
    };
    if is_name(table) {
        let again = Resource::parse(&path, &address.account);
        assert_eq!(again.as_ref(), Ok(&address.resource), "{path}");
    }
}
