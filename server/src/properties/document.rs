//! Properties of a service as XML: what clients send, and what they get in the service's spelling.
//!
//! What is read is written again so that it reads the same; accounts keep the written form.

use crate::error::{
    INVALID_XML_DOCUMENT, INVALID_XML_NODE_VALUE, MISSING_REQUIRED_XML_NODE, UNSUPPORTED_XML_NODE,
    WireError,
};
use crate::limits::{
    CORS_ENTRIES_MAX, CORS_ENTRY_CHARS_MAX, CORS_PREFIXES_MAX, CORS_RULES_MAX, CORS_TEXT_BYTES_MAX,
    RETENTION_DAYS,
};
use crate::properties::model::{CorsRule, Given, Logging, Metrics, Properties, RetentionDays};
use crate::xml::{self, Element, Writer};

/// The only version of analytics that there is.
const ANALYTICS_VERSION: &str = "1.0";

/// Verbs that a rule may name: those that Azure's resource manager and old .NET clients have.
const METHODS: [&str; 10] =
    ["CONNECT", "DELETE", "GET", "HEAD", "MERGE", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// Reads a document; what it does not name stays as it is.
pub fn read(document: &[u8]) -> Result<Given, WireError> {
    let root = xml::read(document)?;
    if root.name != "StorageServiceProperties" {
        return Err(INVALID_XML_DOCUMENT);
    }
    let mut given = Given::default();
    for section in &root.children {
        let twice = match section.name.as_str() {
            "Logging" => given.logging.replace(logging(section)?).is_some(),
            // The first versions knew no minutes.
            "HourMetrics" | "Metrics" => given.hour_metrics.replace(metrics(section)?).is_some(),
            "MinuteMetrics" => given.minute_metrics.replace(metrics(section)?).is_some(),
            "Cors" => given.cors.replace(cors(section)?).is_some(),
            _ => return Err(UNSUPPORTED_XML_NODE),
        };
        if twice {
            return Err(INVALID_XML_DOCUMENT);
        }
    }
    Ok(given)
}

fn logging(section: &Element) -> Result<Logging, WireError> {
    check_children(section, &["Version", "Delete", "Read", "Write", "RetentionPolicy"])?;
    check_version(section)?;
    Ok(Logging {
        delete: flag(section, "Delete")?,
        read: flag(section, "Read")?,
        write: flag(section, "Write")?,
        retention: retention(section)?,
    })
}

fn metrics(section: &Element) -> Result<Metrics, WireError> {
    check_children(section, &["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    check_version(section)?;
    let by_operation = section.child("IncludeAPIs").is_some();
    let include_apis = match (flag(section, "Enabled")?, by_operation) {
        (true, _) => Some(flag(section, "IncludeAPIs")?),
        (false, false) => None,
        (false, true) => return Err(INVALID_XML_DOCUMENT),
    };
    Ok(Metrics { include_apis, retention: retention(section)? })
}

fn retention(section: &Element) -> Result<RetentionDays, WireError> {
    let policy = section.child("RetentionPolicy").ok_or(MISSING_REQUIRED_XML_NODE)?;
    check_children(policy, &["Enabled", "Days"])?;
    match (flag(policy, "Enabled")?, policy.child("Days")) {
        (true, Some(_)) => {
            let days = number(policy, "Days")?;
            let days = u16::try_from(days).ok().filter(|days| RETENTION_DAYS.contains(days));
            days.map(Some).ok_or(INVALID_XML_DOCUMENT)
        }
        (true, None) => Err(MISSING_REQUIRED_XML_NODE),
        (false, None) => Ok(None),
        (false, Some(_)) => Err(INVALID_XML_DOCUMENT),
    }
}

fn cors(section: &Element) -> Result<Vec<CorsRule>, WireError> {
    check_kinds(section, &["CorsRule"])?;
    let rules: Vec<CorsRule> = section.children.iter().map(rule).collect::<Result<_, _>>()?;
    let bytes: usize =
        section.children.iter().flat_map(|rule| &rule.children).map(|leaf| leaf.text.len()).sum();
    let fits = rules.len() <= CORS_RULES_MAX && bytes <= CORS_TEXT_BYTES_MAX;
    if fits { Ok(rules) } else { Err(INVALID_XML_DOCUMENT) }
}

fn rule(element: &Element) -> Result<CorsRule, WireError> {
    let names =
        ["AllowedOrigins", "AllowedMethods", "MaxAgeInSeconds", "ExposedHeaders", "AllowedHeaders"];
    check_children(element, &names)?;
    let rule = CorsRule {
        allowed_origins: list(element, "AllowedOrigins")?,
        allowed_methods: list(element, "AllowedMethods")?,
        allowed_headers: list(element, "AllowedHeaders")?,
        exposed_headers: list(element, "ExposedHeaders")?,
        max_age_seconds: number(element, "MaxAgeInSeconds")?,
    };
    if !rule.allowed_methods.iter().all(|method| METHODS.contains(&method.as_str())) {
        return Err(INVALID_XML_NODE_VALUE);
    }
    if rule.allowed_origins.len() > CORS_ENTRIES_MAX {
        return Err(INVALID_XML_DOCUMENT);
    }
    for headers in [&rule.allowed_headers, &rule.exposed_headers] {
        let prefixes = headers.iter().filter(|header| header.ends_with('*') && *header != "*");
        let prefixes = prefixes.count();
        if prefixes > CORS_PREFIXES_MAX || headers.len() - prefixes > CORS_ENTRIES_MAX {
            return Err(INVALID_XML_DOCUMENT);
        }
    }
    Ok(rule)
}

/// The entries of a list between commas. Each of them is a line of visible ASCII.
fn list(element: &Element, name: &str) -> Result<Vec<String>, WireError> {
    let text = element.child_text(name).ok_or(MISSING_REQUIRED_XML_NODE)?;
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let entries = entries.map(|entry| {
        let is_plain = entry.bytes().all(|byte| byte.is_ascii_graphic());
        let is_short = entry.len() <= CORS_ENTRY_CHARS_MAX;
        match (is_plain, is_short) {
            (true, true) => Ok(entry.to_owned()),
            (true, false) => Err(INVALID_XML_DOCUMENT),
            (false, _) => Err(INVALID_XML_NODE_VALUE),
        }
    });
    entries.collect()
}

fn flag(element: &Element, name: &str) -> Result<bool, WireError> {
    match element.child_text(name).ok_or(MISSING_REQUIRED_XML_NODE)? {
        "true" | "True" => Ok(true),
        "false" | "False" => Ok(false),
        _ => Err(INVALID_XML_NODE_VALUE),
    }
}

fn number(element: &Element, name: &str) -> Result<u32, WireError> {
    let text = element.child_text(name).ok_or(MISSING_REQUIRED_XML_NODE)?;
    let number = text.parse().ok().filter(|number| *number <= i32::MAX.cast_unsigned());
    number
        .filter(|_| text.starts_with(|first: char| first.is_ascii_digit()))
        .ok_or(INVALID_XML_NODE_VALUE)
}

fn check_version(section: &Element) -> Result<(), WireError> {
    match section.child_text("Version") {
        Some(ANALYTICS_VERSION) => Ok(()),
        Some(_) => Err(INVALID_XML_NODE_VALUE),
        None => Err(MISSING_REQUIRED_XML_NODE),
    }
}

/// Refuses children of other names, and any that come twice.
fn check_children(element: &Element, names: &[&str]) -> Result<(), WireError> {
    check_kinds(element, names)?;
    let count = |name: &str| element.children.iter().filter(|child| child.name == name).count();
    if names.iter().any(|name| count(name) > 1) { Err(INVALID_XML_DOCUMENT) } else { Ok(()) }
}

fn check_kinds(element: &Element, names: &[&str]) -> Result<(), WireError> {
    let is_known = |child: &Element| names.contains(&child.name.as_str());
    if element.children.iter().all(is_known) { Ok(()) } else { Err(UNSUPPORTED_XML_NODE) }
}

/// Writes all properties of a service.
pub fn write(properties: &Properties) -> Vec<u8> {
    let mut out = Writer::new();
    out.element("StorageServiceProperties", |out| {
        out.element("Logging", |out| {
            let Logging { delete, read, write, retention } = &properties.logging;
            out.leaf("Version", ANALYTICS_VERSION);
            out.leaf("Read", word(*read));
            out.leaf("Write", word(*write));
            out.leaf("Delete", word(*delete));
            write_retention(out, *retention);
        });
        write_metrics(out, "HourMetrics", &properties.hour_metrics);
        write_metrics(out, "MinuteMetrics", &properties.minute_metrics);
        out.element("Cors", |out| properties.cors.iter().for_each(|rule| write_rule(out, rule)));
    });
    out.finish()
}

fn write_metrics(out: &mut Writer, name: &str, metrics: &Metrics) {
    out.element(name, |out| {
        out.leaf("Version", ANALYTICS_VERSION);
        out.leaf("Enabled", word(metrics.include_apis.is_some()));
        if let Some(include_apis) = metrics.include_apis {
            out.leaf("IncludeAPIs", word(include_apis));
        }
        write_retention(out, metrics.retention);
    });
}

fn write_retention(out: &mut Writer, days: RetentionDays) {
    out.element("RetentionPolicy", |out| {
        out.leaf("Enabled", word(days.is_some()));
        if let Some(days) = days {
            out.leaf("Days", &days.to_string());
        }
    });
}

fn write_rule(out: &mut Writer, rule: &CorsRule) {
    out.element("CorsRule", |out| {
        out.leaf("AllowedMethods", &rule.allowed_methods.join(","));
        out.leaf("AllowedOrigins", &rule.allowed_origins.join(","));
        out.leaf("AllowedHeaders", &rule.allowed_headers.join(","));
        out.leaf("ExposedHeaders", &rule.exposed_headers.join(","));
        out.leaf("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
    });
}

fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(inner: &str) -> Result<Given, WireError> {
        read(format!("<StorageServiceProperties>{inner}</StorageServiceProperties>").as_bytes())
    }

    const KEEP: &str = "<RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy>";

    fn logging_of(retention: &str) -> String {
        format!(
            "<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read>\
             <Write>false</Write>{retention}</Logging>"
        )
    }

    fn rule_of(origins: &str, methods: &str, headers: &str) -> String {
        format!(
            "<CorsRule><AllowedOrigins>{origins}</AllowedOrigins>\
             <AllowedMethods>{methods}</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds>\
             <ExposedHeaders /><AllowedHeaders>{headers}</AllowedHeaders></CorsRule>"
        )
    }

    /// Word for word as recorded.
    #[test]
    fn a_fresh_account() {
        let off = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
        let hour = format!(
            "<Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>{KEEP}"
        );
        let minute = format!("<Version>1.0</Version><Enabled>false</Enabled>{off}");
        let expected = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Logging>\
             <Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete>{off}\
             </Logging><HourMetrics>{hour}</HourMetrics><MinuteMetrics>{minute}</MinuteMetrics>\
             <Cors /></StorageServiceProperties>"
        );
        assert_eq!(String::from_utf8_lossy(&write(&Properties::default())), expected);
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let rules = rule_of("http://a,*", "GET,PATCH", "x-ms-*,y*,z").repeat(CORS_RULES_MAX);
        let metrics = |name: &str| {
            format!(
                "<{name}><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false\
                 </IncludeAPIs>{KEEP}</{name}>"
            )
        };
        let all = format!(
            "{}{}{}<Cors>{rules}</Cors>",
            metrics("HourMetrics"),
            metrics("MinuteMetrics"),
            logging_of(KEEP)
        );
        let properties = Properties::default().with(given(&all).expect("good properties"));
        assert_eq!((properties.logging.delete, properties.logging.retention), (true, Some(7)));
        assert_eq!(properties.hour_metrics.include_apis, Some(false));
        assert_eq!(properties.cors[4].allowed_origins, ["http://a", "*"]);
        let again = Properties::default().with(read(&write(&properties)).expect("our own"));
        assert_eq!(again, properties);
    }

    /// Before, rules were kept in the order of `rule_of`.
    #[test]
    fn rules_in_the_order_of_the_service() {
        let kept = rule_of("http://a,http://b", "GET,PUT", "x-ms-*,accept");
        let written = "<CorsRule><AllowedMethods>GET,PUT</AllowedMethods>\
             <AllowedOrigins>http://a,http://b</AllowedOrigins>\
             <AllowedHeaders>x-ms-*,accept</AllowedHeaders><ExposedHeaders />\
             <MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule>";
        let read = given(&format!("<Cors>{kept}</Cors>")).expect("a good rule");
        let text = write(&Properties::default().with(read.clone()));
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains(&format!("<Cors>{written}</Cors>")), "{text}");
        assert_eq!(given(&format!("<Cors>{written}</Cors>")), Ok(read));
    }

    #[test]
    fn what_is_not_named_stays() {
        let before = Properties::default().with(
            given(&format!("{}<Cors>{}</Cors>", logging_of(KEEP), rule_of("*", "GET", "*")))
                .expect("good"),
        );
        assert_eq!(before.hour_metrics, Properties::default().hour_metrics);
        let after = before.clone().with(given("").expect("good"));
        assert_eq!(after, before);
        let after = before.clone().with(given("<Cors/>").expect("good"));
        assert_eq!((after.cors.len(), after.logging), (0, before.logging));
        let old =
            format!("<Metrics><Version>1.0</Version><Enabled>false</Enabled>{KEEP}</Metrics>");
        assert!(given(&old).expect("good").hour_metrics.is_some());
    }

    #[test]
    fn documents_that_are_refused() {
        let days = |days: &str| {
            logging_of(&format!(
                "<RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy>"
            ))
        };
        let metrics =
            |inner: &str| format!("<HourMetrics><Version>1.0</Version>{inner}{KEEP}</HourMetrics>");
        let cors = |rules: &str| format!("<Cors>{rules}</Cors>");
        let many = |count: usize| vec!["http://a"; count].join(",");
        assert!(given(&days("1")).is_ok() && given(&days("365")).is_ok());
        assert!(given(&cors(&rule_of("", "", ""))).is_ok());
        assert!(given(&cors(&rule_of("*", &METHODS.join(","), ""))).is_ok());
        assert!(given(&cors(&rule_of("*", "TRACE,GET,CONNECT", ""))).is_ok());
        assert!(given(&cors(&rule_of(&many(64), "GET", ""))).is_ok());
        for (inner, error) in [
            (days("0"), INVALID_XML_DOCUMENT),
            (days("366"), INVALID_XML_DOCUMENT),
            (days("x"), INVALID_XML_NODE_VALUE),
            (days("+1"), INVALID_XML_NODE_VALUE),
            (logging_of(""), MISSING_REQUIRED_XML_NODE),
            (logging_of(KEEP).replace("1.0", "2.0"), INVALID_XML_NODE_VALUE),
            (logging_of(KEEP).replace("<Read>false</Read>", ""), MISSING_REQUIRED_XML_NODE),
            (logging_of(KEEP).replace("<Read>false", "<Read>no"), INVALID_XML_NODE_VALUE),
            (logging_of(KEEP).repeat(2), INVALID_XML_DOCUMENT),
            (logging_of(&KEEP.repeat(2)), INVALID_XML_DOCUMENT),
            (logging_of(&KEEP.replace("true", "false")), INVALID_XML_DOCUMENT),
            (logging_of(&KEEP.replace("<Days>7</Days>", "")), MISSING_REQUIRED_XML_NODE),
            ("<StaticWebsite/>".to_owned(), UNSUPPORTED_XML_NODE),
            (metrics("<Enabled>true</Enabled>"), MISSING_REQUIRED_XML_NODE),
            (
                metrics("<Enabled>false</Enabled><IncludeAPIs>true</IncludeAPIs>"),
                INVALID_XML_DOCUMENT,
            ),
            (cors(&rule_of("*", "GET", "").repeat(6)), INVALID_XML_DOCUMENT),
            (cors(&rule_of("*", "FETCH", "")), INVALID_XML_NODE_VALUE),
            (cors(&rule_of("*", "GET,trace", "")), INVALID_XML_NODE_VALUE),
            (cors(&rule_of(&many(65), "GET", "")), INVALID_XML_DOCUMENT),
            (cors(&rule_of(&"a".repeat(257), "GET", "")), INVALID_XML_DOCUMENT),
            (cors(&rule_of("*", "GET", "a*,b*,c*")), INVALID_XML_DOCUMENT),
            (cors(&rule_of("http://a&#13;&#10;b", "GET", "")), INVALID_XML_NODE_VALUE),
            (cors(&rule_of(&vec!["x".repeat(250); 9].join(","), "GET", "")), INVALID_XML_DOCUMENT),
            (cors(&rule_of("*", "GET", "").replace(">500<", ">-1<")), INVALID_XML_NODE_VALUE),
            (
                cors(&rule_of("*", "GET", "").replace("<ExposedHeaders />", "")),
                MISSING_REQUIRED_XML_NODE,
            ),
        ] {
            assert_eq!(given(&inner), Err(error), "{inner}");
        }
        assert_eq!(read(b"<Cors/>"), Err(INVALID_XML_DOCUMENT));
        assert_eq!(read(b"<StorageServiceProperties>"), Err(INVALID_XML_DOCUMENT));
    }
}
