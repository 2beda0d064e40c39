//! The server over the engine's store, compiled with this crate.
//!
//! All of it is generic over its store. Without these, each program that starts a server, and most
//! of the tests are one, compiles what answers, HTTP and TLS anew; builds for users, which inline
//! across crates, do so still.

use crate::app::App;
use crate::config::Config;
use crate::http::message::{Request, Response};
use crate::net::server::{Parts, Running, Server};
use std::io;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::table::store::TableStore;

#[used]
static START: fn(Config, Arc<TableStore<Db>>, Parts) -> io::Result<Running> = Server::start_with;

#[used]
static ANSWER: fn(&App<Db>, Request) -> Response = App::answer;
