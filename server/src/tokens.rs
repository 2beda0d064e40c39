//! Which bearer tokens a server accepts: settings only.

use crate::texts::TextSource;

/// The role that may read and write tables and entities, as Azure names it.
pub const CONTRIBUTOR: &str = "Storage Table Data Contributor";

/// The role that may read tables and entities.
pub const READER: &str = "Storage Table Data Reader";

/// The tenant of whoever has not said which one.
pub const COMMON_TENANT: &str = "common";

/// Who may have issued a token that is accepted without a look at its signature.
const ENTRA_ISSUERS: [&str; 4] = [
    "https://sts.windows.net",
    "https://sts.microsoftonline.de",
    "https://sts.chinacloudapi.cn",
    "https://sts.windows-ppe.net",
];

/// Settings of bearer tokens.
#[derive(Clone, Debug)]
pub struct BearerConfig {
    /// What signatures are held against.
    pub keys: TokenKeys,

    /// Who may have issued a token: the issuer, or what it begins with up to a slash.
    pub issuers: Vec<String>,

    /// For whom a token may be, beside Azure Storage and the account itself.
    pub audiences: Vec<String>,

    /// The tenant that clients without a token are sent to. Default `common`.
    pub tenant: String,

    /// Whether tokens are accepted without TLS: whoever reads one may use it. Default false.
    pub without_tls: bool,

    /// Roles by the `oid` of a token, as role assignments give them on Azure.
    pub assignments: Vec<(String, String)>,

    /// Roles of a token that names none and has none assigned.
    pub default_roles: Vec<String>,
}

/// What signatures of tokens are held against.
#[derive(Clone, Debug)]
pub enum TokenKeys {
    /// Nothing: anybody can make such a token. For development.
    Unchecked,
    /// The keys of a JWKS.
    Jwks(TextSource),
}

impl BearerConfig {
    /// For development: claims are checked, signatures are not, and a token that names no role may
    /// do what a contributor may.
    pub fn basic() -> BearerConfig {
        BearerConfig {
            default_roles: vec![CONTRIBUTOR.to_owned()],
            ..BearerConfig::of(TokenKeys::Unchecked, ENTRA_ISSUERS.map(str::to_owned).to_vec())
        }
    }

    /// Tokens of `issuers`, signed by a key of the JWKS. Who is named no role may do nothing.
    pub fn signed(jwks: TextSource, issuers: Vec<String>) -> BearerConfig {
        BearerConfig::of(TokenKeys::Jwks(jwks), issuers)
    }

    fn of(keys: TokenKeys, issuers: Vec<String>) -> BearerConfig {
        BearerConfig {
            keys,
            issuers,
            audiences: Vec::new(),
            tenant: COMMON_TENANT.to_owned(),
            without_tls: false,
            assignments: Vec::new(),
            default_roles: Vec::new(),
        }
    }
}
