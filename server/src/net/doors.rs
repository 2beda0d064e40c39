//! The doors of a server: where it listens, and how connections come in until it stops.

use crate::config::Config;
use crate::net::admin::Caller;
use crate::net::conn::serve;
use crate::net::counts::{Connections, Reason};
use crate::net::first::{First, Speech, Told};
use crate::net::places::Places;
use crate::net::shared::Shared;
use crate::net::tls::Presented;
use crate::services::base::Store;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Connections of operators at once.
const ADMIN_PLACES: usize = 64;

/// Connections that may wait to be accepted. Where fewer may, those of a burst are reset. Systems
/// have a bound of their own, often this one.
const WAITING_MAX: u32 = 4_096;

/// Most bytes of an answer that wait encrypted until they can leave: all of one that needs no
/// place, and its head. The answer itself is there too as long as not all of it has come so far:
/// with less, more would be held.
const ENCRYPTED_BYTES_MAX: usize = 72 << 10;

/// How long accepting rests after the system refused a connection: files may be short.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// For clients of tables: plain HTTP, or TLS where there is nothing else.
    pub(crate) tables: SocketAddr,
    /// For TLS.
    pub(crate) tls: Option<SocketAddr>,
    /// For operators, if that is a place of its own.
    pub(crate) admin: Option<SocketAddr>,
}

/// A listener, and what it presents where it is one for TLS.
struct Door {
    listener: TcpListener,
    tls: Option<Arc<Presented>>,
    /// Whether it is for operators alone.
    admin: bool,
}

impl Door {
    fn open(addr: SocketAddr, tls: Option<&Arc<Presented>>) -> io::Result<Door> {
        Ok(Door { listener: listen(addr)?, tls: tls.cloned(), admin: false })
    }

    fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port is free again as soon as nobody listens, whatever is left of its connections.
    // Elsewhere the same setting would let two listen at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(WAITING_MAX)
}

/// What all doors lead to.
pub(crate) struct Inside<S> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) places: Places,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) connections: Arc<Connections>,
}

impl<S> Clone for Inside<S> {
    fn clone(&self) -> Inside<S> {
        Inside {
            shared: self.shared.clone(),
            places: self.places.clone(),
            stopping: self.stopping.clone(),
            connections: self.connections.clone(),
        }
    }
}

/// The doors of a server, open: clients wait until they are let in.
pub(crate) struct Doors {
    pub(crate) addresses: Addresses,
    of_tables: Vec<Door>,
    of_admin: Option<Door>,
}

impl Doors {
    /// Listens wherever `config` says, on the event loop that this is called on.
    ///
    /// Errors: an address that cannot be listened on, such as a port in use.
    pub(crate) fn open(config: &Config, presented: Option<&Arc<Presented>>) -> io::Result<Doors> {
        let only = presented.filter(|_| config.tls_only);
        let first = Door::open(config.listen, only)?;
        let tables = first.addr()?;
        let mut addresses = Addresses { tables, tls: only.map(|_| tables), admin: None };
        let mut of_tables = vec![first];
        if let (Some(tls), Some(presented), None) = (&config.tls, presented, only) {
            let door = Door::open(tls.listen, Some(presented))?;
            addresses.tls = Some(door.addr()?);
            of_tables.push(door);
        }
        let of_admin = config.admin.map(|addr| Door::open(addr, None)).transpose()?;
        let of_admin = of_admin.map(|door| Door { admin: true, ..door });
        addresses.admin = of_admin.as_ref().map(Door::addr).transpose()?;
        Ok(Doors { addresses, of_tables, of_admin })
    }

    /// Lets connections in, by tasks that end once they are told to stop and all who came in are
    /// answered.
    pub(crate) fn let_in<S: Store>(self, inside: &Inside<S>) -> JoinSet<()> {
        let told = Arc::new(Told::default());
        let mut accepting = JoinSet::new();
        for door in self.of_tables {
            accepting.spawn(accept(door, inside.clone(), told.clone()));
        }
        if let Some(door) = self.of_admin {
            // With places of its own, and open until the process ends: whoever asks while all
            // others are taken, or while the server stops, is told.
            let (still_open, stopping) = watch::channel(false);
            let places = Places::new(ADMIN_PLACES, None, &[]);
            let shared = inside.shared.clone();
            let inside = Inside { shared, places, stopping, connections: Arc::default() };
            tokio::spawn(async move {
                accept(door, inside, told).await;
                drop(still_open);
            });
        }
        accepting
    }
}

/// Accepts until told to stop, then waits for the connections to finish.
async fn accept<S: Store>(door: Door, inside: Inside<S>, told: Arc<Told>) {
    let Inside { shared, places, mut stopping, connections } = inside;
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let accepted = door.listener.accept().await;
            // Only who is there takes a place: doors that wait would keep them from one another.
            (accepted, places.take().await)
        };
        let (accepted, place) = tokio::select! {
            _ = stopping.changed() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(place) = places.for_address(place, peer.ip()) else {
                    connections.refuse(Reason::Address);
                    tracing::debug!(peer = %peer.ip(), "too many connections of one address");
                    continue;
                };
                let (shared, watcher) = (shared.clone(), graceful.watcher());
                let (told, stopping) = (told.clone(), stopping.clone());
                // A small answer must not wait for the acknowledgement of the one before.
                let _ = stream.set_nodelay(true);
                let (tls, admin, open) = (door.tls.clone(), door.admin, connections.open());
                let connections = connections.clone();
                tokio::spawn(async move {
                    match tls {
                        None => {
                            let stream = First::new(stream, Speech::Plain, told);
                            let caller = Caller { peer: stream.peer(), secure: false, admin };
                            serve(shared, stream, caller, watcher).await;
                        }
                        Some(tls) => {
                            let stream = First::new(stream, Speech::Tls, told);
                            let shaken = serve_tls(shared, stream, &tls, watcher, stopping);
                            // On its own, so that who comes without TLS has no memory for it.
                            if !Box::pin(shaken).await {
                                connections.refuse(Reason::Handshake);
                            }
                        }
                    }
                    drop((place, open));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                connections.refuse(Reason::System);
                tokio::time::sleep(REST_AFTER_REFUSAL).await;
            }
        }
    }
    drop(door);
    graceful.shutdown().await;
}

/// Shakes hands within the time for it, then serves; whether it came to that.
async fn serve_tls<S: Store>(
    shared: Arc<Shared<S>>,
    stream: First,
    tls: &Presented,
    watcher: Watcher,
    mut stopping: watch::Receiver<bool>,
) -> bool {
    let caller = Caller { peer: stream.peer(), secure: true, admin: false };
    let accepting = TlsAcceptor::from(tls.current())
        .accept_with(stream, |tls| tls.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX)));
    let shaken = tokio::select! {
        _ = stopping.changed() => return true,
        shaken = tokio::time::timeout(tls.handshake_time_max(), accepting) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => {
            serve(shared, stream, caller, watcher).await;
            return true;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    false
}
