//! Options of a request's query string and its content negotiation: `$select`, `$top`,
//! continuation tokens, `$format` and `Accept`.

use crate::error::{
    ATOM_FORMAT_NOT_SUPPORTED, INVALID_INPUT, INVALID_QUERY_PARAMETER_VALUE,
    JSON_VERBOSE_FORMAT_NOT_SUPPORTED, MEDIA_TYPE_NOT_SUPPORTED, NOT_IMPLEMENTED, WireError,
};
use crate::limits::{PAGE_ENTITIES_MAX, PARAMETERS_MAX, REQUEST_TIME_MAX, SELECT_NAMES_MAX};
use crate::odata::literal::{Plus, percent_decoded};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// The parameters of a query string, decoded. Of repeated ones the first counts; unknown ones are
/// ignored.
#[derive(Clone, Default)]
pub struct Params(Vec<(String, String)>);

/// Names only: a value may be a signature.
impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Options of OData that the service does not have. Ignoring them would answer another question.
const NOT_SERVED: [&str; 6] =
    ["$orderby", "$skip", "$expand", "$inlinecount", "$count", "$skiptoken"];

impl Params {
    /// Reads a raw query string. More than [`PARAMETERS_MAX`] are refused.
    pub fn parse(query: &str) -> Result<Params, WireError> {
        let mut params = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            if params.len() == PARAMETERS_MAX {
                return Err(INVALID_QUERY_PARAMETER_VALUE);
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = percent_decoded(name, Plus::IsBlank).ok_or(INVALID_QUERY_PARAMETER_VALUE)?;
            // A base64 text has no blank: there a plus was meant.
            let plus = match name.as_str() {
                "sig" | "NextPartitionKey" | "NextRowKey" | "NextTableName" => Plus::IsPlus,
                _ => Plus::IsBlank,
            };
            let value = percent_decoded(value, plus).ok_or(INVALID_QUERY_PARAMETER_VALUE)?;
            params.push((name, value));
        }
        Ok(Params(params))
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The same, but for an empty one.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether they choose an operation on settings: policies, properties or stats.
    pub fn is_for_settings(&self) -> bool {
        let settings = ["acl", "properties", "stats"];
        self.get("comp")
            .is_some_and(|comp| settings.iter().any(|own| comp.eq_ignore_ascii_case(own)))
    }

    /// Refuses options that the service does not have, and a `timeout` that is no number.
    pub fn check(&self) -> Result<(), WireError> {
        if NOT_SERVED.iter().any(|name| self.get(name).is_some()) {
            return Err(NOT_IMPLEMENTED);
        }
        self.timeout().map(|_| ())
    }

    /// `timeout`: how long the client will wait, in whole seconds. Nobody waits longer than
    /// [`REQUEST_TIME_MAX`], nor for less than a second.
    pub fn timeout(&self) -> Result<Duration, WireError> {
        let Some(text) = self.get("timeout") else { return Ok(REQUEST_TIME_MAX) };
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(INVALID_QUERY_PARAMETER_VALUE);
        }
        // What is too large to be a number is more than the most.
        let asked = text.parse().map_or(REQUEST_TIME_MAX, Duration::from_secs);
        Ok(if asked.is_zero() { REQUEST_TIME_MAX } else { asked.min(REQUEST_TIME_MAX) })
    }

    /// `$top`: entities of one page; [`PAGE_ENTITIES_MAX`] where it is not given.
    pub fn top(&self) -> Result<usize, WireError> {
        let Some(top) = self.get("$top") else { return Ok(PAGE_ENTITIES_MAX) };
        let top = top.trim().parse().ok().filter(|top| *top <= PAGE_ENTITIES_MAX);
        top.ok_or(INVALID_INPUT)
    }

    /// `$select`.
    pub fn select(&self) -> Result<Option<Select>, WireError> {
        let Some(text) = self.get("$select") else { return Ok(None) };
        let given = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
        if given().count() > SELECT_NAMES_MAX {
            return Err(INVALID_INPUT);
        }
        // A name that comes twice is shown once.
        let mut seen = HashSet::new();
        let names: Vec<String> =
            given().filter(|name| seen.insert(*name)).map(str::to_owned).collect();
        let all = names.is_empty() || names.iter().any(|name| name == "*");
        Ok(Some(Select { text: text.to_owned(), names: (!all).then_some(names) }))
    }

    /// Where a query of entities goes on: PartitionKey and RowKey of the next one. Without
    /// `NextRowKey` it is the first of its partition; one that is there and empty is no token.
    pub fn next_entity(&self) -> Result<Option<(String, String)>, WireError> {
        match (self.get("NextPartitionKey"), self.get("NextRowKey")) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(INVALID_INPUT),
            (Some(partition_key), row_key) => {
                let row_key = row_key.map_or(Ok(String::new()), token_decoded)?;
                Ok(Some((token_decoded(partition_key)?, row_key)))
            }
        }
    }

    /// Where a query of tables goes on: the name of the next one.
    pub fn next_table(&self) -> Result<Option<String>, WireError> {
        let Some(token) = self.get("NextTableName") else { return Ok(None) };
        let payload = token_decoded(token)?;
        let (name, _) = payload.split_once('\u{1}').ok_or(INVALID_INPUT)?;
        Ok(Some(name.to_owned()))
    }
}

/// Which properties an answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// The list as sent; it is repeated in `odata.metadata`.
    pub text: String,
    /// The names; none for all properties.
    pub names: Option<Vec<String>>,
}

/// The continuation token of a key: `1!{length}!{base64}`, with `-` for `=`.
pub fn token_encoded(key: &str) -> String {
    let base64 = STANDARD.encode(key).replace('=', "-");
    format!("1!{}!{base64}", base64.len())
}

/// The token of a table: its name and the moment of its creation.
pub fn table_token_encoded(name: &str, created_filetime: u64) -> String {
    token_encoded(&format!("{name}\u{1}{created_filetime:016x}"))
}

fn token_decoded(token: &str) -> Result<String, WireError> {
    let decoded = || {
        let (length, base64) = token.strip_prefix("1!")?.split_once('!')?;
        if length.parse() != Ok(base64.len()) {
            return None;
        }
        String::from_utf8(STANDARD.decode(base64.replace('-', "=")).ok()?).ok()
    };
    decoded().ok_or(INVALID_INPUT)
}

/// How much an answer in JSON says about its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metadata {
    /// Values only.
    None,
    /// ETags, and the types that JSON does not show.
    #[default]
    Minimal,
    /// Also types and addresses of entities.
    Full,
}

impl Metadata {
    /// The media type of an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Metadata::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
            Metadata::Minimal => {
                "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
            }
            Metadata::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
        }
    }
}

/// Chooses the form of the answer: `$format` before `Accept`, minimal metadata where neither asks.
pub fn negotiate(format: Option<&str>, accept: Option<&str>) -> Result<Metadata, WireError> {
    let asked = match (format, accept) {
        (Some("json"), _) => return Ok(Metadata::Minimal),
        (Some("atom"), _) => return Err(ATOM_FORMAT_NOT_SUPPORTED),
        (Some("verbosejson"), _) => return Err(JSON_VERBOSE_FORMAT_NOT_SUPPORTED),
        (Some(format), _) => format,
        (None, Some(accept)) if !accept.trim().is_empty() => accept,
        (None, _) => return Ok(Metadata::Minimal),
    };
    let mut error = MEDIA_TYPE_NOT_SUPPORTED;
    for entry in asked.split(',') {
        match media_type(entry).as_str() {
            "application/json" => match odata_parameter(entry).as_deref() {
                None | Some("minimalmetadata") => return Ok(Metadata::Minimal),
                Some("nometadata") => return Ok(Metadata::None),
                Some("fullmetadata") => return Ok(Metadata::Full),
                Some("verbose") => error = JSON_VERBOSE_FORMAT_NOT_SUPPORTED,
                Some(_) => {}
            },
            "*/*" | "application/*" => return Ok(Metadata::Minimal),
            "application/xml" | "application/atom+xml" => error = ATOM_FORMAT_NOT_SUPPORTED,
            _ => {}
        }
    }
    Err(error)
}

/// Whether the service's front end, which comes before the service proper, refuses a request in
/// JSON: only where it is asked for by name. `negotiated` is what [`negotiate`] makes of it.
pub fn front_end_speaks_json(
    params: &Params,
    accept: Option<&str>,
    negotiated: &Result<Metadata, WireError>,
) -> bool {
    let names_json = accept.is_some_and(|accept| accept.contains("json"));
    match negotiated {
        Ok(_) => names_json,
        Err(error) if error.code == ATOM_FORMAT_NOT_SUPPORTED.code => false,
        Err(_) => names_json || !params.is_for_settings(),
    }
}

/// A media type in lower case, without its parameters.
pub fn media_type(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A parameter of a media type, without quotes.
pub fn media_parameter<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut parameters = text.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(own, _)| own.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim().trim_matches('"'))
}

fn odata_parameter(text: &str) -> Option<String> {
    media_parameter(text, "odata").map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_without_end_are_refused() {
        let most = format!("{}$top=7", "a&".repeat(PARAMETERS_MAX - 1));
        assert_eq!(Params::parse(&most).and_then(|params| params.top()), Ok(7));
        let more = format!("a=1&{most}&&&");
        assert_eq!(Params::parse(&more).map(|_| ()), Err(INVALID_QUERY_PARAMETER_VALUE));
    }

    #[test]
    fn tokens_as_the_service_writes_them() {
        assert_eq!(token_encoded("Smith"), "1!8!U21pdGg-");
        assert_eq!(token_encoded(""), "1!0!");
        let table = table_token_encoded("testtablex5iqmcsp", 0x01d6_e2e9_4cd8_55c7);
        assert_eq!(table, "1!48!dGVzdHRhYmxleDVpcW1jc3ABMDFkNmUyZTk0Y2Q4NTVjNw--");
        let params = Params::parse(&format!("NextTableName={}", table.replace('!', "%21")));
        let next = params.and_then(|params| params.next_table());
        assert_eq!(next, Ok(Some("testtablex5iqmcsp".to_owned())));
    }

    #[test]
    fn continuation_of_entities() {
        let next = |query: &str| Params::parse(query).and_then(|params| params.next_entity());
        let keys = |pk: &str, rk: &str| Ok(Some((pk.to_owned(), rk.to_owned())));
        assert_eq!(next(""), Ok(None));
        assert_eq!(next("NextPartitionKey=1%218%21U21pdGg-&NextRowKey=1!0!"), keys("Smith", ""));
        assert_eq!(next("NextPartitionKey=1!8!U21pdGg-"), keys("Smith", ""));
        // "ûï¾" needs a plus, "ÿ?" a slash; both may arrive unescaped.
        for key in ["ûï¾>>>", "ÿ?~~"] {
            let token = token_encoded(key);
            assert_eq!(
                next(&format!("NextPartitionKey={token}&NextRowKey={token}")),
                keys(key, key)
            );
        }
        for query in [
            "NextRowKey=1!0!",
            "NextPartitionKey=1!8!U21pdGg-&NextRowKey=",
            "NextPartitionKey=x",
            "NextPartitionKey=1!7!U21pdGg-",
            "NextPartitionKey=2!8!U21pdGg-",
            "NextPartitionKey=1!4!/w--",
            "NextPartitionKey=",
            "NextPartitionKey=1!4!%25%25%25%25",
            "NextPartitionKey=1!-1!",
        ] {
            assert_eq!(next(query), Err(INVALID_INPUT), "{query}");
        }
    }

    #[test]
    fn top_is_a_page() {
        let top = |query: &str| Params::parse(query).and_then(|params| params.top());
        assert_eq!(top(""), Ok(1000));
        assert_eq!(top("%24top=0"), Ok(0));
        assert_eq!(top("$top=1000"), Ok(1000));
        for query in ["$top=1001", "$top=-1", "$top=abc", "$top=", "$top=99999999999999999999"] {
            assert_eq!(top(query), Err(INVALID_INPUT), "{query}");
        }
    }

    #[test]
    fn select_keeps_its_text() {
        let select = |query: &str| Params::parse(query).and_then(|params| params.select());
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let expect = |text: &str, names| Ok(Some(Select { text: text.to_owned(), names }));
        assert_eq!(select(""), Ok(None));
        assert_eq!(select("$select="), expect("", None));
        assert_eq!(select("$select=*"), expect("*", None));
        assert_eq!(select("$select=A%2C+B,,"), expect("A, B,,", names(&["A", "B"])));
        assert_eq!(select("$select=B,A,B"), expect("B,A,B", names(&["B", "A"])));
        assert_eq!(select(&format!("$select={}", "a,".repeat(256))), Err(INVALID_INPUT));
    }

    #[test]
    fn options_that_are_not_served() {
        let check = |query: &str| Params::parse(query).and_then(|params| params.check());
        assert_eq!(check("$orderby=A"), Err(NOT_IMPLEMENTED));
        assert_eq!(check("timeout=x"), Err(INVALID_QUERY_PARAMETER_VALUE));
        assert_eq!(check("a=%ff"), Err(INVALID_QUERY_PARAMETER_VALUE));
        assert_eq!(check("timeout=90&_=1&sig=x&&a"), Ok(()));
        let timeout = |query: &str| Params::parse(query).and_then(|params| params.timeout());
        for (query, seconds) in [
            ("", 30),
            ("timeout=2", 2),
            ("timeout=030", 30),
            ("timeout=31", 30),
            ("timeout=0", 30),
            ("timeout=99999999999999999999999", 30),
        ] {
            assert_eq!(timeout(query), Ok(Duration::from_secs(seconds)), "{query}");
        }
        for query in ["timeout=", "timeout=-1", "timeout=%2B1", "timeout=1.5", "timeout=+1"] {
            assert_eq!(timeout(query), Err(INVALID_QUERY_PARAMETER_VALUE), "{query}");
        }
    }

    #[test]
    fn forms_that_clients_ask_for() {
        let accepts = [
            (None, Metadata::Minimal),
            (Some(""), Metadata::Minimal),
            (Some("application/json"), Metadata::Minimal),
            (Some("application/json;odata=nometadata"), Metadata::None),
            (Some("application/json; ODATA=\"fullmetadata\"; x=y"), Metadata::Full),
            (Some("application/json, application/json; odata=nometadata"), Metadata::Minimal),
            (Some("text/html, application/json;odata=fullmetadata"), Metadata::Full),
            (Some("*/*"), Metadata::Minimal),
        ];
        for (accept, form) in accepts {
            assert_eq!(negotiate(None, accept), Ok(form), "{accept:?}");
        }
        let none = negotiate(Some("application/json;odata=nometadata"), Some("application/xml"));
        assert_eq!(none, Ok(Metadata::None));
        assert_eq!(negotiate(Some("json"), None), Ok(Metadata::Minimal));
        assert_eq!(negotiate(Some("atom"), None), Err(ATOM_FORMAT_NOT_SUPPORTED));
        assert_eq!(negotiate(None, Some("application/atom+xml")), Err(ATOM_FORMAT_NOT_SUPPORTED));
        assert_eq!(negotiate(None, Some("text/html")), Err(MEDIA_TYPE_NOT_SUPPORTED));
        assert_eq!(
            negotiate(None, Some("application/json;odata=verbose")),
            Err(JSON_VERBOSE_FORMAT_NOT_SUPPORTED)
        );
    }
}
