//! Settings of tables and of the service: stored policies, metrics, rules of CORS, replication.

use crate::sas::Permissions;
use crate::value::DateTime;
use crate::xml::{self, DECLARATION, Element};

/// A stored policy of a table, which signatures refer to by its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Its id, 1 to 64 characters.
    pub id: String,
    /// From when on it holds.
    pub start: Option<DateTime>,
    /// When it ends.
    pub expiry: Option<DateTime>,
    /// What it allows.
    pub permissions: Option<Permissions>,
}

/// The document that sets the policies of a table.
pub(crate) fn write_policies(policies: &[StoredPolicy]) -> String {
    let mut out = DECLARATION.to_owned();
    xml::element(&mut out, "SignedIdentifiers", |out| {
        for policy in policies {
            xml::element(out, "SignedIdentifier", |out| {
                xml::leaf(out, "Id", &policy.id);
                xml::element(out, "AccessPolicy", |out| {
                    for (name, moment) in [("Start", policy.start), ("Expiry", policy.expiry)] {
                        if let Some(moment) = moment {
                            xml::leaf(out, name, &moment.to_string());
                        }
                    }
                    if let Some(permissions) = policy.permissions {
                        xml::leaf(out, "Permission", &permissions.text());
                    }
                });
            });
        }
    });
    out
}

/// The policies that a document holds, or what is wrong with it.
pub(crate) fn read_policies(document: &[u8]) -> Result<Vec<StoredPolicy>, String> {
    let root = root(document, "SignedIdentifiers")?;
    root.children.iter().map(read_policy).collect()
}

fn read_policy(element: &Element) -> Result<StoredPolicy, String> {
    let policy = element.child("AccessPolicy").cloned().unwrap_or_default();
    let moment = |name: &str| match policy.child_text(name) {
        Some(text) => text.parse().map(Some).map_err(|_| format!("{name} is no moment")),
        None => Ok(None),
    };
    Ok(StoredPolicy {
        id: element.child_text("Id").unwrap_or_default().to_owned(),
        start: moment("Start")?,
        expiry: moment("Expiry")?,
        permissions: policy.child_text("Permission").map(Permissions::read_from),
    })
}

/// Settings of the service. What is `None` stays as it is when they are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    /// What of requests is logged.
    pub logging: Option<Logging>,
    /// Metrics by the hour.
    pub hour_metrics: Option<Metrics>,
    /// Metrics by the minute.
    pub minute_metrics: Option<Metrics>,
    /// Which pages of which origins may call; an empty list clears the rules.
    pub cors: Option<Vec<CorsRule>>,
}

/// What of requests is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// Deletes.
    pub delete: bool,
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Days that logs are kept; `None` for ever.
    pub retention_days: Option<u32>,
}

/// Metrics of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Whether there are any.
    pub enabled: bool,
    /// Whether they are told apart by operation; only where there are any.
    pub include_apis: bool,
    /// Days that they are kept; `None` for ever.
    pub retention_days: Option<u32>,
}

/// A rule that lets pages of other origins call the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins, or `*`.
    pub allowed_origins: Vec<String>,
    /// Verbs.
    pub allowed_methods: Vec<String>,
    /// Headers of requests, `*` at their end for all that begin so.
    pub allowed_headers: Vec<String>,
    /// Headers of answers.
    pub exposed_headers: Vec<String>,
    /// How long a browser may remember the answer to its question.
    pub max_age_seconds: u32,
}

/// The document that sets the service's properties.
pub(crate) fn write_properties(properties: &ServiceProperties) -> String {
    let mut out = DECLARATION.to_owned();
    xml::element(&mut out, "StorageServiceProperties", |out| {
        if let Some(logging) = properties.logging {
            xml::element(out, "Logging", |out| {
                xml::leaf(out, "Version", "1.0");
                write_flag(out, "Delete", logging.delete);
                write_flag(out, "Read", logging.read);
                write_flag(out, "Write", logging.write);
                write_retention(out, logging.retention_days);
            });
        }
        let metrics = [
            ("HourMetrics", properties.hour_metrics),
            ("MinuteMetrics", properties.minute_metrics),
        ];
        for (name, metrics) in metrics {
            if let Some(metrics) = metrics {
                xml::element(out, name, |out| write_metrics(out, metrics));
            }
        }
        if let Some(rules) = &properties.cors {
            xml::element(out, "Cors", |out| rules.iter().for_each(|rule| write_rule(out, rule)));
        }
    });
    out
}

fn write_flag(out: &mut String, name: &str, flag: bool) {
    xml::leaf(out, name, if flag { "true" } else { "false" });
}

fn write_metrics(out: &mut String, metrics: Metrics) {
    xml::leaf(out, "Version", "1.0");
    write_flag(out, "Enabled", metrics.enabled);
    if metrics.enabled {
        write_flag(out, "IncludeAPIs", metrics.include_apis);
    }
    write_retention(out, metrics.retention_days);
}

fn write_retention(out: &mut String, days: Option<u32>) {
    xml::element(out, "RetentionPolicy", |out| {
        write_flag(out, "Enabled", days.is_some());
        if let Some(days) = days {
            xml::leaf(out, "Days", &days.to_string());
        }
    });
}

fn write_rule(out: &mut String, rule: &CorsRule) {
    xml::element(out, "CorsRule", |out| {
        xml::leaf(out, "AllowedOrigins", &rule.allowed_origins.join(","));
        xml::leaf(out, "AllowedMethods", &rule.allowed_methods.join(","));
        xml::leaf(out, "MaxAgeInSeconds", &rule.max_age_seconds.to_string());
        xml::leaf(out, "ExposedHeaders", &rule.exposed_headers.join(","));
        xml::leaf(out, "AllowedHeaders", &rule.allowed_headers.join(","));
    });
}

/// The properties that a document holds, or what is wrong with it.
pub(crate) fn read_properties(document: &[u8]) -> Result<ServiceProperties, String> {
    let root = root(document, "StorageServiceProperties")?;
    let rules = |cors: &Element| cors.children.iter().map(read_rule).collect();
    Ok(ServiceProperties {
        logging: root.child("Logging").map(|logging| Logging {
            delete: read_flag(logging, "Delete"),
            read: read_flag(logging, "Read"),
            write: read_flag(logging, "Write"),
            retention_days: read_retention(logging),
        }),
        hour_metrics: root.child("HourMetrics").map(read_metrics),
        minute_metrics: root.child("MinuteMetrics").map(read_metrics),
        cors: root.child("Cors").map(rules),
    })
}

fn read_flag(element: &Element, name: &str) -> bool {
    element.child_text(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

fn read_metrics(element: &Element) -> Metrics {
    Metrics {
        enabled: read_flag(element, "Enabled"),
        include_apis: read_flag(element, "IncludeAPIs"),
        retention_days: read_retention(element),
    }
}

fn read_retention(element: &Element) -> Option<u32> {
    let policy = element.child("RetentionPolicy").filter(|policy| read_flag(policy, "Enabled"))?;
    policy.child_text("Days")?.parse().ok()
}

fn read_rule(rule: &Element) -> CorsRule {
    let list = |name: &str| {
        let text = rule.child_text(name).unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    CorsRule {
        allowed_origins: list("AllowedOrigins"),
        allowed_methods: list("AllowedMethods"),
        allowed_headers: list("AllowedHeaders"),
        exposed_headers: list("ExposedHeaders"),
        max_age_seconds: rule
            .child_text("MaxAgeInSeconds")
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
    }
}

/// How far the second region is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStats {
    /// `live`, `bootstrap` or `unavailable`.
    pub status: String,
    /// All writes before this moment can be read there, in the service's words; `None` where it
    /// is not live.
    pub last_sync: Option<String>,
}

/// The stats that a document holds, or what is wrong with it.
pub(crate) fn read_stats(document: &[u8]) -> Result<ServiceStats, String> {
    let root = root(document, "StorageServiceStats")?;
    let geo = root.child("GeoReplication").ok_or("no GeoReplication in the answer")?;
    Ok(ServiceStats {
        status: geo.child_text("Status").unwrap_or_default().to_owned(),
        last_sync: geo.child_text("LastSyncTime").map(str::to_owned),
    })
}

fn root(document: &[u8], name: &str) -> Result<Element, String> {
    let root = xml::read(document).filter(|root| root.name == name);
    root.ok_or_else(|| format!("no {name} in the answer"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn policies_come_back() {
        let policies = [
            StoredPolicy {
                id: "a<b".to_owned(),
                start: Some("2020-01-01T00:00:00Z".parse().unwrap()),
                expiry: Some("2030-01-01T00:00:00.25Z".parse().unwrap()),
                permissions: Some(Permissions::READ),
            },
            StoredPolicy { id: "empty".to_owned(), ..StoredPolicy::default() },
        ];
        assert_eq!(read_policies(write_policies(&policies).as_bytes()).unwrap(), policies);
        assert_eq!(read_policies(b"<SignedIdentifiers />").unwrap(), []);
        assert!(read_policies(b"<html/>").is_err());
    }

    #[test]
    fn properties_come_back_and_what_is_not_given_is_not_written() {
        let properties = ServiceProperties {
            logging: Some(Logging { read: true, retention_days: Some(7), ..Logging::default() }),
            hour_metrics: Some(Metrics { enabled: true, include_apis: true, retention_days: None }),
            minute_metrics: None,
            cors: Some(vec![CorsRule {
                allowed_origins: vec!["http://a".to_owned(), "http://b".to_owned()],
                allowed_methods: vec!["GET".to_owned()],
                max_age_seconds: 5,
                ..CorsRule::default()
            }]),
        };
        let document = write_properties(&properties);
        assert!(!document.contains("MinuteMetrics"));
        assert_eq!(read_properties(document.as_bytes()).unwrap(), properties);
    }

    #[test]
    fn stats_are_read() {
        let text = "<StorageServiceStats><GeoReplication><Status>bootstrap</Status><LastSyncTime/></GeoReplication></StorageServiceStats>";
        let stats = read_stats(text.as_bytes()).unwrap();
        assert_eq!((stats.status.as_str(), stats.last_sync), ("bootstrap", None));
    }
}
