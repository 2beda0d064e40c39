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
    /// What a trusted proxy says of its client's connection counts, not its own connection: one
    /// that passes plain requests on over TLS has not made them secure.
    pub(crate) fn of(head: &Head, trusted: &[Network]) -> Origin {
        let Some(peer) = head.peer else { return Origin { peer: None, secure: head.secure } };
        let by_proxy = trusted.iter().any(|network| network.contains(peer));
        let mut protocols = head.headers.all("X-Forwarded-Proto").filter(|_| by_proxy);
        let secure = match (protocols.next(), protocols.next()) {
            (None, _) => head.secure,
            (Some(only), None) => only.trim().eq_ignore_ascii_case("https"),
            // Whoever asks may be the one that sent one of them.
            (Some(_), Some(_)) => false,
        };
        let peer = behind_proxies(peer, head.headers.all("X-Forwarded-For"), trusted);
        Origin { peer, secure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `own`: whether the connection is over TLS itself.
    #[track_caller]
    fn check(peer: &str, own: bool, says: &[&str], secure: bool) {
        let mut head = Head { peer: peer.parse().ok(), secure: own, ..Head::default() };
        for text in says {
            head.headers.push("X-Forwarded-Proto", *text);
        }
        let trusted = ["10.0.0.0/8".parse().expect("a network")];
        assert_eq!(Origin::of(&head, &trusted).secure, secure, "{peer}, {own}, says {says:?}");
    }

    /// Signatures for HTTPS only depend on it: nobody but a trusted proxy may say so.
    #[test]
    fn a_trusted_proxy_says_whether_it_came_over_tls() {
        for own in [false, true] {
            for https in ["https", " https ", "HTTPS"] {
                check("10.0.0.7", own, &[https], true);
            }
            // A proxy may have TLS behind it and none before it.
            for other in ["http", "", "https, http", "https,https", "wss"] {
                check("10.0.0.7", own, &[other], false);
            }
            // Whoever asks may be the one that sent the first.
            check("10.0.0.7", own, &["https", "http"], false);
            check("10.0.0.7", own, &["https", "https"], false);
        }
    }

    #[test]
    fn where_no_trusted_proxy_says_anything_the_connection_does() {
        for own in [false, true] {
            check("10.0.0.7", own, &[], own);
            for says in ["https", "http"] {
                check("192.0.2.1", own, &[says], own);
                check("nowhere", own, &[says], own);
            }
        }
    }
}
