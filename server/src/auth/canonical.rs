//! Strings to sign, written once per scheme.

use crate::limits::RESPELLED_PATH_BYTES_MAX;
use crate::odata::literal::{Plus, percent_decoded, percent_encoded};

/// What SharedKey signs.
pub fn shared_key(
    method: &str,
    content_md5: &str,
    content_type: &str,
    date: &str,
    resource: &str,
) -> String {
    format!("{method}\n{content_md5}\n{content_type}\n{date}\n{resource}")
}

/// What SharedKeyLite signs.
pub fn shared_key_lite(date: &str, resource: &str) -> String {
    format!("{date}\n{resource}")
}

/// The resource: the account, the path as it was sent, and of the query only `comp`.
pub fn resource(account: &str, path: &str, comp: Option<&str>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    match comp {
        Some(comp) => format!("/{account}{path}?comp={comp}"),
        None => format!("/{account}{path}"),
    }
}

/// Other spellings of a path that may have been signed. Proxies and URL libraries respell paths
/// after the client has signed; only who has the key can have signed any. None is longer than
/// addresses are: each is signed whoever asks, and of a path of 65,534 bytes they would be several
/// times as long.
pub fn respellings(account: &str, path: &str) -> Vec<String> {
    let mut spellings = Vec::new();
    if path.len() > RESPELLED_PATH_BYTES_MAX {
        return spellings;
    }
    let mut add = |spelling: String| {
        let is_short = spelling.len() <= RESPELLED_PATH_BYTES_MAX;
        if is_short && spelling != path && !spellings.contains(&spelling) {
            spellings.push(spelling);
        }
    };
    if let Some(decoded) = percent_decoded(path, Plus::IsPlus) {
        add(percent_encoded(&decoded, "/"));
    }
    add(path.replace('\'', "%27"));
    add(path.replace("%27", "'"));
    let secondary = format!("/{account}-secondary");
    let rest =
        path.strip_prefix(&secondary).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(rest) = rest {
        add(format!("/{account}{rest}"));
        // Python signs the primary's path and puts the secondary's name before it.
        if rest.starts_with(&format!("/{account}/")) {
            add(rest.to_owned());
        }
    }
    spellings
}

#[cfg(test)]
mod tests {
    use super::{resource, respellings};
    use crate::limits::RESPELLED_PATH_BYTES_MAX;
    use crate::odata::address::entity_path;
    use tabulith::table::rules::KEY_UNITS_MAX;

    #[test]
    fn resources() {
        assert_eq!(resource("a", "/a/Tables", None), "/a/a/Tables");
        assert_eq!(resource("a", "", Some("acl")), "/a/?comp=acl");
    }

    #[test]
    fn spellings_of_proxies_and_libraries() {
        assert!(respellings("a", "/a/Tables").is_empty());
        assert_eq!(
            respellings("a", "/a/T(RowKey='%c3%b4%27')"),
            [
                "/a/T%28RowKey%3D%27%C3%B4%27%27%29",
                "/a/T(RowKey=%27%c3%b4%27%27)",
                "/a/T(RowKey='%c3%b4'')",
            ]
        );
        assert!(respellings("a", "/a-secondary/T").contains(&"/a/T".to_owned()));
        assert!(respellings("a", "/a-secondary/a/T").contains(&"/a/T".to_owned()));
        assert!(respellings("a", "/a-secondary").contains(&"/a".to_owned()));
        assert!(!respellings("a", "/a-secondaryx").contains(&"/ax".to_owned()));
    }

    #[test]
    fn spellings_are_as_long_as_addresses() {
        let (account, table) = ("a".repeat(24), "T".repeat(63));
        for key in ["\u{ffff}", "'", "%"].map(|unit| unit.repeat(KEY_UNITS_MAX)) {
            let path =
                format!("/{account}-secondary/{account}/{}", entity_path(&table, &key, &key));
            // With nothing plain, quotes encoded, and each of the names of the endpoint.
            assert_eq!(respellings(&account, &path).len(), 4, "{} bytes", path.len());
        }
        for bytes in [65_534, RESPELLED_PATH_BYTES_MAX + 1, RESPELLED_PATH_BYTES_MAX] {
            for marks in ["'(", "%27("] {
                let path = format!("/a/{}", marks.repeat(bytes))[..bytes].to_owned();
                let spellings = respellings("a", &path);
                assert!(spellings.len() <= usize::from(bytes == RESPELLED_PATH_BYTES_MAX));
                assert!(spellings.iter().all(|own| own.len() <= RESPELLED_PATH_BYTES_MAX));
            }
        }
    }
}
