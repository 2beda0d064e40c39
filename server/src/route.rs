//! Verb and resource into an operation: one table for all of them, for requests of their own and
//! for those within a batch.

use crate::auth::access::Access;
use crate::error::{
    INVALID_HTTP_VERB, INVALID_QUERY_PARAMETER_VALUE, INVALID_URI, MEDIA_TYPE_NOT_SUPPORTED,
    NOT_IMPLEMENTED, UNSUPPORTED_HTTP_VERB, WireError, X_METHOD_INCORRECT_COUNT,
    X_METHOD_INCORRECT_VALUE, X_METHOD_NOT_USING_POST, key_count,
};
use crate::http::message::Head;
use crate::odata::address::{Address, Below, Resource};
use crate::odata::options::Params;
use crate::operations::Kind;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Tables of the account.
    ListTables,
    /// One table.
    GetTable(String),
    /// A new table; its name is in the body.
    CreateTable,
    /// A table's end.
    DeleteTable(String),
    /// Entities of a table.
    Query(String),
    /// One entity.
    Get(Place),
    /// A new entity; its keys are in the body.
    Insert(String),
    /// A change of one entity.
    Change(Place, Change),
    /// The collections that are there by themselves.
    Document,
    /// The tables as OData describes them.
    Metadata,
    /// The properties of the service.
    GetProperties,
    /// Other properties for the service.
    SetProperties,
    /// How far the second endpoint has come.
    GetStats,
    /// A table's stored policies.
    GetAcl(String),
    /// New stored policies for a table, in place of those that it has.
    SetAcl(String),
    /// Several of these at once.
    Batch,
}

/// A table and the keys of an entity in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The table's name as sent.
    pub table: String,
    /// PartitionKey.
    pub partition_key: String,
    /// RowKey.
    pub row_key: String,
}

/// What happens to an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its properties are replaced, whether it exists or not.
    InsertOrReplace,
    /// Properties are laid over those it has, whether it exists or not.
    InsertOrMerge,
    /// Its properties are replaced; it must exist.
    Update,
    /// Properties are laid over those it has; it must exist.
    Merge,
    /// It is removed.
    Delete,
}

impl Operation {
    /// What it is, whatever it is about.
    pub fn kind(&self) -> Kind {
        match self {
            Operation::ListTables => Kind::ListTables,
            Operation::GetTable(_) => Kind::GetTable,
            Operation::CreateTable => Kind::CreateTable,
            Operation::DeleteTable(_) => Kind::DeleteTable,
            Operation::Query(_) => Kind::Query,
            Operation::Get(_) => Kind::Get,
            Operation::Insert(_) => Kind::Insert,
            Operation::Change(_, Change::InsertOrReplace) => Kind::InsertOrReplace,
            Operation::Change(_, Change::InsertOrMerge) => Kind::InsertOrMerge,
            Operation::Change(_, Change::Update) => Kind::Update,
            Operation::Change(_, Change::Merge) => Kind::Merge,
            Operation::Change(_, Change::Delete) => Kind::Delete,
            Operation::Document => Kind::Document,
            Operation::Metadata => Kind::Metadata,
            Operation::GetProperties => Kind::GetProperties,
            Operation::SetProperties => Kind::SetProperties,
            Operation::GetStats => Kind::GetStats,
            Operation::GetAcl(_) => Kind::GetAcl,
            Operation::SetAcl(_) => Kind::SetAcl,
            Operation::Batch => Kind::Batch,
        }
    }

    /// What permission it needs; none for a batch, whose parts each need their own.
    pub fn access(&self) -> Option<Access> {
        Some(match self {
            Operation::ListTables => Access::ListTables,
            Operation::GetTable(_) => Access::ReadTable,
            Operation::CreateTable => Access::CreateTable,
            Operation::DeleteTable(_) => Access::DeleteTable,
            Operation::Query(_) | Operation::Get(_) => Access::Read,
            Operation::Insert(_) => Access::Insert,
            Operation::Change(_, Change::InsertOrReplace | Change::InsertOrMerge) => Access::Upsert,
            Operation::Change(_, Change::Update | Change::Merge) => Access::Update,
            Operation::Change(_, Change::Delete) => Access::Delete,
            Operation::Document | Operation::Metadata => Access::ListTables,
            Operation::GetProperties => Access::ReadService,
            Operation::SetProperties => Access::WriteService,
            Operation::GetStats => Access::ReadStats,
            Operation::GetAcl(_) => Access::GetAcl,
            Operation::SetAcl(_) => Access::SetAcl,
            Operation::Batch => return None,
        })
    }

    /// The table that it is about, as sent.
    pub fn table(&self) -> Option<&str> {
        match self {
            Operation::ListTables
            | Operation::CreateTable
            | Operation::Document
            | Operation::Metadata
            | Operation::GetProperties
            | Operation::SetProperties
            | Operation::GetStats
            | Operation::Batch => None,
            Operation::GetTable(table)
            | Operation::DeleteTable(table)
            | Operation::Query(table)
            | Operation::Insert(table)
            | Operation::GetAcl(table)
            | Operation::SetAcl(table) => Some(table),
            Operation::Get(place) | Operation::Change(place, _) => Some(&place.table),
        }
    }

    /// Whether it changes entities, so that a change set may hold it.
    pub fn is_change(&self) -> bool {
        matches!(self, Operation::Insert(_) | Operation::Change(..))
    }

    /// Whether it reads tables or entities, so that it may be done as of a moment of the past.
    pub fn reads_rows(&self) -> bool {
        matches!(
            self,
            Operation::ListTables
                | Operation::GetTable(_)
                | Operation::Query(_)
                | Operation::Get(_)
        )
    }

    /// Whether it makes a commit, if it does anything.
    pub fn writes(&self) -> bool {
        match self {
            Operation::CreateTable
            | Operation::DeleteTable(_)
            | Operation::Insert(_)
            | Operation::Change(..)
            | Operation::SetProperties
            | Operation::SetAcl(_)
            | Operation::Batch => true,
            Operation::ListTables
            | Operation::GetTable(_)
            | Operation::Query(_)
            | Operation::Get(_)
            | Operation::Document
            | Operation::Metadata
            | Operation::GetProperties
            | Operation::GetStats
            | Operation::GetAcl(_) => false,
        }
    }

    /// Whether it comes with a body.
    pub fn has_body(&self) -> bool {
        match self {
            Operation::CreateTable
            | Operation::Insert(_)
            | Operation::SetProperties
            | Operation::SetAcl(_)
            | Operation::Batch => true,
            Operation::Change(_, change) => *change != Change::Delete,
            _ => false,
        }
    }

    /// Whether it is asked and answered in XML, its refusals too.
    pub fn speaks_xml(&self) -> bool {
        matches!(
            self,
            Operation::GetAcl(_)
                | Operation::SetAcl(_)
                | Operation::GetProperties
                | Operation::SetProperties
                | Operation::GetStats
        )
    }

    /// Whether `Prefer` says how it is answered.
    pub fn heeds_prefer(&self) -> bool {
        matches!(self, Operation::CreateTable | Operation::Insert(_))
    }
}

/// The verb that a request means: its own, or the one tunnelled through POST.
pub fn verb(head: &Head) -> Result<String, WireError> {
    let mut tunnelled = head.headers.all("X-HTTP-Method");
    let Some(verb) = tunnelled.next() else { return Ok(head.method.clone()) };
    if tunnelled.next().is_some() {
        return Err(X_METHOD_INCORRECT_COUNT);
    }
    if head.method != "POST" {
        return Err(X_METHOD_NOT_USING_POST);
    }
    let verb = verb.trim().to_ascii_uppercase();
    match verb.as_str() {
        "MERGE" | "PATCH" | "PUT" | "DELETE" => Ok(verb),
        _ => Err(X_METHOD_INCORRECT_VALUE),
    }
}

/// The operation of a request. `verb` is the one that it means.
pub fn route(
    verb: &str,
    address: &Address,
    params: &Params,
    head: &Head,
) -> Result<Operation, WireError> {
    if !VERBS.contains(&verb) {
        return Err(INVALID_HTTP_VERB);
    }
    let special = special(address, params)?;
    let conditional = head.headers.get("If-Match").is_some();
    let resource = address.resource.clone();
    if let Some(special) = special {
        return match (special, verb) {
            (Special::Properties, "GET") => Ok(Operation::GetProperties),
            (Special::Properties, "PUT") => Ok(Operation::SetProperties),
            (Special::Stats, "GET") => Ok(Operation::GetStats),
            (Special::Acl(table), "GET" | "HEAD") => Ok(Operation::GetAcl(table)),
            (Special::Acl(table), "PUT") => Ok(Operation::SetAcl(table)),
            _ => Err(UNSUPPORTED_HTTP_VERB),
        };
    }
    Ok(match (resource, verb) {
        (Resource::Tables, "GET") => Operation::ListTables,
        (Resource::Tables, "POST") => Operation::CreateTable,
        (Resource::Table(table), "GET") => Operation::GetTable(table),
        (Resource::Table(table), "DELETE") => Operation::DeleteTable(table),
        (Resource::Entities(table), "GET") => Operation::Query(table),
        (Resource::Entities(table), "POST") => Operation::Insert(table),
        (Resource::Entity { table, partition_key, row_key }, verb) => {
            let place = Place { table, partition_key, row_key };
            match verb {
                "GET" => Operation::Get(place),
                _ => Operation::Change(place, change(verb, conditional)?),
            }
        }
        (Resource::Batch, "POST") => Operation::Batch,
        (Resource::BelowTable(table, below), verb) => {
            return below_table(address, table, below, verb);
        }
        (Resource::Service, "GET") => Operation::Document,
        (Resource::Metadata, "GET") => Operation::Metadata,
        _ => return Err(UNSUPPORTED_HTTP_VERB),
    })
}

fn change(verb: &str, conditional: bool) -> Result<Change, WireError> {
    match (verb, conditional) {
        ("PUT", false) => Ok(Change::InsertOrReplace),
        ("PUT", true) => Ok(Change::Update),
        ("MERGE" | "PATCH", false) => Ok(Change::InsertOrMerge),
        ("MERGE" | "PATCH", true) => Ok(Change::Merge),
        ("DELETE", _) => Ok(Change::Delete),
        _ => Err(UNSUPPORTED_HTTP_VERB),
    }
}

/// Verbs that HTTP has, or that the service has added to it.
const VERBS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "MERGE", "PATCH", "OPTIONS", "TRACE", "CONNECT"];

/// An operation that `comp` and `restype` choose.
enum Special {
    /// Stored policies of a table.
    Acl(String),
    /// Properties of the service.
    Properties,
    /// Stats of the service.
    Stats,
}

/// What `comp` and `restype` choose, if they are there.
fn special(address: &Address, params: &Params) -> Result<Option<Special>, WireError> {
    params.check()?;
    let value = |name| params.get(name).map(str::to_ascii_lowercase);
    match (&address.resource, value("restype").as_deref(), value("comp").as_deref()) {
        (_, None, None) => Ok(None),
        (Resource::Service, Some("service"), Some("properties")) => Ok(Some(Special::Properties)),
        (Resource::Service, Some("service"), Some("stats")) => Ok(Some(Special::Stats)),
        (Resource::Entities(table), None, Some("acl")) => Ok(Some(Special::Acl(table.clone()))),
        _ => Err(INVALID_QUERY_PARAMETER_VALUE),
    }
}

/// What a client gets whose endpoint ends in the name of a table: Azure's own answers, which SDKs
/// turn into advice.
fn below_table(
    address: &Address,
    table: String,
    below: Below,
    verb: &str,
) -> Result<Operation, WireError> {
    match (below, verb) {
        (Below::Tables, "POST") => Ok(Operation::Insert(table)),
        (Below::Tables, "GET") => Err(NOT_IMPLEMENTED),
        (Below::Table, "DELETE") => Err(key_count(&address.account, &table)),
        (Below::Batch, "POST") => Err(MEDIA_TYPE_NOT_SUPPORTED),
        _ => Err(INVALID_URI),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Operation, WireError> {
        let mut head = Head {
            method: method.to_owned(),
            target: format!("/acct{target}"),
            authority: "localhost".to_owned(),
            ..Head::default()
        };
        for (name, value) in headers {
            head.headers.push(*name, *value);
        }
        let address = Address::parse(&head, head.secure)?;
        route(&verb(&head)?, &address, &Params::parse(head.query())?, &head)
    }

    fn place() -> Place {
        let [table, partition_key, row_key] = ["T", "p", "r"].map(str::to_owned);
        Place { table, partition_key, row_key }
    }

    #[test]
    fn every_operation() {
        let entity = "/T(PartitionKey='p',RowKey='r')";
        let name = || "T".to_owned();
        let change = |change| Ok(Operation::Change(place(), change));
        let if_match = [("If-Match", "*")];
        assert_eq!(ask("GET", "/Tables", &[]), Ok(Operation::ListTables));
        assert_eq!(ask("POST", "/Tables()", &[]), Ok(Operation::CreateTable));
        assert_eq!(ask("GET", "/Tables('T')", &[]), Ok(Operation::GetTable(name())));
        assert_eq!(ask("DELETE", "/Tables('T')", &[]), Ok(Operation::DeleteTable(name())));
        assert_eq!(ask("GET", "/T()", &[]), Ok(Operation::Query(name())));
        assert_eq!(ask("POST", "/T", &[]), Ok(Operation::Insert(name())));
        assert_eq!(ask("GET", entity, &[]), Ok(Operation::Get(place())));
        assert_eq!(ask("PUT", entity, &[]), change(Change::InsertOrReplace));
        assert_eq!(ask("PUT", entity, &if_match), change(Change::Update));
        assert_eq!(ask("MERGE", entity, &[]), change(Change::InsertOrMerge));
        assert_eq!(ask("PATCH", entity, &if_match), change(Change::Merge));
        assert_eq!(ask("DELETE", entity, &[]), change(Change::Delete));
        assert_eq!(ask("POST", "/$batch", &[]), Ok(Operation::Batch));
        assert_eq!(ask("GET", "/", &[]), Ok(Operation::Document));
        assert_eq!(ask("GET", "/$metadata", &[]), Ok(Operation::Metadata));
        let service =
            |verb: &str, comp: &str| ask(verb, &format!("/?restype=service&comp={comp}"), &[]);
        assert_eq!(service("GET", "properties"), Ok(Operation::GetProperties));
        assert_eq!(service("PUT", "Properties"), Ok(Operation::SetProperties));
        assert_eq!(service("GET", "stats"), Ok(Operation::GetStats));
        assert_eq!(ask("GET", "/T?comp=ACL", &[]), Ok(Operation::GetAcl(name())));
        assert_eq!(ask("HEAD", "/T?comp=acl", &[]), Ok(Operation::GetAcl(name())));
        assert_eq!(ask("PUT", "/T()?comp=acl", &[]), Ok(Operation::SetAcl(name())));
    }

    #[test]
    fn verbs_through_post() {
        let entity = "/T(PartitionKey='p',RowKey='r')";
        let tunnel = |verb: &str| ask("POST", entity, &[("x-http-method", verb)]);
        assert_eq!(tunnel("merge"), Ok(Operation::Change(place(), Change::InsertOrMerge)));
        assert_eq!(tunnel("DELETE"), Ok(Operation::Change(place(), Change::Delete)));
        assert_eq!(tunnel("GET"), Err(X_METHOD_INCORRECT_VALUE));
        assert_eq!(ask("PUT", entity, &[("X-HTTP-Method", "PUT")]), Err(X_METHOD_NOT_USING_POST));
        let twice = [("X-HTTP-Method", "PUT"), ("X-HTTP-Method", "PUT")];
        assert_eq!(ask("POST", entity, &twice), Err(X_METHOD_INCORRECT_COUNT));
    }

    #[test]
    fn endpoints_that_end_in_a_table() {
        assert_eq!(ask("POST", "/T/Tables", &[]), Ok(Operation::Insert("T".to_owned())));
        assert_eq!(ask("GET", "/T/Tables", &[]), Err(NOT_IMPLEMENTED));
        assert_eq!(ask("POST", "/T/$batch", &[]), Err(MEDIA_TYPE_NOT_SUPPORTED));
        assert_eq!(
            ask("DELETE", "/T/Tables('x')", &[]).expect_err("wrong endpoint").message,
            "The number of keys specified in the URI does not match number of key properties for \
             the resource 'acct.T'."
        );
    }

    #[test]
    fn what_no_resource_does() {
        let entity = "/T(PartitionKey='p',RowKey='r')";
        for (method, target) in [
            ("HEAD", "/Tables"),
            ("PUT", "/Tables"),
            ("POST", "/Tables('T')"),
            ("DELETE", "/T"),
            ("PUT", "/T"),
            ("POST", entity),
            ("HEAD", entity),
            ("GET", "/$batch"),
            ("PUT", "/"),
            ("POST", "/$metadata"),
            ("POST", "/?restype=service&comp=properties"),
            ("PUT", "/?restype=service&comp=stats"),
        ] {
            assert_eq!(ask(method, target, &[]), Err(UNSUPPORTED_HTTP_VERB), "{method} {target}");
        }
        assert_eq!(ask("FOO", "/", &[]), Err(INVALID_HTTP_VERB));
        assert_eq!(ask("get", "/", &[]), Err(INVALID_HTTP_VERB));
        for target in
            ["/?comp=nothing", "/?comp=properties", "/?restype=service", "/Tables?comp=acl"]
        {
            assert_eq!(ask("GET", target, &[]), Err(INVALID_QUERY_PARAMETER_VALUE), "{target}");
        }
        assert_eq!(ask("POST", "/T?comp=acl", &[]), Err(UNSUPPORTED_HTTP_VERB));
        assert_eq!(ask("GET", "/T?$orderby=A", &[]), Err(NOT_IMPLEMENTED));
    }
}
