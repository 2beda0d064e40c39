//! The server over loopback: point gets and durable inserts, beside a server that says hello.

use crate::case::{Case, Plan};
use crate::http::{Call, Client};
use crate::rows;
use crate::serve::{Served, TABLE};
use anyhow::{Context as _, Result};
use hyper::{Method, StatusCode};
use std::rc::Rc;
use tabulith::env::rng::Rng;

/// Entities served at scale 1.
const ENTITIES: u64 = 100_000;

const CONNECTIONS: usize = 32;

/// Hello, get, insert.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let hello = Served::start(&["hello"])?;
    let entities = plan.rows(ENTITIES);
    let dir = plan.folder("server")?;
    let dir = dir.to_str().context("a folder's name that is no text")?;
    // Either of its cases may be left out, and it serves until the last of them is gone.
    let tables = Rc::new(Served::start(&["tables", dir, &entities.to_string()])?);
    let client = |server: &Served| Client {
        addr: server.addr,
        connections: CONNECTIONS,
        server: server.id(),
    };
    let (to_hello, to_tables) = (client(&hello), client(&tables));
    let seed = plan.seed;
    let get = move |connection: usize, sent: u64| {
        let mut rng = Rng::seeded(seed ^ (connection as u64) << 40 ^ sent);
        let (pk, rk) = rows::keys(rng.below(entities));
        let path = format!("/{TABLE}(PartitionKey='{pk}',RowKey='{rk}')");
        Call { method: Method::GET, path, body: String::new(), expected: StatusCode::OK }
    };
    let get_client = to_tables.clone();
    let tables_for_get = Rc::clone(&tables);
    let mut round = 0;
    Ok(vec![
        Case::new("server: bare hyper, hello", "requests/s", move |plan| {
            let _alive = &hello;
            to_hello.run(plan.span, get)
        }),
        Case::new("server: get of one entity", "requests/s", move |plan| {
            let _alive = &tables_for_get;
            get_client.run(plan.span, get)
        }),
        Case::new("server: insert of one entity, durable", "requests/s", move |plan| {
            let _alive = &tables;
            round += 1;
            let round = round;
            to_tables.run(plan.span, move |connection, sent| insert(round, connection, sent))
        }),
    ])
}

/// An entity that no other call inserts.
fn insert(round: usize, connection: usize, sent: u64) -> Call {
    let text = "a text of some length";
    let properties: String = (0..10)
        .map(|n| match n % 3 {
            0 => format!(r#","Property{n}":{n}"#),
            1 => format!(r#","Property{n}":{n}.25"#),
            _ => format!(r#","Property{n}":"{text} {n}""#),
        })
        .collect();
    let keys =
        format!(r#""PartitionKey":"insert-{connection:02}","RowKey":"{round:03}-{sent:010}""#);
    Call {
        method: Method::POST,
        path: format!("/{TABLE}"),
        body: format!("{{{keys}{properties}}}"),
        expected: StatusCode::NO_CONTENT,
    }
}
