//! The targets by name, with what the mutator needs to know of each.

use crate::targets::address::address;
use crate::targets::app::app;
use crate::targets::authorization::authorization;
use crate::targets::backup::backup;
use crate::targets::batch::batch;
use crate::targets::blob_file::blob_file;
use crate::targets::block::block;
use crate::targets::documents::documents;
use crate::targets::engine_ops::engine_ops;
use crate::targets::entity::entity;
use crate::targets::filter::filter;
use crate::targets::folder::folder;
use crate::targets::framing::framing;
use crate::targets::group::group;
use crate::targets::json::json;
use crate::targets::key_order::key_order;
use crate::targets::manifest::manifest;
use crate::targets::moment::moment;
use crate::targets::signature::signature;
use crate::targets::table_file::table_file;
use crate::targets::token::token;
use crate::targets::wal::wal;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Takes any bytes; panics only on a bug.
    pub run: fn(&[u8]),
    /// Inputs that the test makes. Ten million of all together: the cheap ones have most of them,
    /// none takes more than some fifteen seconds.
    pub runs: u64,
    /// Longest input that is made.
    pub bytes_max: usize,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
}

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Every target.
pub const TARGETS: &[Target] = &[
    binary("wal", wal, 2_000),
    binary("manifest", manifest, 2_000),
    binary("block", block, 2_000_000),
    binary("table_file", table_file, 10_000),
    binary("blob_file", blob_file, 10_000),
    binary("group", group, 2_500_000),
    binary("key_order", key_order, 2_000_000),
    binary("entity", entity, 700_000),
    Target { words: FOLDER_WORDS, ..binary("folder", folder, 300) },
    binary("engine_ops", engine_ops, 150),
    texts("backup", backup, 20_000, BACKUP_WORDS),
    texts("moment", moment, 1_200_000, MOMENT_WORDS),
    texts("filter", filter, 40_000, FILTER_WORDS),
    texts("json", json, 10_000, JSON_WORDS),
    texts("batch", batch, 600_000, BATCH_WORDS),
    texts("address", address, 100_000, ADDRESS_WORDS),
    texts("token", token, 60_000, TOKEN_WORDS),
    texts("authorization", authorization, 50_000, AUTHORIZATION_WORDS),
    texts("signature", signature, 60_000, SIGNATURE_WORDS),
    texts("documents", documents, 50_000, DOCUMENT_WORDS),
    texts("framing", framing, 800_000, FRAMING_WORDS),
    texts("app", app, 1_000, APP_WORDS),
];

const fn binary(name: &'static str, run: fn(&[u8]), runs: u64) -> Target {
    Target { name, run, runs, bytes_max: 64 << 10, words: &[] }
}

const fn texts(
    name: &'static str,
    run: fn(&[u8]),
    runs: u64,
    words: &'static [&'static str],
) -> Target {
    Target { name, run, runs, bytes_max: 16 << 10, words }
}

const FOLDER_WORDS: &[&str] = &[
    "ROOT-A",
    "ROOT-B",
    "LOCK",
    ".sst",
    ".blob",
    ".wal",
    ".spare",
    ".tmp",
    ".manifest-a",
    "000001",
];

const BACKUP_WORDS: &[&str] = &[
    "tabulith backup 1\n",
    "number ",
    "database ",
    "made ",
    "from ",
    "to ",
    "sst ",
    "blob ",
    "state ",
    "end ",
    " -\n",
    "18446744073709551615",
    "ffffffffffffffff",
];

const MOMENT_WORDS: &[&str] = &[
    "1601-01-01T00:00:00Z",
    "9999-12-31T23:59:59.9999999Z",
    "+14:00",
    "-00:30",
    "T24:00",
    "02-29",
    "W/\"datetime'",
    "'\"",
    "%3A",
    "%3a",
    "*",
    ".0000001",
    ":60",
    "Z",
];

const FILTER_WORDS: &[&str] = &[
    " and ",
    " or ",
    "not ",
    "not (",
    "(",
    ")",
    " eq ",
    " ne ",
    " lt ",
    " le ",
    " gt ",
    " ge ",
    "true",
    "false",
    "null",
    "PartitionKey",
    "RowKey",
    "Timestamp",
    "A",
    "B",
    "C",
    "'a'",
    "'it''s'",
    "''",
    "'😀'",
    "'\u{ffff}'",
    "5",
    "5L",
    "-1",
    "2147483648",
    "1.5",
    "1e308",
    "-0.0",
    "NaN",
    "INF",
    "datetime'1970-01-01T00:00:00Z'",
    "guid'30313233-3435-3637-3839-616263646566'",
    "X'00ff'",
    "binary'0a'",
    "PartitionKey eq 'a'",
    "RowKey ge 'a' and RowKey lt 'b'",
    "'a '",
    "'p'",
];

const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    ":",
    ",",
    "\"",
    "\\u0000",
    "\\ud83d\\ude00",
    "\\ud800",
    "null",
    "true",
    "-0",
    "1e400",
    "1.0",
    "\"@odata.type\"",
    "A@odata.type",
    "Edm.Int64",
    "Edm.Int32",
    "Edm.Double",
    "Edm.Guid",
    "Edm.Binary",
    "Edm.DateTime",
    "Edm.String",
    "Edm.Boolean",
    "\"NaN\"",
    "\"Infinity\"",
    "PartitionKey",
    "RowKey",
    "Timestamp",
    "TableName",
    "odata.etag",
    "[]",
    "{}",
];

const BATCH_WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\r\n\r\n",
    "--b",
    "--b--",
    "--c",
    "--c--",
    "boundary=b",
    "boundary=\"b\"",
    "multipart/mixed; boundary=",
    "Content-Type: ",
    "application/http",
    "HTTP/1.1",
    "POST ",
    "Content-ID: ",
    "http://h/",
    "://",
    "—",
    " ",
];

const ADDRESS_WORDS: &[&str] = &[
    "/",
    "//",
    "?",
    "&",
    "=",
    "(",
    ")",
    "'",
    "''",
    "%27",
    "%2F",
    "%",
    "%00",
    "%ff",
    "+",
    "$batch",
    "$metadata",
    "Tables",
    "Tables('T')",
    "PartitionKey='p'",
    "RowKey='r'",
    ",",
    "-secondary",
    ".table.",
    "$top=1000",
    "$select=A,B",
    "$filter=",
    "$format=",
    "comp=acl",
    "restype=service",
    "timeout=30",
    "NextTableName=",
    "devstoreaccount1",
    "application/json;odata=fullmetadata",
];

const TOKEN_WORDS: &[&str] = &[
    "1!",
    "!",
    "1!8!U21pdGg-",
    "1!0!",
    "-",
    "=",
    "%21",
    "%2B",
    "+",
    "/",
    "&",
    "NextPartitionKey=",
    "NextRowKey=",
    "NextTableName=",
    "2!",
    "99999999999999999999",
];

const AUTHORIZATION_WORDS: &[&str] = &[
    "Authorization: =",
    "Authorization: ",
    "SharedKey ",
    "SharedKeyLite ",
    "devstoreaccount1:",
    "Bearer ",
    "\n",
    "x-ms-date: ",
    "Date: ",
    "Mon, 27 Jun 2016 15:25:14 GMT",
    "-0000",
    "?comp=acl",
    "/devstoreaccount1",
    "-secondary",
    "%27",
    "'",
    "%2F",
    "AAAA",
    "==",
];

const SIGNATURE_WORDS: &[&str] = &[
    "sig==",
    "&",
    "sv=2019-02-02",
    "sv=2012-02-12",
    "sv=2015-04-05",
    "sv=2020-12-06",
    "sp=",
    "raud",
    "rlc",
    "tn=Tab",
    "tn=tab",
    "tn=Other",
    "se=2021-01-02T00:00:00Z",
    "st=2021-01-01",
    "sip=10.0.0.1-10.0.0.9",
    "sip=::1",
    "spr=https",
    "spr=https,http",
    "ss=t",
    "ss=bfqt",
    "srt=sco",
    "spk=a",
    "epk=b",
    "srk=",
    "si=policy",
    "ses=scope",
    "skoid=x",
    "\n86400\n",
    "\n86399\n",
    "https ",
    "10.0.0.5",
    "%2B",
    "%00",
    "SP=",
];

const DOCUMENT_WORDS: &[&str] = &[
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>",
    "<SignedIdentifiers>",
    "</SignedIdentifiers>",
    "<SignedIdentifier><Id>",
    "</Id>",
    "<AccessPolicy>",
    "<Start>2021-01-01T00:00:00Z</Start>",
    "<Expiry>2021-01-02</Expiry>",
    "<Permission>raud</Permission>",
    "<StorageServiceProperties>",
    "<Cors>",
    "<CorsRule>",
    "<AllowedOrigins>*</AllowedOrigins>",
    "http://a.example",
    "http://*.example",
    ",",
    "null",
    "*",
    "<MaxAgeInSeconds>",
    "x-ms-*",
    "<RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy>",
    "&amp;",
    "&#0;",
    "&#x10FFFF;",
    "&lt;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE a [<!ENTITY b \"c\">]>",
    "&b;",
    "<a",
    "/>",
    " xmlns:i=\"x\"",
    "i:",
    "\n===\n",
    "\u{feff}",
];

const FRAMING_WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "GET /a HTTP/1.1\r\n",
    "POST /a HTTP/1.0\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "Content-Length: 5\r\n",
    "content-length:05\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "0\r\n\r\n",
    "5\r\n12345\r\n",
    "ffffffffffffffff\r\n",
    ";a=\"b\"",
    "X-Checksum: 1\r\n",
    " folded",
    "\t",
    "\u{b}",
];

const APP_WORDS: &[&str] = &[
    "===\n",
    "GET ",
    "POST ",
    "PUT ",
    "MERGE ",
    "PATCH ",
    "DELETE ",
    "OPTIONS ",
    "HEAD ",
    "@/",
    "@/Tables",
    "@/T",
    "@/$batch",
    "(PartitionKey='p',RowKey='r')",
    "?$filter=",
    "?$top=",
    "&",
    "PartitionKey%20eq%20'p'",
    "$select=A",
    "If-Match: *\n",
    "If-Match: W/\"datetime'",
    "\n\n",
    "Accept: application/json;odata=fullmetadata\n",
    "Content-Type: application/json\n",
    "Prefer: return-no-content\n",
    "X-HTTP-Method: MERGE\n",
    "x-ms-version: 2019-02-02\n",
    "x-ms-client-request-id: a\n",
    "NextPartitionKey=1!4!cA--",
    "{\"PartitionKey\":\"p\",",
    "\"RowKey\":\"r\"",
    "}",
    "\"A\":1,",
    "\"A@odata.type\":\"Edm.Int64\",",
    "{\"TableName\":\"T\"}",
    "--b\n",
    "--b--\n",
    "--c\n",
    "HTTP/1.1\n",
    "multipart/mixed; boundary=b\n",
];
