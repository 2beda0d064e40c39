//! A simulated client: asks, waits a while, gives up; and writes down what it was told.

use crate::accounts::{ACCOUNT, key_text};
use crate::common::Sas;
use crate::stream::{Fate, Stream};
use crate::talk::{Credentials, PARTITIONS, Reply, Speaker};
use crate::world::World;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tabulith_server::config::Key;
use tabulith_testkit::linear::Call;
use tabulith_testkit::register::{Act, Answer, Ask};
use tabulith_testkit::seed::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

pub(crate) const TABLE: &str = "history";
pub(crate) const POLICY: &str = "clients";
pub(crate) const KEYS: u32 = 5;

/// How long a client waits for an answer: longer than the server takes for any.
const PATIENCE: Duration = Duration::from_secs(50);

/// What the clients of a run share.
#[derive(Default)]
pub(crate) struct Book {
    now: u64,
    values: u64,
    pub(crate) calls: Vec<Call<Act>>,
    /// How often something came up, by name.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Whether the stored policy allows the tokens; none while nobody can say.
    pub(crate) granted: Option<bool>,
    /// Goes up with every change of it.
    pub(crate) grants: u64,
}

impl Book {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// By a key that is served, or now and then by one that no longer is.
    Owner,
    /// By a token that a stored policy must allow.
    Guest,
}

/// A client.
pub(crate) struct Client {
    world: Arc<World>,
    book: Arc<Mutex<Book>>,
    rng: Rng,
    role: Role,
    /// How many of its connections have a fate, in a hundred.
    unlucky: usize,
    /// With how often there had been trouble by then: connections do not outlive all of it.
    connection: Option<(Stream, Fate, u64)>,
    etags: HashMap<u32, u64>,
    /// Whether it drops the table at times.
    drops: bool,
}

/// What must be said of a request by its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Surely,
    Never,
    Open,
}

/// What was known when a request was sent.
struct Sent {
    begin: u64,
    disturbed: u64,
    was_disturbed: bool,
    key: Option<String>,
    accounts: String,
    grants: (Option<bool>, u64),
    clock_was_off: bool,
}

impl Client {
    pub(crate) fn new(
        world: &Arc<World>,
        book: &Arc<Mutex<Book>>,
        role: Role,
        unlucky: usize,
        drops: bool,
    ) -> Client {
        let (world, book, rng) = (world.clone(), book.clone(), world.rng());
        let (connection, etags) = (None, HashMap::new());
        Client { world, book, rng, role, unlucky, connection, etags, drops }
    }

    /// Does so many things, with pauses.
    pub(crate) async fn run(mut self, ops: usize, pause_ms: usize) {
        for _ in 0..ops {
            sleep(Duration::from_millis(self.rng.below(pause_ms) as u64)).await;
            let key = self.rng.skewed_below(KEYS as usize) as u32;
            match self.rng.below(100) {
                0 if self.drops => self.one(None, Ask::DropTable).await,
                0..3 if self.role == Role::Owner => self.one(None, Ask::CreateTable).await,
                0..25 => self.one(Some(key), Ask::Get).await,
                25..35 => self.page().await,
                35..50 if self.role == Role::Owner => self.batch().await,
                _ => {
                    let ask = self.ask(key);
                    self.one(Some(key), ask).await;
                }
            }
        }
    }

    /// Makes the table, however busy the server is.
    pub(crate) async fn make_table(&mut self) {
        let is_made = |call: &Call<Act>| matches!(call.act.answer, Answer::Done | Answer::Exists);
        while !self.book.lock().calls.last().is_some_and(is_made) {
            self.one(None, Ask::CreateTable).await;
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Reads every key until it is told. Nothing disturbs any more, so that takes no long.
    pub(crate) async fn look(mut self) {
        for key in 0..KEYS {
            let told = timeout(Duration::from_secs(60), async {
                loop {
                    let before = self.book.lock().calls.len();
                    self.one(Some(key), Ask::Get).await;
                    if self.book.lock().calls.len() > before {
                        break;
                    }
                }
            });
            told.await.expect("a quiet server answers");
        }
    }

    /// Grants or revokes what the tokens need; whether the server said that it is done.
    pub(crate) async fn set_policy(&mut self, grant: bool) -> bool {
        let far = crate::common::FAR;
        let policies = match grant {
            true => format!(
                "<SignedIdentifier><Id>{POLICY}</Id><AccessPolicy><Expiry>{far}</Expiry>\
                 <Permission>raud</Permission></AccessPolicy></SignedIdentifier>"
            ),
            false => String::new(),
        };
        let xml = format!("<SignedIdentifiers>{policies}</SignedIdentifiers>");
        {
            let mut book = self.book.lock();
            book.granted = None;
            book.grants += 1;
        }
        let (speaker, _) = self.speaker(true);
        let request = speaker.set_policies(&xml, self.world.clock.true_ticks());
        let reply = self.exchange(&request).await;
        let done = reply.as_ref().is_some_and(|reply| reply.status == 204);
        self.world.event(&(grant, done));
        let mut book = self.book.lock();
        book.grants += 1;
        if done {
            book.granted = Some(grant);
            book.count(if grant { "policies granted" } else { "policies revoked" });
        }
        done
    }

    fn speaker(&mut self, honest: bool) -> (Speaker, Option<String>) {
        let accounts = self.world.accounts();
        let (credentials, key) = match self.role {
            Role::Owner => {
                let mut keys: Vec<String> =
                    accounts.split(':').skip(1).map(str::to_owned).collect();
                if !honest && self.rng.chance(5) {
                    keys = vec![key_text(0)];
                }
                let key = self.rng.pick(&keys).clone();
                (Credentials::Key(Key::parse(ACCOUNT, &key).expect("a key")), Some(key))
            }
            Role::Guest => {
                // The second key is never changed.
                let key = accounts.split(':').nth(2).expect("two keys").to_owned();
                let key = Key::parse(ACCOUNT, &key).expect("a key");
                let sas = Sas::table(TABLE).without("se").with("si", POLICY);
                let token = Sas { account: ACCOUNT.to_owned(), key, ..sas }.token();
                (Credentials::Token(token), None)
            }
        };
        let (account, table) = (ACCOUNT.to_owned(), TABLE.to_owned());
        (Speaker { account, table, credentials }, key)
    }

    async fn one(&mut self, key: Option<u32>, ask: Ask) {
        let (speaker, signed) = self.speaker(false);
        let request = speaker.request(key.unwrap_or(0), ask, self.world.clock.true_ticks());
        let (sent, reply) = self.send(&request, signed).await;
        if ask == Ask::DropTable {
            self.book.lock().granted = None; // Its policies go with it.
        }
        let answer = reply.map_or(Answer::Unknown, |reply| self.judged(&sent, reply.answer(ask)));
        self.note(sent.begin, key, ask, answer);
    }

    async fn page(&mut self) {
        let (speaker, signed) = self.speaker(false);
        let request = speaker.page(self.world.clock.true_ticks());
        let (sent, reply) = self.send(&request, signed).await;
        for (key, answer) in reply.map_or(Vec::new(), |reply| reply.page(KEYS)) {
            let answer = self.judged(&sent, answer);
            self.note(sent.begin, Some(key), Ask::Get, answer);
        }
    }

    async fn batch(&mut self) {
        let partition = self.rng.below(PARTITIONS as usize) as u32;
        let keys = (0..KEYS).filter(|key| key % PARTITIONS == partition);
        let keys: Vec<u32> = keys.filter(|_| self.rng.chance(70)).collect();
        if keys.is_empty() {
            return;
        }
        let asks: Vec<(u32, Ask)> = keys.iter().map(|key| (*key, self.ask(*key))).collect();
        let (speaker, signed) = self.speaker(false);
        let request = speaker.batch(&asks, self.world.clock.true_ticks());
        let (sent, reply) = self.send(&request, signed).await;
        let answers = match reply {
            Some(reply) => reply.batch(&asks),
            None => vec![Answer::Unknown; asks.len()],
        };
        for ((key, ask), answer) in asks.into_iter().zip(answers) {
            let answer = self.judged(&sent, answer);
            self.note(sent.begin, Some(key), ask, answer);
        }
    }

    /// A refusal while the disk is full may be one of what happens later.
    fn judged(&self, sent: &Sent, answer: Answer) -> Answer {
        let is_calm = !sent.was_disturbed && sent.disturbed == self.world.disturbed();
        match answer {
            Answer::Refused if !is_calm => Answer::Unknown,
            answer => answer,
        }
    }

    fn note(&mut self, begin: u64, key: Option<u32>, ask: Ask, answer: Answer) {
        self.world.event(&(begin, key, ask, answer));
        let mut book = self.book.lock();
        book.count(match answer {
            Answer::Unknown => "without an answer",
            Answer::Refused => "refused",
            _ if ask == Ask::DropTable && answer == Answer::Done => "tables dropped",
            _ => "answered",
        });
        if answer == Answer::Unknown && ask == Ask::Get {
            return;
        }
        if let (Some(key), Answer::Found(_, etag) | Answer::Written(etag)) = (key, answer) {
            self.etags.insert(key, etag);
        }
        let end = (answer != Answer::Unknown).then(|| book.tick());
        book.calls.push(Call { begin, end, act: Act { key, ask, answer } });
    }

    fn ask(&mut self, key: u32) -> Ask {
        let value = {
            let mut book = self.book.lock();
            book.values += 1;
            book.values
        };
        Ask::write(&mut self.rng, value, self.etags.get(&key).copied())
    }

    /// Sends a request and holds the answer against what the credentials are good for.
    async fn send(&mut self, request: &[u8], key: Option<String>) -> (Sent, Option<Reply>) {
        self.connected().await;
        let sent = {
            let mut book = self.book.lock();
            Sent {
                begin: book.tick(),
                disturbed: self.world.disturbed(),
                was_disturbed: self.world.is_disturbed(),
                key,
                accounts: self.world.accounts(),
                grants: (book.granted, book.grants),
                clock_was_off: self.world.clock.is_off(),
            }
        };
        let reply = self.exchange(request).await;
        if let Some(reply) = &reply {
            let denied = reply.status == 403;
            let told =
                || format!("{:?}: {reply:?} to {}", sent.key, String::from_utf8_lossy(request));
            match self.right(&sent) {
                Right::Never => {
                    assert!(denied, "dead credentials did something: {}", told());
                    self.book.lock().count("dead credentials");
                }
                Right::Surely => assert!(!denied, "good credentials were denied: {}", told()),
                Right::Open => {}
            }
            if reply.status == 503 {
                self.book.lock().count("busy");
            }
        }
        (sent, reply)
    }

    fn right(&self, sent: &Sent) -> Right {
        let book = self.book.lock();
        let clock_may_lie = sent.clock_was_off
            || self.world.clock.is_off()
            || sent.disturbed != self.world.disturbed();
        match &sent.key {
            Some(key) => {
                let now = self.world.accounts();
                match (sent.accounts.contains(key), now.contains(key)) {
                    (false, false) => Right::Never,
                    (true, true) if !clock_may_lie => Right::Surely,
                    _ => Right::Open,
                }
            }
            None => match (sent.grants, book.grants == sent.grants.1, book.granted) {
                ((Some(false), _), true, Some(false)) => Right::Never,
                ((Some(true), _), true, Some(true)) if !clock_may_lie => Right::Surely,
                _ => Right::Open,
            },
        }
    }

    async fn connected(&mut self) {
        let troubles = self.world.disturbed();
        let is_old = self.connection.as_ref().is_some_and(|(_, _, since)| *since != troubles);
        if is_old || self.connection.is_some() && self.rng.chance(5) {
            self.connection = None;
        }
        let fate = Fate::choose(&mut self.rng, self.unlucky);
        while self.connection.is_none() {
            match self.world.connect(fate) {
                Some(stream) => self.connection = Some((stream, fate, self.world.disturbed())),
                None => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// The answer, if one comes whole. Where nothing disturbs, one comes.
    async fn exchange(&mut self, request: &[u8]) -> Option<Reply> {
        self.connected().await;
        let (mut stream, fate, since) = self.connection.take()?;
        let before = (self.world.disturbed(), self.world.is_disturbed());
        let half = self.unlucky > 0 && self.rng.chance(1);
        let mut bytes = Vec::new();
        let answer = timeout(PATIENCE, async {
            stream.write_all(request).await.ok()?;
            if half {
                stream.shutdown().await.ok()?;
            }
            loop {
                if let Some((reply, len)) = Reply::read(&bytes) {
                    assert_eq!(len, bytes.len(), "more than an answer came");
                    return Some(reply);
                }
                let mut piece = [0; 2048];
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => return None,
                    Ok(count) => bytes.extend_from_slice(&piece[..count]),
                }
            }
        });
        let answer = answer.await;
        if half {
            self.book.lock().count("half-closed");
        }
        if !fate.is_none() {
            self.book.lock().count("unlucky connections");
        }
        let calm = !before.1 && before.0 == self.world.disturbed();
        if calm && fate.is_none() && !half {
            let text = String::from_utf8_lossy(request);
            assert!(answer.is_ok(), "no answer in {PATIENCE:?} to {text}");
            assert!(
                matches!(answer, Ok(Some(_))),
                "cut off after {} bytes of the answer to {text}",
                bytes.len()
            );
        }
        let answer = answer.ok().flatten();
        if answer.as_ref().is_some_and(|reply| !reply.closes) && !half {
            self.connection = Some((stream, fate, since));
        }
        answer
    }
}
