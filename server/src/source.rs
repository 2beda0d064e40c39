//! Where requests come from: addresses, ranges of them, and who stands behind a proxy.
//!
//! Promise: an IPv4 address that comes dressed as IPv6 is the IPv4 address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    first: IpAddr,
    last: IpAddr,
}

impl Sources {
    /// Reads `address` or `address-address`; nothing where the two are of different families or
    /// the wrong way round.
    pub fn parse(text: &str) -> Option<Sources> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (address(first)?, address(last)?);
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Sources { first, last })
    }

    /// Whether the address is among them.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// A network: an address, and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether the address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let apart = own.to_bits() ^ other.to_bits();
                apart.leading_zeros() >= self.bits
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let apart = own.to_bits() ^ other.to_bits();
                apart.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoNetwork(String);

impl fmt::Display for NoNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is neither an address nor a network such as 10.0.0.0/8", self.0)
    }
}

impl std::error::Error for NoNetwork {}

/// `address` or `address/bits`.
impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Network, NoNetwork> {
        let read = || {
            let (first, bits) = match text.split_once('/') {
                Some((first, bits)) => (first, Some(bits)),
                None => (text, None),
            };
            let first = address(first)?;
            let most = if first.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
            (bits <= most).then_some(Network { first, bits })
        };
        read().ok_or_else(|| NoNetwork(text.to_owned()))
    }
}

/// Who asks: the peer of the socket or, as long as that is a trusted proxy, the address that it
/// says it asks for. `forwarded`: the values of `X-Forwarded-For` in their order; each proxy adds
/// its own peer at the end. Nothing where a trusted proxy says what is no address.
pub fn behind_proxies<'a>(
    peer: IpAddr,
    forwarded: impl Iterator<Item = &'a str>,
    trusted: &[Network],
) -> Option<IpAddr> {
    let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
    let mut asking = peer.to_canonical();
    if !is_trusted(asking) {
        return Some(asking);
    }
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
    for hop in hops.into_iter().rev() {
        if !is_trusted(asking) {
            break;
        }
        asking = address(without_port(hop))?;
    }
    Some(asking)
}

/// Some proxies add the port: `192.0.2.1:80`, `[2001:db8::1]:80`.
fn without_port(text: &str) -> &str {
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(address, _)| address);
    }
    match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => address,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ranges_include_their_ends() {
        let range = Sources::parse("10.0.0.9-10.0.1.2").expect("a range");
        for inside in ["10.0.0.9", "10.0.0.255", "10.0.1.2", "::ffff:10.0.1.0"] {
            assert!(range.contain(ip(inside)), "{inside}");
        }
        for outside in ["10.0.0.8", "10.0.1.3", "::1", "::a00:9", "::ffff:10.0.1.3"] {
            assert!(!range.contain(ip(outside)), "{outside}");
        }
        let one = Sources::parse("2001:db8::1").expect("one address");
        assert!(one.contain(ip("2001:db8:0::1")) && !one.contain(ip("2001:db8::2")));
        assert!(Sources::parse("::ffff:1.2.3.4").expect("mapped").contain(ip("1.2.3.4")));
        for text in [
            "",
            "-",
            "1.2.3",
            "1.2.3.4-",
            "1.2.3.4-1.2.3.3",
            "1.2.3.4-::1",
            "1.2.3.4 ",
            "01.2.3.4",
            "1.2.3.4-1.2.3.5-1.2.3.6",
            "1.2.3.0/24",
            "localhost",
        ] {
            assert_eq!(Sources::parse(text), None, "{text}");
        }
    }

    #[test]
    fn networks() {
        let network = |text: &str| text.parse::<Network>();
        let inside = |text: &str, address: &str| network(text).expect(text).contains(ip(address));
        assert!(inside("10.1.0.0/16", "10.1.255.255") && !inside("10.1.0.0/16", "10.2.0.0"));
        assert!(inside("127.0.0.1", "127.0.0.1") && !inside("127.0.0.1", "127.0.0.2"));
        assert!(inside("0.0.0.0/0", "9.9.9.9") && !inside("0.0.0.0/0", "::1"));
        assert!(inside("10.0.0.0/8", "::ffff:10.9.9.9"));
        assert!(inside("fd00::/8", "fdff::1") && !inside("fd00::/8", "fe00::1"));
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "/8", "::/129", "10.0.0.0/-1", "x"] {
            assert!(network(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_trusted_proxies_speak_for_others() {
        let trusted = ["10.0.0.0/8".parse().expect("a network")];
        let asking = |peer: &str, forwarded: &[&str]| {
            behind_proxies(ip(peer), forwarded.iter().copied(), &trusted)
        };
        assert_eq!(asking("9.9.9.9", &["1.1.1.1"]), Some(ip("9.9.9.9")));
        assert_eq!(asking("10.0.0.1", &["1.1.1.1"]), Some(ip("1.1.1.1")));
        assert_eq!(asking("::ffff:10.0.0.1", &["1.1.1.1"]), Some(ip("1.1.1.1")));
        // What the client itself wrote stands further to the left.
        assert_eq!(asking("10.0.0.1", &["1.1.1.1, 2.2.2.2"]), Some(ip("2.2.2.2")));
        assert_eq!(asking("10.0.0.1", &["1.1.1.1", "2.2.2.2:80, 10.0.0.2"]), Some(ip("2.2.2.2")));
        assert_eq!(asking("10.0.0.1", &["[2001:db8::1]:80"]), Some(ip("2001:db8::1")));
        assert_eq!(asking("10.0.0.1", &["2001:db8::1"]), Some(ip("2001:db8::1")));
        assert_eq!(asking("10.0.0.1", &[]), Some(ip("10.0.0.1")));
        assert_eq!(asking("10.0.0.1", &["unknown"]), None);
        assert_eq!(
            behind_proxies(ip("10.0.0.1"), ["1.1.1.1"].into_iter(), &[]),
            Some(ip("10.0.0.1"))
        );
    }
}
