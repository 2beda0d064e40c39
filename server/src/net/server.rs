//! The listener: accepts, bounds, and stops in order.

use crate::app::App;
use crate::config::{Accounts, Config, ConfigError};
use crate::net::admin::{Admin, Origin, Tables};
use crate::net::conn::{Shared, serve};
use crate::net::counts::{Connections, Reason};
use crate::net::first::{First, Speech, Told};
use crate::net::places::Places;
use crate::net::reload::Reloader;
use crate::net::tls::Presented;
use crate::observe::engine::Engine;
use crate::observe::spans::{Ender, Export, Spans};
use crate::services::Store;
use crate::testing::Forks;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::ids::CommitTs;
use tabulith::table::store::TableStore;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// What stands behind a server beside its tables.
#[derive(Debug, Default)]
pub struct House {
    /// Whose numbers are told to operators, and who says whether commits are taken.
    pub engine: Option<Arc<dyn Engine>>,
    /// Who makes copies of all data for tests of applications. With it, whoever may ask whether the
    /// server is ready may destroy all data as well.
    pub forks: Option<Arc<dyn Forks>>,
    /// Who sends spans of requests to those who collect traces.
    pub export: Option<Arc<dyn Export>>,
    /// Whether it is not ready before [`Running::set_ready`] says so.
    pub is_made_ready_later: bool,
}

impl Server {
    /// Starts a server over `store` on threads of its own, and returns once it listens.
    ///
    /// Errors: settings that cannot be, certificates among them (`InvalidInput`); an address that
    /// cannot be listened on, such as a port in use.
    pub fn start<S: Store>(config: Config, store: Arc<TableStore<S>>) -> io::Result<Running> {
        Server::start_in(config, store, House::default())
    }

    /// The same, with what stands behind it.
    pub fn start_in<S: Store>(
        config: Config,
        store: Arc<TableStore<S>>,
        house: House,
    ) -> io::Result<Running> {
        config.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let now = CommitTs(clock.wall_ticks());
        let presented = config.tls.as_ref().map(|tls| Presented::new(tls, now)).transpose()?;
        let presented = presented.map(Arc::new);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(async { listen(config.listen) })?;
        let addr = listener.local_addr()?;
        let only = presented.clone().filter(|_| config.tls_only);
        let mut tls_addr = only.as_ref().map(|_| addr);
        let mut doors = vec![Door { listener, tls: only, admin: false }];
        if let (Some(tls), Some(presented), false) = (&config.tls, &presented, config.tls_only) {
            let listener = runtime.block_on(async { listen(tls.listen) })?;
            tls_addr = Some(listener.local_addr()?);
            doors.push(Door { listener, tls: Some(presented.clone()), admin: false });
        }
        let admin_listener =
            config.admin.map(|addr| runtime.block_on(async { listen(addr) })).transpose()?;
        let admin_addr = admin_listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let stop_time_max = config.stop_time_max;
        let per_address_max = config.connections_per_address_max;
        let places = Places::new(config.connections_max, per_address_max, &config.trusted_proxies);
        let ids_seed = Uuid::new_v4().as_u64_pair().0;
        let app = App::new(config.clone(), store, clock.clone(), ids_seed);
        let reloader = Reloader::new(config, app.keyring().clone(), app.bearer().cloned());
        let reloader = Arc::new(reloader);
        reloader.reload()?;
        runtime.spawn(reloader.clone().run());
        let (stop, stopping) = watch::channel(false);
        let connections = Arc::new(Connections::default());
        let mut admin = None;
        let (spans, sending) = match house.export.map(Spans::new) {
            Some((spans, outgoing)) => {
                let _inside = runtime.enter();
                (Some(spans.clone()), Some(Ender::start(spans, outgoing)))
            }
            None => (None, None),
        };
        let shared = Shared::new(app).with_spans(spans.clone()).with_admin(|shared| {
            let (bodies, answers) = shared.rooms();
            let own = Arc::new(Admin {
                tables: Tables { addr, secure: tls_addr == Some(addr) },
                has_own_address: admin_addr.is_some(),
                engine: house.engine,
                forks: house.forks,
                started: AtomicBool::new(!house.is_made_ready_later),
                stopping: stopping.clone(),
                clock,
                requests: shared.app.requests().clone(),
                hot: shared.app.hot().clone(),
                connections: connections.clone(),
                spans,
                bodies,
                answers,
            });
            admin = Some(own.clone());
            own
        });
        let shared = Arc::new(shared);
        let told = Arc::new(Told::default());
        let mut accepting = JoinSet::new();
        for door in doors {
            let inside = Inside {
                shared: shared.clone(),
                places: places.clone(),
                told: told.clone(),
                stopping: stopping.clone(),
                connections: connections.clone(),
            };
            accepting.spawn_on(accept(door, inside), runtime.handle());
        }
        if let Some(listener) = admin_listener {
            // With places of its own, and open until the process ends: whoever asks while all others
            // are taken, or while the server stops, is told.
            let (still_open, stopping) = watch::channel(false);
            let inside = Inside {
                shared: shared.clone(),
                places: Places::new(ADMIN_PLACES, None, &[]),
                told: told.clone(),
                stopping,
                connections: Arc::default(),
            };
            let door = Door { listener, tls: None, admin: true };
            runtime.spawn(async move {
                accept(door, inside).await;
                drop(still_open);
            });
        }
        let runtime = Some(runtime);
        Ok(Running {
            runtime,
            accepting,
            stop,
            addr,
            tls_addr,
            admin_addr,
            admin,
            presented,
            sending,
            stop_time_max,
            reloader,
            signals: None,
        })
    }
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    runtime: Option<Runtime>,
    accepting: JoinSet<()>,
    stop: watch::Sender<bool>,
    addr: SocketAddr,
    tls_addr: Option<SocketAddr>,
    admin_addr: Option<SocketAddr>,
    admin: Option<Arc<Admin>>,
    presented: Option<Arc<Presented>>,
    sending: Option<Ender>,
    stop_time_max: Duration,
    reloader: Arc<Reloader>,
    signals: Option<Signals>,
}

impl Running {
    /// The names of the accounts that are served, in order.
    pub fn account_names(&self) -> Vec<String> {
        self.reloader.account_names()
    }

    /// Serves these accounts and no others from the next request on.
    ///
    /// Errors: the published development key, where it must not be served.
    pub fn set_accounts(&self, accounts: Accounts) -> Result<(), ConfigError> {
        self.reloader.set_accounts(accounts)
    }

    /// Where it listens for plain HTTP.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens for TLS, if it does.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_addr
    }

    /// Where it listens for operators, if that is a place of its own.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin_addr
    }

    /// By which others can tell that it lives.
    pub fn heart(&self) -> Heart {
        Heart(self.runtime.as_ref().map(|runtime| runtime.handle().clone()))
    }

    /// From now on it says that it is ready, as long as it is.
    pub fn set_ready(&self) {
        if let Some(admin) = &self.admin {
            admin.started.store(true, Ordering::Release);
        }
    }

    /// The certificate that it made for itself, in PEM, for clients to trust.
    pub fn own_certificate(&self) -> Option<&str> {
        self.presented.as_ref().and_then(|presented| presented.made())
    }

    /// Reads the texts of accounts and of token issuers' keys now, which happens every minute
    /// anyway, and the certificates, for connections from now on. Those that are open go on.
    ///
    /// Errors: what does not read; it stays as it was.
    pub fn reload(&self) -> io::Result<()> {
        let texts = self.reloader.reload();
        if let Some(presented) = &self.presented {
            presented.reload()?;
        }
        texts
    }

    /// Stops accepting, answers what is in flight for at most
    /// [`Config::stop_time_max`](crate::config::Config::stop_time_max), and returns.
    pub fn stop(mut self) {
        self.shut_down();
    }

    /// From here on a signal waits for [`Running::wait_for_signal`] and does not end the process by
    /// itself. Before anybody is told that the server is there.
    pub fn listen_for_signals(&mut self) -> io::Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        self.signals = Some(Signals::new()?);
        Ok(())
    }

    /// Serves until the process is asked to end (SIGTERM, SIGINT or Ctrl-C), then stops as
    /// [`Running::stop`] does. A second signal returns at once. SIGHUP has files read anew,
    /// as [`Running::reload`] does.
    pub fn wait_for_signal(self) -> io::Result<()> {
        self.wait_for_signal_and(|| {})
    }

    /// The same, and does `stopping` as soon as it is asked to end.
    pub fn wait_for_signal_and(mut self, stopping: impl FnOnce()) -> io::Result<()> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        runtime.block_on(async {
            let mut signals = match self.signals.take() {
                Some(signals) => signals,
                None => Signals::new()?,
            };
            while signals.next().await == Signal::Hangup {
                match self.reload() {
                    Ok(()) => tracing::info!("files were read anew"),
                    Err(error) => tracing::error!(%error, "what did not read stays as it was"),
                }
            }
            tracing::info!("stopping");
            stopping();
            let _ = self.stop.send(true);
            tokio::select! {
                _ = signals.next() => {}
                () = finish(&mut self.accepting, &mut self.sending, self.stop_time_max) => {}
            }
            io::Result::Ok(())
        })?;
        runtime.shutdown_background();
        Ok(())
    }

    fn shut_down(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let _ = self.stop.send(true);
        runtime.block_on(finish(&mut self.accepting, &mut self.sending, self.stop_time_max));
        runtime.shutdown_background();
    }
}

/// Whether a server's event loop goes on.
#[derive(Clone, Debug)]
pub struct Heart(Option<Handle>);

impl Heart {
    /// Whether something is done on it within that time.
    pub fn beats(&self, time_max: Duration) -> bool {
        let Some(handle) = &self.0 else { return false };
        let (done, heard) = std::sync::mpsc::channel();
        handle.spawn(async move { done.send(()) });
        heard.recv_timeout(time_max).is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Connections that may wait to be accepted. Where fewer may, those of a burst are reset. Systems
/// have a bound of their own, often this one.
const WAITING_MAX: u32 = 4_096;

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port is free again as soon as nobody listens, whatever is left of its connections.
    // Elsewhere the same setting would let two listen at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(WAITING_MAX)
}

/// How long the last spans may take beyond the time to stop, and at most: their collector may be gone.
const SPANS_TIME_MIN: Duration = Duration::from_millis(500);
const SPANS_TIME_MAX: Duration = Duration::from_secs(2);

async fn finish(accepting: &mut JoinSet<()>, sending: &mut Option<Ender>, time_max: Duration) {
    let began = tokio::time::Instant::now();
    let all = async { while accepting.join_next().await.is_some() {} };
    if tokio::time::timeout(time_max, all).await.is_err() {
        tracing::warn!("requests were still in flight when the time to stop was over");
    }
    if let Some(sending) = sending.take() {
        let left = time_max.saturating_sub(began.elapsed());
        sending.end(left.clamp(SPANS_TIME_MIN, SPANS_TIME_MAX)).await;
    }
}

/// Connections of operators at once.
const ADMIN_PLACES: usize = 64;

/// A listener, and what it presents where it is one for TLS.
struct Door {
    listener: TcpListener,
    tls: Option<Arc<Presented>>,
    /// Whether it is for operators alone.
    admin: bool,
}

/// What all doors lead to.
struct Inside<S> {
    shared: Arc<Shared<S>>,
    places: Places,
    told: Arc<Told>,
    stopping: watch::Receiver<bool>,
    connections: Arc<Connections>,
}

/// How long accepting rests after the system refused a connection: files may be short.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// Accepts until told to stop, then waits for the connections to finish.
async fn accept<S: Store>(door: Door, inside: Inside<S>) {
    let Inside { shared, places, told, mut stopping, connections } = inside;
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
                            let origin = Origin { peer: stream.peer(), secure: false, admin };
                            serve(shared, stream, origin, watcher).await;
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
    let origin = Origin { peer: stream.peer(), secure: true, admin: false };
    let accepting = TlsAcceptor::from(tls.current()).accept(stream);
    let shaken = tokio::select! {
        _ = stopping.changed() => return true,
        shaken = tokio::time::timeout(tls.handshake_time_max(), accepting) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => {
            serve(shared, stream, origin, watcher).await;
            return true;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    false
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    End,
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has it"))]
    Hangup,
}

/// The signals that ask a process to end, or to look at its files anew.
#[derive(Debug)]
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { terminate, interrupt, hangup: signal(SignalKind::hangup())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::End,
            _ = self.interrupt.recv() => Signal::End,
            _ = self.hangup.recv() => Signal::Hangup,
        }
    }

    #[cfg(not(unix))]
    fn new() -> io::Result<Signals> {
        Ok(Signals {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) -> Signal {
        // Without a way to listen for Ctrl-C there is no way to be asked.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::End
    }
}
