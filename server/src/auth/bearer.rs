//! Bearer tokens: from the text of a JWT to what its bearer may do.
//!
//! Promise: a token counts only inside its time, from a known issuer, for this service. Where keys
//! are configured one of them has signed it; where none are, anybody can make one, and the
//! configuration says so in as many words.

use crate::auth::jwks::Jwks;
use crate::auth::roles::Actions;
use crate::limits::TOKEN_BYTES_MAX;
use crate::tokens::{BearerConfig, COMMON_TENANT, TokenKeys};
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::sync::Arc;
use tabulith::ids::CommitTs;

/// For whom a token of Azure Storage is: its address, or its id.
const AUDIENCES: [&str; 2] = ["https://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"];

/// Judges tokens.
#[derive(Debug)]
pub struct Bearer {
    config: BearerConfig,
    keys: ArcSwap<Jwks>,
}

/// When a token ends, which it must say: in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct End(i64);

impl End {
    /// Whether it still counts at that time.
    pub fn is_after(self, now: CommitTs) -> bool {
        now.seconds() < self.0
    }
}

impl Bearer {
    /// One that has no keys yet.
    pub fn new(config: BearerConfig) -> Bearer {
        Bearer { config, keys: ArcSwap::default() }
    }

    /// Its settings.
    pub fn config(&self) -> &BearerConfig {
        &self.config
    }

    /// Holds signatures against these keys from now on.
    pub fn replace_keys(&self, keys: Jwks) {
        self.keys.store(Arc::new(keys));
    }

    /// What the bearer of a token may do with an account at a time, and until when; nothing where
    /// the token does not count.
    pub fn actions(&self, token: &str, account: &str, now: CommitTs) -> Option<(Actions, End)> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let (header, claims) = (object(header)?, object(claims)?);
        let end = claims.get("exp").and_then(Value::as_i64).map(End)?;
        let known = self.is_signed(&header, message, signature)
            && has_begun(&claims, now)
            && end.is_after(now)
            && self.is_from_issuer(&claims)
            && self.is_for(&claims, account);
        known.then(|| (self.actions_of(&claims), end))
    }

    fn is_signed(&self, header: &Value, message: &str, signature: &str) -> bool {
        if matches!(self.config.keys, TokenKeys::Unchecked) {
            return true;
        }
        let text = |name| header.get(name).and_then(Value::as_str);
        // A token that says what must be understood says something that is not.
        let plain = header.get("crit").is_none();
        match (text("alg"), URL_SAFE_NO_PAD.decode(signature)) {
            (Some(algorithm), Ok(signature)) => {
                let keys = self.keys.load();
                plain && keys.verify(algorithm, text("kid"), message.as_bytes(), &signature)
            }
            _ => false,
        }
    }

    fn is_from_issuer(&self, claims: &Value) -> bool {
        let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        self.config.issuers.iter().map(|known| known.trim_end_matches('/')).any(|known| {
            let rest = issuer.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn is_for(&self, claims: &Value, account: &str) -> bool {
        let own = format!("https://{account}.table.core.windows.net");
        let known = |audience: &str| {
            let audience = audience.strip_suffix('/').unwrap_or(audience);
            let further = self.config.audiences.iter().map(|known| known.trim_end_matches('/'));
            AUDIENCES.contains(&audience)
                || audience == own
                || further.into_iter().any(|known| known == audience)
        };
        texts(claims.get("aud")).into_iter().any(known)
    }

    /// What the token's own roles and scopes allow, and those that are assigned to its object.
    fn actions_of(&self, claims: &Value) -> Actions {
        let object = claims.get("oid").and_then(Value::as_str);
        let assigned = self.config.assignments.iter();
        let assigned = assigned.filter(|(own, _)| Some(own.as_str()) == object);
        let scopes = texts(claims.get("scp")).into_iter().flat_map(|text| text.split(' '));
        let named = texts(claims.get("roles"))
            .into_iter()
            .chain(scopes)
            .chain(assigned.map(|(_, role)| role.as_str()))
            .fold(Actions::default(), |actions, name| actions.and(Actions::named(name)));
        if named != Actions::default() {
            return named;
        }
        let defaults = self.config.default_roles.iter();
        defaults.fold(named, |actions, name| actions.and(Actions::named(name)))
    }
}

/// Where a client gets a token, in the words that SDKs look for.
pub fn challenge(bearer: Option<&Bearer>) -> String {
    let tenant = bearer.map_or(COMMON_TENANT, |bearer| &bearer.config.tenant);
    format!(
        "Bearer authorization_uri=https://login.microsoftonline.com/{tenant}/oauth2/authorize \
         resource_id=https://storage.azure.com"
    )
}

/// A part of a token that is an object of JSON.
fn object(part: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok().filter(Value::is_object)
}

/// Whether it is from `nbf` on, if that is given.
fn has_begun(claims: &Value, now: CommitTs) -> bool {
    match claims.get("nbf") {
        None => true,
        Some(start) => start.as_i64().is_some_and(|start| start <= now.seconds()),
    }
}

/// A text, or a list of texts.
fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
