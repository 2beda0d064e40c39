//! One table: its entities, transactions on them, its stored policies.
//!
//! A write whose answer was lost is made again, and may then meet what it did itself. Such a
//! refusal is checked against what is there: if that is what the write would have left, the write
//! is done. If not, or if the look-up is refused, the refusal of the write is the outcome, and says
//! that the write may be done. So it is for a merge: what is there does not tell whose it is,
//! unless an insert of the same commit does.

use crate::address::{percent, row_path};
use crate::batch::{self, Operation, Transaction};
use crate::entity::{Condition, ETag, Entity};
use crate::error::Error;
use crate::http::{Answer, Call, Http};
use crate::json;
use crate::pages::{Pages, Query};
use crate::retry::Retry;
use crate::settings::{StoredPolicy, read_policies, write_policies};
use hyper::Method;

/// A table of an account. Clones share their connections.
#[derive(Clone)]
pub struct Table {
    http: Http,
    name: String,
}

impl Table {
    /// The table of that name, whether it exists or not.
    pub(crate) fn new(http: Http, name: String) -> Table {
        Table { http, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same table with another rule for retries.
    #[must_use]
    pub fn with_retry(&self, retry: Retry) -> Table {
        Table { http: self.http.with_retry(retry), name: self.name.clone() }
    }

    /// Reads an entity; `None` where there is none. A table that does not exist is an error.
    pub async fn get(&self, partition_key: &str, row_key: &str) -> Result<Option<Entity>, Error> {
        let call = Call::new(Method::GET, row_path(&self.name, partition_key, row_key));
        match self.http.call(&call).await {
            Ok(answer) => read_one(&answer).map(Some),
            Err(error) if error.code() == Some("ResourceNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Inserts an entity that does not exist. Returns its ETag.
    pub async fn insert(&self, entity: &Entity) -> Result<ETag, Error> {
        self.write(&Operation::Insert(entity.clone())).await
    }

    /// Replaces all properties of an entity that exists. Returns its new ETag.
    pub async fn replace(
        &self,
        entity: &Entity,
        condition: impl Into<Condition>,
    ) -> Result<ETag, Error> {
        self.write(&Operation::Replace(entity.clone(), Some(condition.into()))).await
    }

    /// Sets properties of an entity that exists; the others stay. Returns its new ETag. Where its
    /// answer was lost and the version is gone, it is refused and may be done:
    /// [`Error::maybe_done`].
    pub async fn merge(
        &self,
        entity: &Entity,
        condition: impl Into<Condition>,
    ) -> Result<ETag, Error> {
        self.write(&Operation::Merge(entity.clone(), Some(condition.into()))).await
    }

    /// Inserts an entity, or replaces all properties of the one that is there. Returns its ETag.
    pub async fn upsert(&self, entity: &Entity) -> Result<ETag, Error> {
        self.write(&Operation::Replace(entity.clone(), None)).await
    }

    /// Inserts an entity, or sets properties of the one that is there. Returns its ETag.
    pub async fn upsert_merge(&self, entity: &Entity) -> Result<ETag, Error> {
        self.write(&Operation::Merge(entity.clone(), None)).await
    }

    /// Deletes an entity.
    pub async fn delete(
        &self,
        partition_key: &str,
        row_key: &str,
        condition: impl Into<Condition>,
    ) -> Result<(), Error> {
        let operation = Operation::Delete {
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
            condition: condition.into(),
        };
        self.run(&operation).await.map(drop)
    }

    /// Asks for entities; they are read as the answer is.
    pub fn query(&self, query: Query) -> Pages {
        Pages::new(self.http.clone(), self.name.clone(), query)
    }

    /// Does all operations of a transaction, or none. Returns the ETags of their entities in order;
    /// a delete has none. [`Refusal::index`](crate::error::Refusal::index) says which one was
    /// refused.
    pub async fn submit(&self, transaction: &Transaction) -> Result<Vec<Option<ETag>>, Error> {
        let operations = transaction.operations();
        if operations.is_empty() {
            return Err(Error::Invalid("a transaction without operations".to_owned()));
        }
        let token = uuid::Uuid::new_v4().to_string();
        let endpoint = &self.http.connection().endpoint;
        let (content_type, body) = batch::body(endpoint, &self.name, operations, &token)?;
        let call = Call::new(Method::POST, "/$batch").body(&content_type, body);
        match self.http.batch(&call, operations.len()).await {
            Err(error) if met_itself(&error) => self.looked_up(operations, error).await,
            outcome => outcome,
        }
    }

    /// The table's stored policies.
    pub async fn policies(&self) -> Result<Vec<StoredPolicy>, Error> {
        let call = Call::new(Method::GET, format!("/{}", percent(&self.name)));
        let answer = self.http.call(&call.query("comp", "acl")).await?;
        read_policies(&answer.body).map_err(Error::Garbled)
    }

    /// Sets the table's stored policies, five at most; those that are not given are gone.
    pub async fn set_policies(&self, policies: &[StoredPolicy]) -> Result<(), Error> {
        let call = Call::new(Method::PUT, format!("/{}", percent(&self.name)))
            .query("comp", "acl")
            .body("application/xml", write_policies(policies));
        self.http.call(&call).await.map(drop)
    }

    async fn write(&self, operation: &Operation) -> Result<ETag, Error> {
        let etag = self.run(operation).await?;
        etag.ok_or_else(|| Error::Garbled("a write without an ETag".to_owned()))
    }

    async fn run(&self, operation: &Operation) -> Result<Option<ETag>, Error> {
        let method = Method::from_bytes(operation.method().as_bytes()).unwrap_or_default();
        let mut call = Call::new(method, operation.path(&self.name));
        if let Some(condition) = operation.condition() {
            call = call.header("If-Match", condition.text());
        }
        if let Operation::Insert(_) = operation {
            call = call.header("Prefer", "return-no-content");
        }
        if let Some(entity) = operation.entity() {
            let mut body = Vec::new();
            json::write_entity(&mut body, entity);
            call = call.body("application/json", body);
        }
        match self.http.call(&call).await {
            Ok(answer) => Ok(answer.header("etag").map(ETag::new)),
            Err(error) if met_itself(&error) => {
                let etags = self.looked_up(std::slice::from_ref(operation), error).await?;
                Ok(etags.into_iter().next().flatten())
            }
            Err(error) => Err(error),
        }
    }

    /// The ETags of what the operations wrote, if all of them are done; otherwise `refusal`, also
    /// where the look-up is refused: who may write need not be one who may read.
    async fn looked_up(
        &self,
        operations: &[Operation],
        refusal: Error,
    ) -> Result<Vec<Option<ETag>>, Error> {
        match self.done(operations).await {
            Ok(Some(etags)) => Ok(etags),
            Err(Error::Unreachable { endpoint, cause, .. }) => {
                Err(Error::Unreachable { endpoint, cause, maybe_done: true })
            }
            Ok(None) | Err(_) => Err(refusal),
        }
    }

    /// The ETags of what the operations wrote, if all of them are done; `None` where one is not, or
    /// where one is a merge of which nobody can tell.
    async fn done(&self, operations: &[Operation]) -> Result<Option<Vec<Option<ETag>>>, Error> {
        let merges = operations.iter().any(|operation| matches!(operation, Operation::Merge(..)));
        if merges && !operations.iter().any(Operation::is_telling) {
            return Ok(None);
        }
        let mut etags = Vec::with_capacity(operations.len());
        for operation in operations {
            let (partition_key, row_key) = operation.keys();
            let found = self.get(partition_key, row_key).await?;
            if !operation.is_done(found.as_ref()) {
                return Ok(None);
            }
            etags.push(found.and_then(|entity| entity.etag));
        }
        Ok(are_of_one_commit(operations, &etags).then_some(etags))
    }
}

impl Http {
    /// Submits a batch. Also a refusal inside the answer is made again while it may pass.
    async fn batch(&self, call: &Call, count: usize) -> Result<Vec<Option<ETag>>, Error> {
        self.call_and(call, |answer| {
            let content_type = answer.header("content-type").unwrap_or_default();
            batch::read_answer(&content_type, &answer.body, count)
        })
        .await
    }
}

/// Whether a refusal is what a write meets that was done already, after an attempt that may have
/// done it.
fn met_itself(error: &Error) -> bool {
    let codes = ["EntityAlreadyExists", "ResourceNotFound", "UpdateConditionNotSatisfied"];
    error.maybe_done() && error.code().is_some_and(|code| codes.contains(&code))
}

/// Whether what each merge wrote to is still the version that a telling insert of its transaction
/// made. Where all operations of a commit share one ETag, as Tabulith's do, this proves that the
/// merge was done with the insert, and that nobody has written there since. Elsewhere their ETags
/// differ, and it stays open.
fn are_of_one_commit(operations: &[Operation], etags: &[Option<ETag>]) -> bool {
    let told: Vec<&ETag> = operations
        .iter()
        .zip(etags)
        .filter(|(operation, _)| operation.is_telling())
        .filter_map(|(_, etag)| etag.as_ref())
        .collect();
    operations.iter().zip(etags).all(|(operation, etag)| {
        !matches!(operation, Operation::Merge(..))
            || etag.as_ref().is_some_and(|etag| told.contains(&etag))
    })
}

/// The entity that an answer's body is, with the ETag of its headers where the body has none.
fn read_one(answer: &Answer) -> Result<Entity, Error> {
    let value = serde_json::from_slice(&answer.body)
        .map_err(|error| Error::Garbled(format!("no JSON: {error}")))?;
    let mut entity = json::read_entity(value).map_err(Error::Garbled)?;
    if entity.etag.is_none() {
        entity.etag = answer.header("etag").map(ETag::new);
    }
    Ok(entity)
}
