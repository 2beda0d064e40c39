//! The calls themselves: make a table, write a batch, read a page, read a row.

use crate::client::batch;
use crate::client::error::CallError;
use crate::client::http::{Answer, Call, HttpClient, Patience};
use crate::client::sign::row_path;
use crate::connect::Connection;
use crate::json;
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith_server::odata::literal::{Plus, percent_decoded};

/// Where the next page begins, in the service's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    partition_key: String,
    row_key: Option<String>,
}

/// How the rows of a page were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The plan.
    pub(crate) plan: String,
    /// Rows examined.
    pub(crate) examined: u64,
    /// Blocks that zones were asked about: those read, and those passed over.
    pub(crate) blocks: (u64, u64),
}

/// A page of a query.
#[derive(Debug)]
pub(crate) struct ServerPage {
    /// Its entities.
    pub(crate) entities: Vec<Entity>,
    /// Where the next one begins.
    pub(crate) next: Option<Token>,
    /// How the rows were found, where the server says so.
    pub(crate) explained: Option<Found>,
}

/// A client of the tables of one account.
pub(crate) struct TableClient {
    http: HttpClient,
}

impl TableClient {
    /// A client that has not connected yet.
    pub(crate) fn new(connection: Connection) -> TableClient {
        TableClient { http: HttpClient::new(connection) }
    }

    /// The address that calls go to, with the account.
    pub(crate) fn endpoint(&self) -> &str {
        self.http.endpoint()
    }

    /// Makes the table; false where it exists already.
    pub(crate) async fn create_table(
        &self,
        table: &str,
        patience: Patience,
    ) -> Result<bool, CallError> {
        let mut call = Call::get("/Tables".to_owned());
        call.method = Method::POST;
        call.headers.push(("Prefer", "return-no-content"));
        call.content_type = "application/json";
        call.body = Bytes::from(serde_json::json!({ "TableName": table }).to_string());
        match self.http.call(&call, patience).await {
            Ok(_) => Ok(true),
            Err(CallError::Refused(refusal)) if refusal.code == "TableAlreadyExists" => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Inserts or replaces `entities`, all of one partition, in one transaction. Returns the newest
    /// commit among them.
    pub(crate) async fn write_batch<'a>(
        &self,
        table: &str,
        entities: impl ExactSizeIterator<Item = &'a Entity>,
        patience: Patience,
    ) -> Result<CommitTs, CallError> {
        let count = entities.len();
        let mut call = Call::get("/$batch".to_owned());
        call.method = Method::POST;
        call.content_type = batch::CONTENT_TYPE;
        call.body = Bytes::from(batch::body(self.http.endpoint(), table, entities));
        let answer = self.http.call(&call, patience).await?;
        batch::read_answer(&answer.body, count)
    }

    /// Reads a row.
    pub(crate) async fn get(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
        patience: Patience,
    ) -> Result<Option<Entity>, CallError> {
        let call = Call::get(row_path(table, partition_key, row_key));
        match self.http.call(&call, patience).await {
            Ok(answer) => entity(&parse(&answer)?).map(Some),
            Err(CallError::Refused(refusal)) if refusal.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a page. `options`: `$filter`, `$select`, `$top`.
    pub(crate) async fn page(
        &self,
        table: &str,
        options: &[(&'static str, String)],
        from: Option<&Token>,
        explain: bool,
        patience: Patience,
    ) -> Result<ServerPage, CallError> {
        let mut call = Call::get(format!("/{table}()"));
        call.query.extend_from_slice(options);
        if let Some(token) = from {
            call.query.push(("NextPartitionKey", token.partition_key.clone()));
            call.query.extend(token.row_key.clone().map(|key| ("NextRowKey", key)));
        }
        if explain {
            call.headers.push(("x-tabulith-explain", "true"));
        }
        let answer = self.http.call(&call, patience).await?;
        let body = parse(&answer)?;
        let rows = body.get("value").and_then(Value::as_array);
        let rows = rows.ok_or_else(|| CallError::Garbled("a page without `value`".to_owned()))?;
        let header = |name: &str| Some(answer.headers.get(name)?.to_str().ok()?.to_owned());
        let number = |name: &str| header(name).and_then(|text| text.parse().ok());
        let blocks = |name: &str| number(name).unwrap_or(0);
        let found = |(plan, examined)| Found {
            plan,
            examined,
            blocks: (blocks("x-tabulith-blocks-read"), blocks("x-tabulith-blocks-skipped")),
        };
        Ok(ServerPage {
            entities: rows.iter().map(entity).collect::<Result<_, _>>()?,
            next: header("x-ms-continuation-NextPartitionKey").map(|partition_key| Token {
                partition_key,
                row_key: header("x-ms-continuation-NextRowKey"),
            }),
            explained: header("x-tabulith-plan")
                .and_then(|plan| percent_decoded(&plan, Plus::IsPlus))
                .zip(number("x-tabulith-rows-examined"))
                .map(found),
        })
    }
}

fn parse(answer: &Answer) -> Result<Value, CallError> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| CallError::Garbled(format!("no JSON: {error}")))
}

fn entity(value: &Value) -> Result<Entity, CallError> {
    let members = value.as_object();
    let members = members.ok_or_else(|| CallError::Garbled("a row is no object".to_owned()))?;
    json::read_entity(members).map_err(CallError::Garbled)
}
