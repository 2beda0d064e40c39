//! A server from its start to its end: what it is made of, and that it stops in order.

use crate::app::App;
use crate::config::{Accounts, Config, ConfigError};
use crate::net::admin::{Admin, Questions, Tables};
use crate::net::counts::Connections;
use crate::net::doors::{Addresses, Doors, Inside};
use crate::net::places::Places;
use crate::net::reload::{Reloader, all};
use crate::net::shared::Shared;
use crate::net::signals::{Signal, Signals};
use crate::net::tls::Presented;
use crate::observe::engine::Engine;
use crate::observe::spans::{Ender, Export, Spans};
use crate::services::base::Store;
use crate::testing::Forks;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::ids::CommitTs;
use tabulith::table::store::TableStore;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// What a server may have beside its tables.
#[derive(Debug, Default)]
pub struct Parts {
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
        Server::start_with(config, store, Parts::default())
    }

    /// The same, with other parts beside the tables.
    pub fn start_with<S: Store>(
        config: Config,
        store: Arc<TableStore<S>>,
        parts: Parts,
    ) -> io::Result<Running> {
        config.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let now = CommitTs(clock.wall_ticks());
        let presented = config.tls.as_ref().map(|tls| Presented::new(tls, now)).transpose()?;
        let presented = presented.map(Arc::new);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let _inside = handle.enter();
        let doors = Doors::open(&config, presented.as_ref())?;
        let addresses = doors.addresses;
        let ids_seed = Uuid::new_v4().as_u64_pair().0;
        let app = App::new(config.clone(), store, clock.clone(), ids_seed);
        let stop_time_max = config.stop_time_max;
        let per_address_max = config.connections_per_address_max;
        let places = Places::new(config.connections_max, per_address_max, &config.trusted_proxies);
        let reloader = Reloader::new(config, app.keyring().clone(), app.bearer().cloned());
        let reloader = Arc::new(reloader);
        reloader.reload()?;
        tokio::spawn(reloader.clone().run());
        let (spans, sending) = parts.export.map(start_spans).unzip();
        let (stop, stopping) = watch::channel(false);
        let connections = Arc::new(Connections::default());
        let (requests, hot) = (app.requests().clone(), app.hot().clone());
        let shared = Shared::new(app).with_spans(spans.clone());
        let (bodies, answers) = shared.rooms();
        let admin = Arc::new(Admin {
            tables: Tables {
                addr: addresses.tables,
                secure: addresses.tls == Some(addresses.tables),
            },
            own_address: addresses.admin.map(|addr| addr.ip()),
            engine: parts.engine,
            questions: Questions::default(),
            forks: parts.forks,
            started: AtomicBool::new(!parts.is_made_ready_later),
            stopping: stopping.clone(),
            clock,
            requests,
            hot,
            connections: connections.clone(),
            spans,
            bodies,
            answers,
        });
        let shared = Arc::new(shared.with_admin(admin.clone()));
        let accepting = doors.let_in(&Inside { shared, places, stopping, connections });
        let runtime = Some(runtime);
        Ok(Running {
            runtime,
            accepting,
            stop,
            addresses,
            admin,
            presented,
            sending,
            stop_time_max,
            reloader,
            signals: None,
        })
    }
}

/// Begins to send spans to whoever collects them.
fn start_spans(export: Arc<dyn Export>) -> (Arc<Spans>, Ender) {
    let (spans, outgoing) = Spans::new(export);
    let sending = Ender::start(spans.clone(), outgoing);
    (spans, sending)
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    runtime: Option<Runtime>,
    accepting: JoinSet<()>,
    stop: watch::Sender<bool>,
    addresses: Addresses,
    admin: Arc<Admin>,
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
        self.addresses.tables
    }

    /// Where it listens for TLS, if it does.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.addresses.tls
    }

    /// Where it listens for operators, if that is a place of its own.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.addresses.admin
    }

    /// By which others can tell that it lives.
    pub fn heart(&self) -> Heart {
        Heart(self.runtime.as_ref().map(|runtime| runtime.handle().clone()))
    }

    /// From now on it says that it is ready, as long as it is.
    pub fn set_ready(&self) {
        self.admin.started.store(true, Ordering::Release);
    }

    /// The certificate that it made for itself, in PEM, for clients to trust.
    pub fn own_certificate(&self) -> Option<&str> {
        self.presented.as_ref().and_then(|presented| presented.made())
    }

    /// Reads the texts of accounts and of token issuers' keys now, which happens every minute
    /// anyway, and the certificates, for connections from now on. Those that are open go on.
    ///
    /// Errors: all that does not read, in one line; it stays as it was.
    pub fn reload(&self) -> io::Result<()> {
        self.files().reload()
    }

    fn files(&self) -> Files {
        Files { reloader: self.reloader.clone(), presented: self.presented.clone() }
    }

    /// Stops accepting, answers what is in flight for at most
    /// [`Config::stop_time_max`](crate::config::Config::stop_time_max), and returns.
    pub fn stop(mut self) {
        self.shut_down();
    }

    /// From here on a signal waits for [`Running::wait_for_signal_and`] and does not end the
    /// process by itself. Before anybody is told that the server is there.
    pub fn listen_for_signals(&mut self) -> io::Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        self.signals = Some(Signals::new()?);
        Ok(())
    }

    /// Serves until the process is asked to end (SIGTERM, SIGINT or Ctrl-C), does `stopping`, then
    /// stops as [`Running::stop`] does. A second signal returns at once. SIGHUP has files read
    /// anew, as [`Running::reload`] does.
    pub fn wait_for_signal_and(mut self, stopping: impl FnOnce()) -> io::Result<()> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        runtime.block_on(async {
            let mut signals = match self.signals.take() {
                Some(signals) => signals,
                None => Signals::new()?,
            };
            self.files().reload_until_end(&mut signals).await;
            tracing::info!("stopping");
            stopping();
            let _ = self.stop.send(true);
            // A second one ends it at once. Files are not read anew any more.
            tokio::select! {
                () = signals.end() => {}
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

/// What is read anew when somebody asks for it.
#[derive(Clone)]
struct Files {
    reloader: Arc<Reloader>,
    presented: Option<Arc<Presented>>,
}

impl Files {
    fn reload(&self) -> io::Result<()> {
        let certificates = match &self.presented {
            Some(presented) => presented.reload().map_err(io::Error::from),
            None => Ok(()),
        };
        all([self.reloader.reload(), certificates])
    }

    /// Reads them at each hangup until the process is asked to end. A disk that gives nothing keeps
    /// nobody from being heard: one thread waits for it, and whoever asks meanwhile is next.
    async fn reload_until_end(&self, signals: &mut Signals) {
        let mut reading = JoinSet::new();
        let mut asked_again = false;
        loop {
            tokio::select! {
                signal = signals.next() => match signal {
                    Signal::End => return,
                    Signal::Hangup if reading.is_empty() => self.begin(&mut reading),
                    Signal::Hangup => asked_again = true,
                },
                Some(_) = reading.join_next() => {
                    if std::mem::take(&mut asked_again) {
                        self.begin(&mut reading);
                    }
                }
            }
        }
    }

    fn begin(&self, reading: &mut JoinSet<()>) {
        let own = self.clone();
        reading.spawn_blocking(move || match own.reload() {
            Ok(()) => tracing::info!("files were read anew"),
            Err(error) => tracing::error!(%error, "what did not read stays as it was"),
        });
    }
}

/// How a server's event loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// It goes on.
    Beats,
    /// It did nothing within the time, and may yet.
    Late,
    /// It has ended.
    Gone,
}

/// By which others look whether a server's event loop goes on.
#[derive(Clone, Debug)]
pub struct Heart(Option<Handle>);

impl Heart {
    /// Whether something is done on it within that time.
    pub fn pulse(&self, time_max: Duration) -> Pulse {
        let Some(handle) = &self.0 else { return Pulse::Gone };
        let (done, heard) = std::sync::mpsc::channel();
        handle.spawn(async move { done.send(()) });
        match heard.recv_timeout(time_max) {
            Ok(()) => Pulse::Beats,
            Err(RecvTimeoutError::Timeout) => Pulse::Late,
            Err(RecvTimeoutError::Disconnected) => Pulse::Gone,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// How long the last spans may take beyond the time to stop, and at most: their collector may be
/// gone.
const SPANS_TIME_MIN: Duration = Duration::from_millis(500);
const SPANS_TIME_MAX: Duration = Duration::from_secs(2);

#[expect(clippy::disallowed_methods, reason = "timeouts go by tokio's clock, which tests pause")]
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
