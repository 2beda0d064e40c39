//! Where a request comes from: its connection, or what a trusted proxy says of it.

use crate::http::message::Head;
use crate::source::{Network, behind_proxies};
use std::net::IpAddr;

/// Where a request comes from, and how.
pub(crate) struct Origin {
    /// Who asks; none where nobody knows.
    pub(crate) peer: Option<IpAddr>,
    /// Whether it came over TLS.
    pub(crate) secure: bool,
}

impl Origin {
    pub(crate) fn of(head: &Head, trusted: &[Network]) -> Origin {
        let Some(peer) = head.peer else { return Origin { peer: None, secure: head.secure } };
        let by_proxy = trusted.iter().any(|network| network.contains(peer));
        let mut protocols = head.headers.all("X-Forwarded-Proto");
        let says_secure = protocols.next().is_some_and(|text| text.trim() == "https")
            && protocols.next().is_none();
        Origin {
            peer: behind_proxies(peer, head.headers.all("X-Forwarded-For"), trusted),
            secure: head.secure || by_proxy && says_secure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, says: &[&str], secure: bool) {
        let mut head = Head { peer: peer.parse().ok(), ..Head::default() };
        for text in says {
            head.headers.push("X-Forwarded-Proto", *text);
        }
        let trusted = ["10.0.0.0/8".parse().expect("a network")];
        assert_eq!(Origin::of(&head, &trusted).secure, secure, "{peer} says {says:?}");
        head.secure = true;
        assert!(Origin::of(&head, &trusted).secure, "it came over TLS itself");
    }

    /// Signatures for HTTPS only depend on it: nobody but a trusted proxy may say so.
    #[test]
    fn only_a_trusted_proxy_says_that_it_came_over_tls() {
        check("10.0.0.7", &["https"], true);
        check("10.0.0.7", &[" https "], true);
        check("10.0.0.7", &[], false);
        check("10.0.0.7", &["http"], false);
        // Who asks may have sent the first one himself.
        check("10.0.0.7", &["https", "http"], false);
        check("10.0.0.7", &["https", "https"], false);
        check("192.0.2.1", &["https"], false);
        check("nowhere", &["https"], false);
    }
}
