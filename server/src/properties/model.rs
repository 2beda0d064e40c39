//! What an account keeps about its table service: logging, metrics, and rules for browsers.
//!
//! Logging and metrics are kept and given back; nothing here acts by them.

/// Properties of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What is logged.
    pub logging: Logging,
    /// What is counted by the hour.
    pub hour_metrics: Metrics,
    /// What is counted by the minute.
    pub minute_metrics: Metrics,
    /// What browsers may do, the first rule that fits first.
    pub cors: Vec<CorsRule>,
}

/// Some of them, to be laid over those that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// What is logged.
    pub logging: Option<Logging>,
    /// What is counted by the hour.
    pub hour_metrics: Option<Metrics>,
    /// What is counted by the minute.
    pub minute_metrics: Option<Metrics>,
    /// Rules in place of all that are there.
    pub cors: Option<Vec<CorsRule>>,
}

impl Default for Properties {
    /// Those of a fresh account: as recorded, it counts by the hour and keeps that for a week.
    fn default() -> Properties {
        Properties {
            logging: Logging::default(),
            hour_metrics: Metrics { include_apis: Some(true), retention: Some(7) },
            minute_metrics: Metrics::default(),
            cors: Vec::new(),
        }
    }
}

impl Properties {
    /// These with what is given in place of what they have.
    pub fn with(self, given: Given) -> Properties {
        Properties {
            logging: given.logging.unwrap_or(self.logging),
            hour_metrics: given.hour_metrics.unwrap_or(self.hour_metrics),
            minute_metrics: given.minute_metrics.unwrap_or(self.minute_metrics),
            cors: given.cors.unwrap_or(self.cors),
        }
    }
}

/// Days for which something is kept; none for ever.
pub type RetentionDays = Option<u16>;

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// Requests that delete.
    pub delete: bool,
    /// Requests that read.
    pub read: bool,
    /// Requests that write.
    pub write: bool,
    /// For how long.
    pub retention: RetentionDays,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Whether anything is and, if so, whether by operation too.
    pub include_apis: Option<bool>,
    /// For how long.
    pub retention: RetentionDays,
}

/// What a browser may do for a page of another origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins of such pages; `*` is every one.
    pub allowed_origins: Vec<String>,
    /// Verbs.
    pub allowed_methods: Vec<String>,
    /// Headers of requests: names, starts of names with `*`, or `*`.
    pub allowed_headers: Vec<String>,
    /// Headers of answers that the page may see, in the same spelling.
    pub exposed_headers: Vec<String>,
    /// How long the browser may go by an answer to its question.
    pub max_age_seconds: u32,
}
