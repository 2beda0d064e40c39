//! What the connections of a server share: room for what they hold, and turns for work of which
//! only so much may be under way.

use crate::app::App;
use crate::handle::call::Call;
use crate::net::admin::Admin;
use crate::net::queue::Queue;
use crate::net::room::Room;
use crate::observe::spans::Spans;
use crate::services::base::Store;
use crate::sparing::Sparing;
use std::sync::Arc;
use tabulith::table::rules::ENTITY_BYTES_MAX;

/// At least so many pages may be made at once, however little memory there is for answers.
const PAGES_MIN: usize = 2;

/// What an entity takes as JSON at most: of a text's units, which count two bytes, each six, and
/// names twice. A list of a thousand tables takes less.
pub(super) const ENTITY_JSON_BYTES_MAX: usize = 4 * ENTITY_BYTES_MAX;

/// At least so many entities may be read from the disk at once, however little memory there is for
/// answers.
const READS_MIN: usize = 8;

/// Most threads for commits that may wait: half of those that tokio makes, so that reads have
/// theirs however long commits wait.
const COMMITS_AT_ONCE: usize = 256;

/// Most change sets with merges that are worked on at once: each may write a hundred entities that
/// are in nobody's body.
const MERGES_AT_ONCE: usize = 2;

/// Most requests at once that make or drop tables, or change settings: each may wait, with a thread
/// and a commit's turn, until the one before is durable.
const SERIAL_AT_ONCE: usize = 16;

/// Most threads that wait for what was committed up to a moment of the past.
const PASTS_AT_ONCE: usize = 64;

/// Most requests at once that wait for the disk to be let in: what their account or their table has
/// set is not in memory.
const ADMITTED_AT_ONCE: usize = 16;

/// Room for long heads where there is little for bodies.
const HEADS_BYTES_MIN: usize = 8 << 20;

/// What the connections of a server share.
pub(crate) struct Shared<S> {
    pub(crate) app: App<S>,
    /// Room for bodies of requests.
    pub(super) bodies: Room,
    /// Room for heads that are long.
    pub(super) heads: Room,
    /// Room for answers that clients take their time to read.
    pub(super) answers: Room,
    /// Turns to wait until a moment of the past can be read.
    pub(super) pasts: Queue,
    /// Turns to be let in where that may wait.
    pub(super) admissions: Queue,
    /// Turns to make a page: as many as there is room for.
    pub(super) pages: Queue,
    /// Turns to read an entity that is not in memory: as many as there is room for, too.
    pub(super) reads: Queue,
    /// Turns to do what is done by one after the other.
    pub(super) serial: Queue,
    /// Turns to merge several entities at once.
    pub(super) merges: Queue,
    /// Turns to make a commit that may wait.
    pub(super) commits: Queue,
    /// Whether there are threads for what may wait for the disk.
    pub(super) has_threads: bool,
    /// What is told below `/_/`.
    pub(super) admin: Option<Arc<Admin>>,
    /// Where spans of requests are left.
    pub(super) spans: Option<Arc<Spans>>,
    /// Says which requests were slow, not of each.
    pub(super) slow: Sparing,
}

impl<S: Store> Shared<S> {
    pub(crate) fn new(app: App<S>) -> Shared<S> {
        let config = app.config();
        let bodies = Room::new(config.body_bytes_max);
        // Short heads and small answers need no place.
        let heads = Room::of_large(config.body_bytes_max.max(HEADS_BYTES_MIN));
        let answers = Room::of_large(config.answer_bytes_max);
        let pages = answers.places_of(config.page_bytes_max() + ENTITY_BYTES_MAX).max(PAGES_MIN);
        let reads = answers.places_of(ENTITY_JSON_BYTES_MAX).max(READS_MIN);
        let (has_threads, admin, spans, slow) = (true, None, None, Sparing::new());
        Shared {
            app,
            bodies,
            heads,
            answers,
            pasts: Queue::new(PASTS_AT_ONCE),
            admissions: Queue::new(ADMITTED_AT_ONCE),
            pages: Queue::new(pages),
            reads: Queue::new(reads),
            serial: Queue::new(SERIAL_AT_ONCE),
            merges: Queue::new(MERGES_AT_ONCE),
            commits: Queue::new(COMMITS_AT_ONCE),
            has_threads,
            admin,
            spans,
            slow,
        }
    }

    /// Has `admin` answer operators.
    pub(crate) fn with_admin(self, admin: Arc<Admin>) -> Shared<S> {
        Shared { admin: Some(admin), ..self }
    }

    /// Leaves spans of requests there.
    pub(crate) fn with_spans(self, spans: Option<Arc<Spans>>) -> Shared<S> {
        Shared { spans, ..self }
    }

    /// Whose place a call's body or answer takes, and whose turn its work is: nobody's where one
    /// account is served, which may have all of them.
    pub(super) fn owner<'a>(&self, call: &'a Call) -> Option<&'a str> {
        let is_one_of_several = self.app.keyring().accounts().names().nth(1).is_some();
        is_one_of_several.then_some(call.address.account.as_str())
    }

    /// The room for bodies, and that for answers.
    pub(crate) fn rooms(&self) -> (Room, Room) {
        (self.bodies.clone(), self.answers.clone())
    }

    /// All work is done on the event loop, in the order in which it is asked for.
    pub(crate) fn without_threads(app: App<S>) -> Shared<S> {
        Shared { has_threads: false, ..Shared::new(app) }
    }
}
