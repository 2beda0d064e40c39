//! Queries, and their answers page by page or entity by entity.

use crate::address::{percent, percent_decoded};
use crate::entity::Entity;
use crate::error::Error;
use crate::filter::Filter;
use crate::http::{Answer, Call, Http};
use crate::json;
use hyper::Method;
use serde_json::Value as Json;
use std::collections::VecDeque;

/// What a query asks for; the default is every entity of the table, with all properties.
///
/// ```
/// use tabulith_client::{Query, property};
/// let query = Query::new()
///     .filter(property("Total").gt(100.0))
///     .select(["PartitionKey", "RowKey", "Total"])
///     .page_size(200);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Query {
    filter: Option<String>,
    select: Option<String>,
    page_size: Option<usize>,
    from: Option<Continuation>,
    explained: bool,
}

/// Where the next page of a query begins, in the service's words. It may be kept, and a query goes
/// on from it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The token of the PartitionKey.
    pub partition_key: String,
    /// The token of the RowKey.
    pub row_key: Option<String>,
}

/// A page of entities. It may be empty and still have another one behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its entities, by PartitionKey and RowKey.
    pub entities: Vec<Entity>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<Continuation>,
    /// How they were found, where it was asked for and the server says so.
    pub explained: Option<Explained>,
}

/// How the entities of a page were found. Only Tabulith says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// The plan.
    pub plan: String,
    /// Rows examined.
    pub rows_examined: u64,
    /// Blocks of table files that were read.
    pub blocks_read: u64,
    /// Blocks of table files that were passed over.
    pub blocks_skipped: u64,
}

impl Query {
    /// A query for every entity.
    pub fn new() -> Query {
        Query::default()
    }

    /// Only entities that meet a condition.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Query {
        self.filter = Some(filter.as_str().to_owned());
        self
    }

    /// Only these properties. Keys and Timestamp come only where they are named.
    #[must_use]
    pub fn select<T: AsRef<str>>(mut self, names: impl IntoIterator<Item = T>) -> Query {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        self.select = Some(names.join(","));
        self
    }

    /// Most entities of a page, 1 to 1,000: `$top`. It does not bound the query.
    #[must_use]
    pub fn page_size(mut self, entities: usize) -> Query {
        self.page_size = Some(entities);
        self
    }

    /// Begins where a page of an earlier run of the same query says.
    #[must_use]
    pub fn from(mut self, continuation: Continuation) -> Query {
        self.from = Some(continuation);
        self
    }

    /// Asks a Tabulith server how the entities are found.
    #[must_use]
    pub fn explained(mut self) -> Query {
        self.explained = true;
        self
    }

    fn call(&self, table: &str) -> Call {
        let mut call = Call::new(Method::GET, format!("/{}()", percent(table)));
        let row_key = self.from.as_ref().and_then(|from| from.row_key.clone());
        let options = [
            ("$filter", self.filter.clone()),
            ("$select", self.select.clone()),
            ("$top", self.page_size.map(|size| size.to_string())),
            ("NextPartitionKey", self.from.as_ref().map(|from| from.partition_key.clone())),
            // An empty text is no token, and the service refuses it.
            ("NextRowKey", row_key.filter(|token| !token.is_empty())),
        ];
        for (name, value) in options {
            call.query.extend(value.map(|value| (name, value)));
        }
        if self.explained { call.header("x-tabulith-explain", "true") } else { call }
    }
}

/// The answer to a query, read as it is asked for.
#[derive(Clone)]
pub struct Pages {
    http: Http,
    table: String,
    query: Query,
    done: bool,
    read: VecDeque<Entity>,
}

impl Pages {
    /// The answer to a query of which nothing is read yet.
    pub(crate) fn new(http: Http, table: String, query: Query) -> Pages {
        Pages { http, table, query, done: false, read: VecDeque::new() }
    }

    /// The next page; `None` behind the last one. After an error the same page is asked for again.
    pub async fn next_page(&mut self) -> Result<Option<Page>, Error> {
        if self.done {
            return Ok(None);
        }
        let answer = self.http.call(&self.query.call(&self.table)).await?;
        let page = read_page(&answer)?;
        self.query.from = page.next.clone();
        self.done = page.next.is_none();
        Ok(Some(page))
    }

    /// The next entity; `None` behind the last one. Empty pages are passed over.
    #[allow(clippy::should_implement_trait, reason = "it is asynchronous")]
    pub async fn next(&mut self) -> Result<Option<Entity>, Error> {
        while self.read.is_empty() {
            match self.next_page().await? {
                Some(page) => self.read.extend(page.entities),
                None => return Ok(None),
            }
        }
        Ok(self.read.pop_front())
    }

    /// Every entity that is left, in memory at once. What was read before an error, or before the
    /// call was given up, is kept for the next one.
    pub async fn all(&mut self) -> Result<Vec<Entity>, Error> {
        while let Some(page) = self.next_page().await? {
            self.read.extend(page.entities);
        }
        Ok(std::mem::take(&mut self.read).into())
    }
}

/// The array `value` of an answer.
pub(crate) fn read_list(answer: &Answer) -> Result<Vec<Json>, Error> {
    let mut body: Json = serde_json::from_slice(&answer.body)
        .map_err(|error| Error::Garbled(format!("no JSON: {error}")))?;
    match body.get_mut("value").map(Json::take) {
        Some(Json::Array(items)) => Ok(items),
        _ => Err(Error::Garbled("a page without `value`".to_owned())),
    }
}

fn read_page(answer: &Answer) -> Result<Page, Error> {
    let entities = read_list(answer)?.into_iter().map(json::read_entity);
    let number = |name: &str| answer.header(name).and_then(|text| text.parse().ok());
    let plan = answer.header("x-tabulith-plan").and_then(|plan| percent_decoded(&plan));
    let explained =
        plan.zip(number("x-tabulith-rows-examined")).map(|(plan, examined)| Explained {
            plan,
            rows_examined: examined,
            blocks_read: number("x-tabulith-blocks-read").unwrap_or_default(),
            blocks_skipped: number("x-tabulith-blocks-skipped").unwrap_or_default(),
        });
    let next = answer.continuation("x-ms-continuation-NextPartitionKey")?;
    let row_key = answer.continuation("x-ms-continuation-NextRowKey")?;
    Ok(Page {
        entities: entities.collect::<Result<_, _>>().map_err(Error::Garbled)?,
        next: next.map(|partition_key| Continuation { partition_key, row_key }),
        explained,
    })
}

#[cfg(test)]
mod tests {
    use super::{Continuation, Query};

    #[test]
    fn an_empty_token_of_a_row_is_not_sent() {
        let sent = |row_key: Option<&str>| -> Vec<&'static str> {
            let (partition_key, row_key) = ("1!4!cA--".to_owned(), row_key.map(str::to_owned));
            let query = Query::new().from(Continuation { partition_key, row_key });
            query.call("T").query.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(sent(None), ["NextPartitionKey"]);
        assert_eq!(sent(Some("")), ["NextPartitionKey"]);
        assert_eq!(sent(Some("1!0!")), ["NextPartitionKey", "NextRowKey"]);
    }
}
