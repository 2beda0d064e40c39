//! The listener: accepts, bounds, and stops in order.

use crate::app::App;
use crate::config::{Accounts, Config, ConfigError};
use crate::net::conn::{Shared, serve};
use crate::net::reload::Reloader;
use crate::services::Store;
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::table::store::TableStore;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts a server over `store` on threads of its own, and returns once it listens.
    ///
    /// Errors: settings that cannot be (`InvalidInput`); an address that cannot be listened on,
    /// such as a port in use.
    pub fn start<S: Store>(config: Config, store: Arc<TableStore<S>>) -> io::Result<Running> {
        config.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(config.listen))?;
        let addr = listener.local_addr()?;
        let stop_time_max = config.stop_time_max;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ids_seed = Uuid::new_v4().as_u64_pair().0;
        let app = App::new(config.clone(), store, clock, ids_seed);
        let reloader = Reloader::new(config, app.keyring().clone(), app.bearer().cloned());
        let reloader = Arc::new(reloader);
        reloader.reload()?;
        runtime.spawn(reloader.clone().run());
        let (stop, stopping) = watch::channel(false);
        let accepting = runtime.spawn(accept(listener, Arc::new(Shared::new(app)), stopping));
        Ok(Running {
            runtime: Some(runtime),
            accepting: Some(accepting),
            stop,
            addr,
            stop_time_max,
            reloader,
        })
    }
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    runtime: Option<Runtime>,
    accepting: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    addr: SocketAddr,
    stop_time_max: Duration,
    reloader: Arc<Reloader>,
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

    /// Reads the texts of accounts and of token issuers' keys now. It happens every minute anyway.
    pub fn reload(&self) -> io::Result<()> {
        self.reloader.reload()
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops accepting, answers what is in flight for at most
    /// [`Config::stop_time_max`](crate::config::Config::stop_time_max), and returns.
    pub fn stop(mut self) {
        self.shut_down();
    }

    /// Serves until the process is asked to end (SIGTERM, SIGINT or Ctrl-C), then stops as
    /// [`Running::stop`] does. A second signal returns at once.
    pub fn wait_for_signal(mut self) -> io::Result<()> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        runtime.block_on(async {
            let mut signals = Signals::new()?;
            signals.next().await;
            tracing::info!("stopping");
            let _ = self.stop.send(true);
            tokio::select! {
                () = signals.next() => {}
                () = finish(self.accepting.take(), self.stop_time_max) => {}
            }
            io::Result::Ok(())
        })?;
        runtime.shutdown_background();
        Ok(())
    }

    fn shut_down(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let _ = self.stop.send(true);
        runtime.block_on(finish(self.accepting.take(), self.stop_time_max));
        runtime.shutdown_background();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shut_down();
    }
}

async fn finish(accepting: Option<JoinHandle<()>>, time_max: Duration) {
    let Some(accepting) = accepting else { return };
    if tokio::time::timeout(time_max, accepting).await.is_err() {
        tracing::warn!("requests were still in flight when the time to stop was over");
    }
}

/// How long accepting rests after the system refused a connection: files may be short.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// Accepts until told to stop, then waits for the connections to finish.
async fn accept<S: Store>(
    listener: TcpListener,
    shared: Arc<Shared<S>>,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(shared.app.config().connections_max));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            _ = stopping.changed() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let (shared, watcher) = (shared.clone(), graceful.watcher());
                tokio::spawn(async move {
                    serve(shared, stream, watcher).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(REST_AFTER_REFUSAL).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The signals that ask a process to end.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = signal(SignalKind::terminate())?;
        Ok(Signals { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> io::Result<Signals> {
        Ok(Signals {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        // Without a way to listen for Ctrl-C there is no way to be asked.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
