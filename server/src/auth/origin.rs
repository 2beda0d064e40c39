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
