//! Places for connections: so many for all clients together, and so many for one address.
//!
//! Clients that come while all places are taken wait to be accepted. Those that have all the places
//! of their address are turned away at once, so that they cannot make the others wait. An IPv6
//! network of 64 bits counts as one address.

use crate::source::Network;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of a server.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    addresses: Option<Arc<Addresses>>,
}

/// Connections by address, of those who have any.
#[derive(Debug)]
struct Addresses {
    most: usize,
    /// Many clients come through these.
    uncounted: Vec<Network>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_address: Option<PlaceOfAddress>,
}

#[derive(Debug)]
struct PlaceOfAddress {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Drop for PlaceOfAddress {
    fn drop(&mut self) {
        let mut taken = self.addresses.taken.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

impl Places {
    /// `most` places, of which one address gets `most_of_address`, unless it is a proxy's.
    pub(crate) fn new(most: usize, most_of_address: Option<usize>, proxies: &[Network]) -> Places {
        let addresses = most_of_address.map(|most| {
            let taken = Mutex::new(HashMap::new());
            Arc::new(Addresses { most, uncounted: proxies.to_vec(), taken })
        });
        Places { all: Arc::new(Semaphore::new(most)), addresses }
    }

    /// Waits for one of all places.
    pub(crate) async fn take(&self) -> Place {
        // Nobody closes the semaphore, so this is always one.
        let of_all = self.all.clone().acquire_owned().await.ok();
        Place { _of_all: of_all, _of_address: None }
    }

    /// The same place as one of the address, if it has any left.
    pub(crate) fn for_address(&self, place: Place, address: IpAddr) -> Option<Place> {
        let Some(addresses) = &self.addresses else { return Some(place) };
        let address = address.to_canonical();
        if addresses.uncounted.iter().any(|network| network.contains(address)) {
            return Some(place);
        }
        let address = counted(address);
        let mut taken = addresses.taken.lock();
        let count = taken.entry(address).or_insert(0);
        if *count >= addresses.most {
            return None;
        }
        *count += 1;
        let of_address = PlaceOfAddress { addresses: addresses.clone(), address };
        Some(Place { _of_address: Some(of_address), ..place })
    }
}

/// What an address counts as: one of the sixth version as its network, of which whoever has one of
/// it has all.
fn counted(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK_BITS).into(),
    }
}

/// The first half.
const NETWORK_BITS: u128 = u128::MAX << 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn an_address_has_so_many_places_and_gets_them_back() {
        let proxies: Vec<Network> = vec!["10.0.0.0/8".parse().expect("a network")];
        let places = Places::new(100, Some(2), &proxies);
        let one = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().expect("the same address");
        let first = places.for_address(places.take().await, one).expect("a place");
        let second = places.for_address(places.take().await, mapped).expect("a second");
        assert!(places.for_address(places.take().await, one).is_none());
        let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
        assert!(places.for_address(places.take().await, other).is_some());
        drop(first);
        let again = places.for_address(places.take().await, one).expect("the first one's place");
        // Whoever has an address of the sixth version has as many as they like of its network.
        let [one, next, other] = ["2001:db8::1", "2001:db8:0:0:f::2", "2001:db8:0:1::1"]
            .map(|text| text.parse().expect("an address"));
        let sixth = [
            places.for_address(places.take().await, one).expect("a place"),
            places.for_address(places.take().await, next).expect("a second"),
            places.for_address(places.take().await, other).expect("another network's first"),
        ];
        assert!(places.for_address(places.take().await, next).is_none());
        assert!(places.for_address(places.take().await, one).is_none());
        drop(sixth);
        let proxy: IpAddr = "10.1.2.3".parse().expect("an address");
        let through: Vec<Place> =
            vec![places.take().await, places.take().await, places.take().await]
                .into_iter()
                .filter_map(|place| places.for_address(place, proxy))
                .collect();
        assert_eq!(through.len(), 3, "many clients come through a proxy");
        drop((second, again, through));
        let kept = places.addresses.as_ref().expect("counted").taken.lock().len();
        assert_eq!(kept, 0, "who has gone is forgotten");
        assert_eq!(places.all.available_permits(), 100);
    }
}
