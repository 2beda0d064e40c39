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

/// A path in the spellings that may have been signed, the one that was sent first. Proxies and URL
/// libraries respell paths after the client has signed; only who has the key can have signed any.
pub fn path_spellings(account: &str, path: &str) -> Vec<String> {
    let mut spellings = vec![path.to_owned()];
    let mut add = |spelling: String| {
        if !spellings.contains(&spelling) {
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
    }
    spellings
}

#[cfg(test)]
mod tests {
    use super::{path_spellings, resource};

    #[test]
    fn resources() {
        assert_eq!(resource("a", "/a/Tables", None), "/a/a/Tables");
        assert_eq!(resource("a", "", Some("acl")), "/a/?comp=acl");
    }

    #[test]
    fn spellings_start_with_what_was_sent() {
        assert_eq!(path_spellings("a", "/a/Tables"), ["/a/Tables"]);
        assert_eq!(
            path_spellings("a", "/a/T(RowKey='%c3%b4%27')"),
            [
                "/a/T(RowKey='%c3%b4%27')",
                "/a/T%28RowKey%3D%27%C3%B4%27%27%29",
                "/a/T(RowKey=%27%c3%b4%27%27)",
                "/a/T(RowKey='%c3%b4'')",
            ]
        );
        assert!(path_spellings("a", "/a-secondary/T").contains(&"/a/T".to_owned()));
        assert!(!path_spellings("a", "/a-secondaryx").contains(&"/ax".to_owned()));
    }
}
