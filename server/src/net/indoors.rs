//! A server without sockets and threads: connections over any stream, all work done where it is
//! asked for.
//!
//! For simulations: on an event loop of one thread, over a database without threads, a run depends
//! on its seed alone. What it serves is what a listener serves but for the listener's own part:
//! places for connections, the first byte, TLS.

use crate::app::App;
use crate::net::admin::Caller;
use crate::net::conn::serve;
use crate::net::shared::Shared;
use crate::services::base::Store;
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite};

/// The server.
pub struct Indoors<S> {
    shared: Arc<Shared<S>>,
    /// One for each connection: those who wait for a common one are called in an order that chance
    /// decides.
    stops: Mutex<Vec<GracefulShutdown>>,
}

impl<S: Store> Indoors<S> {
    /// A server that answers as `app` does.
    pub fn new(app: App<S>) -> Indoors<S> {
        let shared = Arc::new(Shared::without_threads(app));
        Indoors { shared, stops: Mutex::default() }
    }

    /// What it answers with.
    pub fn app(&self) -> &App<S> {
        &self.shared.app
    }

    /// Serves a connection until either side ends it, or the server stops and the request in flight
    /// is answered.
    pub fn serve<T>(&self, stream: T, peer: IpAddr) -> impl Future<Output = ()> + Send + use<S, T>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let caller = Caller { peer: Some(peer), secure: false, admin: false };
        let stop = GracefulShutdown::new();
        let watcher = stop.watcher();
        self.stops.lock().push(stop);
        serve(self.shared.clone(), stream, caller, watcher)
    }

    /// Has connections end once the request in flight is answered, and waits for them.
    pub async fn stop(self) {
        let stops = self.stops.into_inner().into_iter();
        let mut stops: Vec<_> = stops.map(|stop| Box::pin(stop.shutdown())).collect();
        std::future::poll_fn(|cx| {
            stops.retain_mut(|stop| stop.as_mut().poll(cx).is_pending());
            if stops.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<S> fmt::Debug for Indoors<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indoors").finish_non_exhaustive()
    }
}
