//! The other side of the server's lines: processes of their own, so that their CPU time is known.
//!
//! The baseline starts itself with the argument `serve`; such a process prints its address and
//! serves until its standard input ends.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::Subcommand;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::table::entity::Entity;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;
use tabulith::table::value::Value;
use tabulith::table::write::Write;
use tabulith_server::config::DEVELOPMENT_ACCOUNT;
use tabulith_server::{Config, Server};
use tokio::net::TcpListener;

use crate::rows::{self, PARTITION_ROWS};

/// The table that is served.
pub const TABLE: &str = "bench";

/// What hyper writes before a body: the status, the length and the date.
const HEAD_BYTES: usize = 77;

/// A server that ends when this is dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    input: Option<ChildStdin>,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Served {
    /// Starts this program again as the server that `args` say.
    pub fn start(args: &[&str]) -> Result<Served> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(program)
            .arg("serve")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a server")?;
        let input = child.stdin.take();
        let mut line = String::new();
        let output = child.stdout.take().context("a server without output")?;
        BufReader::new(output).read_line(&mut line)?;
        let addr = line.trim().parse().with_context(|| format!("a server says {line:?}"))?;
        Ok(Served { child, input, addr })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.input.take();
        let _ = self.child.wait();
    }
}

/// The command by which a program starts itself.
#[derive(Debug, Subcommand)]
pub enum Itself {
    /// Runs a server to be measured, for the program itself.
    #[command(hide = true)]
    Serve {
        /// Which one.
        what: Vec<String>,
    },
}

/// What a process started by [`Served::start`] does.
pub fn main(Itself::Serve { what }: &Itself) -> Result<()> {
    match what.as_slice() {
        [kind] if kind == "hello" => hello(Bytes::from_static(b"hello")),
        [kind, bytes] if kind == "hello" => {
            let body = bytes.parse::<usize>()?.saturating_sub(HEAD_BYTES);
            hello(Bytes::from(vec![b'x'; body]))
        }
        [kind, dir, count] if kind == "tables" => tables(Path::new(dir), count.parse()?),
        _ => bail!("serve hello, serve hello BYTES, or serve tables DIR ROWS"),
    }
}

/// Serves `count` entities that are in files and in the cache.
fn tables(dir: &Path, count: u64) -> Result<()> {
    let db = Arc::new(Db::open(dir)?);
    let store = Arc::new(TableStore::new(Arc::clone(&db)));
    let account = AccountName::parse(DEVELOPMENT_ACCOUNT).ok().context("account")?;
    let table = TableName::parse(TABLE).ok().context("table")?;
    store.create_table(&account, &table)?;
    let mut pending = Vec::new();
    for first in (0..count).step_by(100) {
        let writes = (first..first + 100).map(|i| Write::InsertOrReplace(entity(i))).collect();
        pending.push(store.transact(&account, &table, writes)?);
    }
    for pending in pending {
        pending.wait()?;
    }
    db.compact()?;
    let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
    let running = Server::start(config, store)?;
    until_input_ends(running.addr())?;
    running.stop();
    Ok(db.close()?)
}

/// Entity `i`: 10 properties, some 200 bytes.
fn entity(i: u64) -> Entity {
    let (partition_key, row_key) = rows::keys(i);
    let number = (i % PARTITION_ROWS) as i32;
    let properties = (0..10).map(|n| {
        let value = match n % 3 {
            0 => Value::Int32(number + n),
            1 => Value::Double(f64::from(number) / 8.0),
            _ => Value::String(format!("text number {n} of {i}")),
        };
        (format!("Property{n}"), value)
    });
    Entity { properties: properties.collect(), ..Entity::new(partition_key, row_key) }
}

/// The least that an HTTP server does, on the same library and as many threads.
fn hello(body: Bytes) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let addr = listener.local_addr()?;
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let body = body.clone();
            let service = service_fn(move |_: Request<Incoming>| {
                let response = Response::new(Full::new(body.clone()));
                async { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async { connection.await.ok() });
        }
    });
    until_input_ends(addr)
}

fn until_input_ends(addr: SocketAddr) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{addr}")?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
