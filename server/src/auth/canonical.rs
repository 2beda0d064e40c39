//! Strings to sign, written once per scheme.

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
/// after the client has signed; only who has the key can have signed any.
pub fn respellings(account: &str, path: &str) -> Vec<String> {
    let mut spellings = Vec::new();
    let mut add = |spelling: String| {
        if spelling != path && !spellings.contains(&spelling) {
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
}
