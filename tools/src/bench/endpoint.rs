//! A server as what is measured: entities with one property, over the wire, by a client of each
//! thread.
//!
//! A call is tried once: a harness that tries again behind one's back measures something else.

use crate::bench::rows::RowName;
use crate::bench::store::{Client, Done, Failed, Figures, Store};
use anyhow::{Context, Result, anyhow};
use std::future::Future;
use tabulith_client::{
    Account, Condition, Connection, Entity, Error, Filter, Options, Query, Retry, Table,
    Transaction, Trust, property,
};
use tabulith_results::result::About;
use tokio::runtime::{Builder, Runtime};

/// Most characters of one property; the service holds 32 Ki.
const PROPERTY_CHARS_MAX: usize = 30_000;

/// An account behind an endpoint.
pub(crate) struct Endpoint {
    connection: Connection,
    trust: Trust,
}

impl Endpoint {
    /// The account behind a connection.
    pub(crate) fn new(connection: Connection, trust: Trust) -> Endpoint {
        Endpoint { connection, trust }
    }

    fn account(&self) -> Result<(Runtime, Account)> {
        // A thread of its own for each client: no wake-up of another one stands in a latency.
        let runtime = Builder::new_current_thread().enable_all().build().context("a runtime")?;
        let options =
            Options { retry: Retry::NONE, trust: self.trust.clone(), ..Options::default() };
        Ok((runtime, Account::new(self.connection.clone(), options)))
    }

    fn ask<T>(&self, ask: impl AsyncFnOnce(Account) -> Result<T, Error>, doing: &str) -> Result<T> {
        let (runtime, account) = self.account()?;
        runtime.block_on(ask(account)).map_err(|error| crate::remote::failed(error, doing))
    }
}

impl Store for Endpoint {
    fn about(&self) -> About {
        let place = self.connection.endpoint.clone();
        About { kind: "endpoint".to_owned(), place, engine: "a table endpoint".to_owned() }
    }

    fn create(&self, table: &str) -> Result<bool> {
        self.ask(async |account| account.create_table(table).await, "creating a table")
    }

    fn drop_table(&self, table: &str) -> Result<()> {
        self.ask(async |account| account.delete_table(table).await, "deleting a table").map(drop)
    }

    fn client(&self, table: &str) -> Result<Box<dyn Client>> {
        let (runtime, account) = self.account()?;
        Ok(Box::new(Wire { table: account.table(table), runtime }))
    }

    fn figures(&self) -> Option<Figures> {
        None
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct Wire {
    table: Table,
    runtime: Runtime,
}

fn failed(error: Error) -> Failed {
    match error.status() {
        Some(429 | 503) => Failed::Refused(error.to_string()),
        _ => Failed::Broken(anyhow!(error)),
    }
}

fn entity(name: &RowName, value: &str) -> Entity {
    let mut entity = Entity::new(&name.partition, &name.row);
    let mut rest = value;
    for part in 0.. {
        let (here, later) = rest.split_at(rest.len().min(PROPERTY_CHARS_MAX));
        entity.set(&format!("value{part}"), here);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    entity
}

impl Wire {
    fn wait<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Done<T> {
        self.runtime.block_on(call).map_err(failed)
    }

    /// The rows of a query, at most so many.
    fn count(&self, query: Query, most: u64) -> Done<u64> {
        let mut pages = self.table.query(query);
        let mut seen = 0;
        while seen < most
            && let Some(page) = self.wait(pages.next_page())?
        {
            seen += std::hint::black_box(page).entities.len() as u64;
        }
        Ok(seen.min(most))
    }
}

impl Client for Wire {
    fn put(&mut self, name: &RowName, value: &str) -> Done<()> {
        let entity = entity(name, value);
        self.wait(self.table.upsert(&entity)).map(drop)
    }

    fn get(&mut self, name: &RowName) -> Done<bool> {
        let row = self.wait(self.table.get(&name.partition, &name.row))?;
        Ok(std::hint::black_box(row).is_some())
    }

    fn delete(&mut self, name: &RowName) -> Done<()> {
        match self.runtime.block_on(self.table.delete(&name.partition, &name.row, Condition::Any)) {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map_err(failed),
        }
    }

    fn scan(&mut self, from: &RowName, rows: usize) -> Done<u64> {
        let here = property("PartitionKey")
            .eq(from.partition.as_str())
            .and(property("RowKey").ge(from.row.as_str()));
        self.count(Query::new().filter(here).page_size(rows.min(1_000)), rows as u64)
    }

    fn partition(&mut self, partition: &str) -> Done<u64> {
        self.count(Query::new().filter(Filter::partition(partition)), u64::MAX)
    }

    fn group(&mut self, rows: &[(RowName, &str)]) -> Done<()> {
        let mut transaction = Transaction::new();
        for (name, value) in rows {
            transaction.upsert(entity(name, value));
        }
        self.wait(self.table.submit(&transaction)).map(drop)
    }
}
