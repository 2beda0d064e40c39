//! The service itself: its properties, its stats, and what OData says of it.

use crate::error::WireError;
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::Response;
use crate::odata::json_out;
use crate::properties::document;
use crate::services::base::{Services, Store};
use crate::xml::Writer;
use jiff::Timestamp;

/// `GET /?restype=service&comp=properties`
pub fn properties<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    let properties = services.properties(call.grant()?)?;
    Ok(reply::xml(200, document::write(&properties)))
}

/// `PUT /?restype=service&comp=properties`
pub fn set_properties<S: Store>(
    services: &Services<S>,
    call: &Call,
    body: &[u8],
) -> Result<Response, WireError> {
    services.set_properties(call.grant()?, document::read(body)?)?;
    Ok(Response::new(202))
}

/// `GET /?restype=service&comp=stats`: both endpoints are one, so that the second one has
/// everything that the first has.
pub fn stats<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    services.check_stats(call.grant()?)?;
    let synced = Timestamp::from_second(call.context.received.seconds());
    let synced = synced.unwrap_or(Timestamp::UNIX_EPOCH).strftime("%a, %d %b %Y %H:%M:%S GMT");
    let mut out = Writer::new();
    out.element("StorageServiceStats", |out| {
        out.element("GeoReplication", |out| {
            out.leaf("Status", "live");
            out.leaf("LastSyncTime", &synced.to_string());
        });
    });
    Ok(reply::xml(200, out.finish()))
}

/// `GET /`: the collections that are there by themselves.
pub fn document<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    services.check_listing(call.grant()?)?;
    Ok(reply::json(call, 200, json_out::service_document(reply::form(call))))
}

/// `GET /$metadata`: the tables as types with the three properties that all entities have.
pub fn metadata<S: Store>(services: &Services<S>, call: &Call) -> Result<Response, WireError> {
    let names = services.table_names(call.grant()?)?;
    let mut response = Response::new(200);
    response.header("Content-Type", "application/xml;charset=utf-8");
    response.body = metadata_text(&call.address.account, &names).into();
    Ok(response)
}

/// Names of accounts and tables are letters and digits: nothing of them needs an escape.
fn metadata_text(account: &str, tables: &[String]) -> String {
    let property = |name: &str, edm_type: &str| {
        format!("<Property Name=\"{name}\" Type=\"{edm_type}\" Nullable=\"false\" />")
    };
    let key = |names: &[&str]| {
        let refs: String =
            names.iter().map(|name| format!("<PropertyRef Name=\"{name}\" />")).collect();
        format!("<Key>{refs}</Key>")
    };
    let mut types = format!(
        "<EntityType Name=\"Tables\">{}{}</EntityType>",
        key(&["TableName"]),
        property("TableName", "Edm.String")
    );
    let mut sets = format!("<EntitySet Name=\"Tables\" EntityType=\"{account}.Tables\" />");
    let entity = format!(
        "{}{}{}{}",
        key(&["PartitionKey", "RowKey"]),
        property("PartitionKey", "Edm.String"),
        property("RowKey", "Edm.String"),
        property("Timestamp", "Edm.DateTime")
    );
    for name in tables {
        types.push_str(&format!(
            "<EntityType Name=\"{name}\" OpenType=\"true\">{entity}</EntityType>"
        ));
        sets.push_str(&format!("<EntitySet Name=\"{name}\" EntityType=\"{account}.{name}\" />"));
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><edmx:Edmx Version=\"1.0\" \
         xmlns:edmx=\"http://schemas.microsoft.com/ado/2007/06/edmx\"><edmx:DataServices \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
         m:DataServiceVersion=\"3.0\"><Schema Namespace=\"{account}\" \
         xmlns=\"http://schemas.microsoft.com/ado/2009/11/edm\">{types}<EntityContainer \
         Name=\"TableService\" m:IsDefaultEntityContainer=\"true\">{sets}</EntityContainer>\
         </Schema></edmx:DataServices></edmx:Edmx>"
    )
}
