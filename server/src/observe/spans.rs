//! Spans of requests on their way to whoever collects them: queued without waiting, sent in
//! batches.
//!
//! Promise: a request costs a place in a bounded queue, whatever becomes of the other side. Where
//! there is no place, and where a batch is not taken, spans are dropped and counted.
//!
//! Absent: keys, queries, signatures, bodies, and paths, which name entities. Who speaks what
//! protocol to the other side.

#![allow(clippy::disallowed_methods, reason = "timeouts go by tokio's clock, which tests pause")]

use crate::http::message::{Head, Response};
use crate::observe::text::Text;
use crate::operations::Kind;
use crate::trace::Trace;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// Spans that wait at most.
pub const QUEUE_MAX: usize = 2_048;

/// Spans of a batch at most.
pub const BATCH_MAX: usize = 512;

/// How long the first span of a batch waits for others.
const BATCH_TIME_MAX: Duration = Duration::from_secs(1);

/// A request that has its answer, as those who collect traces are told of it.
#[derive(Clone, Debug)]
pub struct Span {
    /// The trace, the span that asked (empty where the trace begins here), and this one.
    pub trace: Trace,
    /// When the request came, in ticks of 100 ns since 1970.
    pub began_ticks: u64,
    /// From its head to its answer.
    pub took: Duration,
    /// What it asked for, where that is known.
    pub kind: Option<Kind>,
    /// Its verb as sent, cut where it is long.
    pub method: String,
    /// The status of its answer.
    pub status: u16,
    /// The error code of its answer.
    pub error: Option<String>,
    /// The account that it is addressed to, where it was admitted.
    pub account: Option<String>,
    /// The table that it is about, where it was admitted.
    pub table: Option<String>,
    /// Whether it came over TLS.
    pub secure: bool,
    /// Host and port as the client names them, cut where they are long.
    pub authority: String,
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// The `x-ms-request-id` of its answer.
    pub request_id: String,
    /// `User-Agent`, cut where it is long.
    pub user_agent: Option<String>,
}

impl Span {
    /// That of an answered request, about an account and a table where it was admitted; its time
    /// and kind are still to come. None where the answer has no id.
    pub(crate) fn of(
        head: &Head,
        response: &Response,
        (account, table): (Option<String>, Option<String>),
    ) -> Option<Span> {
        let request_id = response.get("x-ms-request-id").unwrap_or_default();
        let trace = Trace::of(&head.headers, request_id);
        Some(Span {
            trace: trace.or_else(|| Trace::beginning(request_id))?,
            began_ticks: 0,
            took: Duration::ZERO,
            kind: None,
            method: cut(&head.method),
            status: response.status,
            error: response.get("x-ms-error-code").map(str::to_owned),
            account,
            table,
            secure: head.secure,
            authority: cut(&head.authority),
            peer: head.peer,
            request_id: request_id.to_owned(),
            user_agent: head.headers.get("User-Agent").map(cut),
        })
    }
}

/// Longest text of a client's that is passed on.
const TEXT_BYTES_MAX: usize = 256;

/// As much of a client's text as is passed on.
pub(crate) fn cut(text: &str) -> String {
    let ends = (0..=TEXT_BYTES_MAX.min(text.len())).rev();
    let end = ends.into_iter().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[..end].to_owned()
}

/// A batch on its way; in the end, what went wrong with it, in a line.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Whoever sends spans to those who collect them.
pub trait Export: fmt::Debug + Send + Sync + 'static {
    /// Sends a batch. It ends by itself within a time of its own.
    fn send(&self, batch: Vec<Span>) -> Sending<'_>;
}

/// Where spans are left, and what has become of them.
#[derive(Debug)]
pub struct Spans {
    queue: mpsc::Sender<Span>,
    sent: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
}

/// The other end of the queue.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: mpsc::Receiver<Span>,
    spans: Arc<Spans>,
    export: Arc<dyn Export>,
}

impl Spans {
    /// A queue, and its other end.
    pub(crate) fn new(export: Arc<dyn Export>) -> (Arc<Spans>, Outgoing) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let spans = Arc::new(Spans {
            queue: sender,
            sent: AtomicU64::default(),
            full: AtomicU64::default(),
            failed: AtomicU64::default(),
        });
        (spans.clone(), Outgoing { queue, spans, export })
    }

    /// Leaves a span, or drops it where there is no place. A trace that whoever asked does not
    /// record is not recorded here either.
    pub(crate) fn tell(&self, span: Span) {
        if span.trace.sampled && self.queue.try_send(span).is_err() {
            self.full.fetch_add(1, Relaxed);
        }
    }

    /// How many were taken by the other side.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// How many were dropped: for want of a place, and because a batch was not taken.
    pub fn dropped(&self) -> (u64, u64) {
        (self.full.load(Relaxed), self.failed.load(Relaxed))
    }

    /// Writes the counts.
    pub(crate) fn write(&self, text: &mut Text) {
        let help = "Spans of requests that the collector of traces has taken.";
        text.counter("tabulith_spans_sent_total", help).is(self.sent());
        let (full, failed) = self.dropped();
        let help = "Spans that were dropped: the queue was full, or a batch was not taken.";
        let mut family = text.counter("tabulith_spans_dropped_total", help);
        family.of(&[("reason", "queue_full")], full).of(&[("reason", "not_taken")], failed);
    }
}

impl Outgoing {
    /// Sends what comes, until `ending` says that nothing more does; then what is left.
    pub(crate) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let mut ends = false;
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let more = tokio::select! {
                biased;
                // Whoever would end it is gone.
                _ = ending.changed(), if !ends => {
                    ends = true;
                    self.queue.close();
                    continue;
                }
                more = self.queue.recv_many(&mut batch, BATCH_MAX) => more,
            };
            if more == 0 {
                return;
            }
            let until = Instant::now() + BATCH_TIME_MAX;
            while batch.len() < BATCH_MAX && !ends {
                let room = BATCH_MAX - batch.len();
                tokio::select! {
                    _ = ending.changed() => {
                        ends = true;
                        self.queue.close();
                    }
                    more = timeout_at(until, self.queue.recv_many(&mut batch, room)) => match more {
                        Ok(more) if more > 0 => {}
                        _ => break,
                    },
                }
            }
            self.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH_MAX))).await;
        }
    }

    async fn send(&self, batch: Vec<Span>) {
        // Counted as dropped until it is taken: whoever gives up on this counts rightly.
        let count = batch.len() as u64;
        self.spans.failed.fetch_add(count, Relaxed);
        match self.export.send(batch).await {
            Ok(()) => {
                self.spans.failed.fetch_sub(count, Relaxed);
                self.spans.sent.fetch_add(count, Relaxed);
            }
            Err(error) => tracing::warn!(count, error, "spans were not taken"),
        }
    }
}

/// What ends the sending.
#[derive(Debug)]
pub(crate) struct Ender {
    ending: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
    spans: Arc<Spans>,
}

impl Ender {
    /// Begins to send, on the event loop that this is called on.
    pub(crate) fn start(spans: Arc<Spans>, outgoing: Outgoing) -> Ender {
        let (ending, told) = watch::channel(false);
        Ender { ending, task: tokio::spawn(outgoing.run(told)), spans }
    }

    /// Has everything sent that is left, for that long at most.
    pub(crate) async fn end(self, time_max: Duration) {
        let _ = self.ending.send(true);
        let ended = timeout(time_max, self.task).await;
        let (sent, (full, failed)) = (self.spans.sent(), self.spans.dropped());
        tracing::info!(sent, full, failed, in_time = ended.is_ok(), "spans");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::future::pending;

    /// Keeps the sizes of batches; takes none of those that it is told not to take.
    #[derive(Debug, Default)]
    struct Sink {
        batches: Mutex<Vec<usize>>,
        refuses: bool,
        hangs: bool,
    }

    impl Export for Sink {
        fn send(&self, batch: Vec<Span>) -> Sending<'_> {
            Box::pin(async move {
                self.batches.lock().push(batch.len());
                if self.hangs {
                    pending::<()>().await;
                }
                if self.refuses { Err("no".to_owned()) } else { Ok(()) }
            })
        }
    }

    fn span(sampled: bool) -> Span {
        let (id, span) = ("1".repeat(32), "2".repeat(16));
        Span {
            trace: Trace { id, parent: String::new(), span, sampled },
            began_ticks: 0,
            took: Duration::ZERO,
            kind: None,
            method: "GET".to_owned(),
            status: 200,
            error: None,
            account: None,
            table: None,
            secure: false,
            authority: String::new(),
            peer: None,
            request_id: String::new(),
            user_agent: None,
        }
    }

    /// Runs on a clock that stands still while anybody has something to do.
    fn run(work: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work);
    }

    #[test]
    fn a_batch_waits_a_second_or_until_it_is_full() {
        run(async {
            let sink = Arc::new(Sink::default());
            let (spans, outgoing) = Spans::new(sink.clone());
            let ender = Ender::start(spans.clone(), outgoing);
            (0..BATCH_MAX + 3).for_each(|_| spans.tell(span(true)));
            spans.tell(span(false));
            tokio::time::sleep(BATCH_TIME_MAX / 2).await;
            spans.tell(span(true));
            assert_eq!(*sink.batches.lock(), [BATCH_MAX], "the rest waits for others");
            tokio::time::sleep(BATCH_TIME_MAX).await;
            assert_eq!(*sink.batches.lock(), [BATCH_MAX, 4]);
            spans.tell(span(true));
            tokio::task::yield_now().await;
            // What is left is sent at once.
            let began = Instant::now();
            ender.end(BATCH_TIME_MAX).await;
            assert_eq!((began.elapsed(), &sink.batches.lock()[2..]), (Duration::ZERO, &[1][..]));
            assert_eq!((spans.sent(), spans.dropped()), (BATCH_MAX as u64 + 5, (0, 0)));
            spans.tell(span(true));
            assert_eq!(spans.dropped(), (1, 0), "nobody is there any more");
        });
    }

    #[test]
    fn who_hangs_costs_spans_and_nothing_else() {
        run(async {
            let sink = Arc::new(Sink { hangs: true, ..Sink::default() });
            let (spans, outgoing) = Spans::new(sink.clone());
            let ender = Ender::start(spans.clone(), outgoing);
            (0..BATCH_MAX).for_each(|_| spans.tell(span(true)));
            tokio::time::sleep(BATCH_TIME_MAX * 2).await;
            assert_eq!(*sink.batches.lock(), [BATCH_MAX]);
            (0..QUEUE_MAX + 7).for_each(|_| spans.tell(span(true)));
            assert_eq!((spans.sent(), spans.dropped()), (0, (7, BATCH_MAX as u64)));
            let began = Instant::now();
            ender.end(Duration::from_millis(500)).await;
            assert_eq!(began.elapsed(), Duration::from_millis(500));
        });
    }

    #[test]
    fn what_is_refused_is_counted_and_the_next_is_tried() {
        run(async {
            let sink = Arc::new(Sink { refuses: true, ..Sink::default() });
            let (spans, outgoing) = Spans::new(sink.clone());
            let ender = Ender::start(spans.clone(), outgoing);
            for _ in 0..3 {
                spans.tell(span(true));
                tokio::time::sleep(BATCH_TIME_MAX * 2).await;
            }
            ender.end(BATCH_TIME_MAX).await;
            assert_eq!((sink.batches.lock().len(), spans.dropped()), (3, (0, 3)));
            let mut text = Text::default();
            spans.write(&mut text);
            let text = text.finish();
            assert!(text.contains("spans_dropped_total{reason=\"not_taken\"} 3\n"), "{text}");
        });
    }

    #[test]
    fn texts_of_clients_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"é".repeat(300)).len(), TEXT_BYTES_MAX);
        assert_eq!(cut(&format!("x{}", "é".repeat(300))).len(), TEXT_BYTES_MAX - 1);
    }
}
