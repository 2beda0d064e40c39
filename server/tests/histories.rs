//! Histories over real sockets: clients that fight for a few entities, some of which hang up
//! without waiting for their answers, find them linearizable, batches whole, and pages of one
//! moment.
//!
//! `TABULITH_HTTP_HISTORY_OPS` sends another number of requests.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

mod common;
#[path = "common/talk.rs"]
mod talk;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::env::jobs::Threads;
use tabulith::options::{Advanced, Options};
use tabulith::table::store::TableStore;
use tabulith::vfs::mem::SimFs;
use tabulith_server::Server;
use tabulith_server::config::{Config, DEVELOPMENT_ACCOUNT, Key};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::linear::Call;
use tabulith_testkit::register::{self, Act, Answer, Ask, Checked};
use tabulith_testkit::seed::{self, Replay, Rng};
use tabulith_testkit::wholes::{self, Wholes};
use talk::{Credentials, PARTITIONS, Reply, Speaker};

const OPS_DEFAULT: u64 = 20_000;
const CLIENTS: usize = 4;
const REQUESTS: usize = 400;
const KEYS: u32 = 6;

#[test]
fn entities_are_linearizable_over_sockets() {
    let ops = seed::number("TABULITH_HTTP_HISTORY_OPS").unwrap_or(OPS_DEFAULT);
    let first = seed::seed_or(1);
    let (mut all, mut seen) = (Checked::default(), Wholes::default());
    let mut histories = 0;
    while all.calls < ops {
        let seed = first + histories;
        let _replay = Replay::new(
            seed,
            "TABULITH_HTTP_HISTORY_OPS=1 cargo test -p tabulith-server --test histories",
        );
        let calls = history(seed);
        let checked = register::check(false, &calls).and_then(|checked| {
            all.add(&checked);
            wholes::check(&calls)
        });
        match checked {
            Ok(wholes) => seen.add(&wholes),
            Err(anomaly) => panic!("{anomaly}"),
        }
        histories += 1;
    }
    eprintln!(
        "{} calls in {histories} histories from seed {first}, {} of them without an answer, {} pages that \
         showed {} batches, {} steps of the search: 0 anomalies",
        all.calls, all.unknown, seen.pages, seen.batches, all.steps
    );
    let counts = [
        count("calls", all.calls, ops),
        count("unanswered", all.unknown, histories * 4),
        count("pages", seen.pages, histories * 10),
        count("batches", seen.batches, histories),
    ];
    counts::tell("http-histories", &counts);
}

fn history(seed: u64) -> Vec<Call<Act>> {
    let mut rng = Rng::new(seed);
    let options = Options {
        threads: Some(2),
        advanced: Advanced {
            memtable_bytes: Some([16 << 10, 1 << 20][rng.below(2)]),
            wal_segment_bytes: 256 << 10,
            block_cache_bytes: Some([0, 64 << 10][rng.below(2)]),
            ..Advanced::default()
        },
        ..Options::default()
    };
    let clock = Arc::new(SystemClock::new());
    let builder = Db::builder().options(options);
    let builder = builder.parts(Arc::new(SimFs::new()), clock, Arc::new(Threads));
    let db = builder.open("db").expect("a database in memory");
    let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
    let server = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).expect("a server");
    let (now, values) = (AtomicU64::new(0), AtomicU64::new(1));
    let seeds: Vec<u64> = (0..CLIENTS).map(|_| rng.next_u64()).collect();
    let mut calls = Vec::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = seeds
            .iter()
            .map(|seed| {
                let (now, values, addr) = (&now, &values, server.addr());
                scope.spawn(move || Client::new(*seed, addr, now, values).run())
            })
            .collect();
        for client in clients {
            calls.extend(client.join().expect("the client says what went wrong"));
        }
    });
    server.stop();
    calls
}

struct Client<'a> {
    rng: Rng,
    addr: SocketAddr,
    stream: Option<TcpStream>,
    speaker: Speaker,
    now: &'a AtomicU64,
    values: &'a AtomicU64,
    etags: HashMap<u32, u64>,
    calls: Vec<Call<Act>>,
}

impl<'a> Client<'a> {
    fn new(seed: u64, addr: SocketAddr, now: &'a AtomicU64, values: &'a AtomicU64) -> Client<'a> {
        let speaker = Speaker {
            account: DEVELOPMENT_ACCOUNT.to_owned(),
            table: "history".to_owned(),
            credentials: Credentials::Key(Key::development()),
        };
        let (rng, stream, calls) = (Rng::new(seed), None, Vec::new());
        Client { rng, addr, stream, speaker, now, values, etags: HashMap::new(), calls }
    }

    fn run(mut self) -> Vec<Call<Act>> {
        self.one(None, Ask::CreateTable);
        for _ in 0..REQUESTS {
            let key = self.rng.skewed_below(KEYS as usize) as u32;
            match self.rng.below(200) {
                0 => self.one(None, Ask::DropTable),
                1..4 => self.one(None, Ask::CreateTable),
                4..60 => self.one(Some(key), Ask::Get),
                60..70 => self.page(),
                70..90 => self.batch(),
                _ => {
                    let ask = self.ask(key);
                    self.one(Some(key), ask);
                }
            }
        }
        self.calls
    }

    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&mut self, begin: u64, key: Option<u32>, ask: Ask, answer: Answer) {
        if answer == Answer::Unknown && ask == Ask::Get {
            return;
        }
        if let (Some(key), Answer::Found(_, etag) | Answer::Written(etag)) = (key, answer) {
            self.etags.insert(key, etag);
        }
        let end = (answer != Answer::Unknown).then(|| self.tick());
        self.calls.push(Call { begin, end, act: Act { key, ask, answer } });
    }

    fn one(&mut self, key: Option<u32>, ask: Ask) {
        let request = self.speaker.request(key.unwrap_or(0), ask, ticks());
        let begin = self.tick();
        let answer = self.send(&request).map_or(Answer::Unknown, |reply| reply.answer(ask));
        self.note(begin, key, ask, answer);
    }

    fn page(&mut self) {
        let request = self.speaker.page(ticks());
        let begin = self.tick();
        for (key, answer) in self.send(&request).map_or(Vec::new(), |reply| reply.page(KEYS)) {
            self.note(begin, Some(key), Ask::Get, answer);
        }
    }

    fn batch(&mut self) {
        let partition = self.rng.below(PARTITIONS as usize) as u32;
        let keys = (0..KEYS).filter(|key| key % PARTITIONS == partition);
        let keys: Vec<u32> = keys.filter(|_| self.rng.chance(70)).collect();
        if keys.is_empty() {
            return;
        }
        let asks: Vec<(u32, Ask)> = keys.iter().map(|key| (*key, self.ask(*key))).collect();
        let request = self.speaker.batch(&asks, ticks());
        let begin = self.tick();
        let answers = match self.send(&request) {
            Some(reply) => reply.batch(&asks),
            None => vec![Answer::Unknown; asks.len()],
        };
        for ((key, ask), answer) in asks.into_iter().zip(answers) {
            self.note(begin, Some(key), ask, answer);
        }
    }

    fn ask(&mut self, key: u32) -> Ask {
        let value = self.values.fetch_add(1, Ordering::Relaxed);
        Ask::write(&mut self.rng, value, self.etags.get(&key).copied())
    }

    /// The answer; none where the client hung up before it came.
    fn send(&mut self, request: &[u8]) -> Option<Reply> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.addr).expect("the server listens");
                stream.set_nodelay(true).expect("a setting");
                stream
            }
        };
        // In two pieces now and then, cut anywhere.
        let cut = if self.rng.chance(20) { self.rng.below(request.len()) } else { 0 };
        stream.write_all(&request[..cut]).expect("the server reads");
        stream.write_all(&request[cut..]).expect("the server reads");
        if self.rng.chance(3) {
            return None;
        }
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            if let Some((reply, len)) = Reply::read(&bytes) {
                assert_eq!(len, bytes.len(), "more than an answer came");
                if !reply.closes && self.rng.chance(95) {
                    self.stream = Some(stream);
                }
                return Some(reply);
            }
            let count = stream.read(&mut piece).expect("the server answers");
            assert!(count > 0, "the server hung up after {} bytes of an answer", bytes.len());
            bytes.extend_from_slice(&piece[..count]);
        }
    }
}

fn ticks() -> u64 {
    SystemClock::new().wall_ticks()
}
