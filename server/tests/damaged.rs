//! Damage under a running server: what needs a damaged block or a lost file is answered by 500 and
//! nothing of it is made up, and all else is answered as ever.

mod common;

use common::{date_of, escaped, request, sign};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::env::jobs::Threads;
use tabulith::table::store::TableStore;
use tabulith::vfs::api::{Access, Vfs as _};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Compression, Db, Options};
use tabulith_server::config::Config;
use tabulith_server::{Running, Server};

/// Of each table: some thirty blocks.
const ROWS: u32 = 400;
const PAGE: usize = 20;

/// A server that reads every block from its disk.
struct House {
    running: Running,
    db: Db,
    stream: BufReader<TcpStream>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl House {
    fn start(disk: &SimFs) -> House {
        let advanced = Advanced {
            memtable_bytes: Some(1 << 20),
            wal_segment_bytes: 1 << 20,
            block_cache_bytes: Some(0),
            compression: Compression::NONE,
            ..Advanced::default()
        };
        let builder = Db::builder().options(Options { advanced, ..Options::default() });
        let clock = Arc::new(SystemClock::new());
        let builder = builder.parts(Arc::new(disk.clone()), clock, Arc::new(Threads));
        let db = builder.open("data").expect("a database");
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
        let store = Arc::new(TableStore::new(Arc::new(db.clone())));
        let running = Server::start(config, store).expect("a server");
        let stream = connect(running.addr());
        House { running, db, stream }
    }

    /// Two tables with rows of the same keys, each in a table file of its own.
    fn filled(disk: &SimFs) -> House {
        let mut house = House::start(disk);
        for table in ["Damaged", "Sound"] {
            let body = format!("{{\"TableName\":\"{table}\"}}");
            assert_eq!(house.send("POST", "/Tables", &body).status, 201);
        }
        house.db.flush().expect("a flush");
        for table in ["Sound", "Damaged"] {
            for row in 0..ROWS {
                assert_eq!(house.insert(table, row).status, 201);
            }
            house.db.flush().expect("a flush");
        }
        house
    }

    fn end(self) {
        let House { running, db, stream } = self;
        drop(stream);
        running.stop();
        db.close().expect("a close");
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let json = "application/json;odata=nometadata";
        let mut headers = vec![("Content-Type", "application/json"), ("Accept", json)];
        if matches!(method, "MERGE" | "DELETE") {
            headers.push(("If-Match", "*"));
        }
        let mut head = request(method, path, &headers, body).head;
        sign(&mut head, &date_of(SystemClock::new().wall_ticks()));
        let mut text = format!("{method} {} HTTP/1.1\r\nHost: {}\r\n", head.target, head.authority);
        for (name, value) in head.headers.iter() {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("\r\n{body}");
        self.stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
        let answer = self.read();
        if answer.header("connection") == Some("close") {
            self.stream = connect(self.running.addr());
        }
        answer
    }

    fn read(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).expect("the server answers");
            assert!(read > 0, "the server hung up after {head:?}");
        }
        let status = head[9..12].parse().expect("a status");
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map(|length| length.parse());
        let mut body = vec![0; length.transpose().expect("a length").unwrap_or(0)];
        self.stream.read_exact(&mut body).expect("the whole body");
        answer.body = String::from_utf8(body).expect("text");
        answer
    }

    fn insert(&mut self, table: &str, row: u32) -> Answer {
        let (key, text) = (row_key(row), text(row));
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{key}\",\"V\":\"{text}\"}}");
        self.send("POST", &format!("/{table}"), &body)
    }

    fn get(&mut self, table: &str, row: u32) -> Answer {
        let path = format!("/{table}(PartitionKey='p',RowKey='{}')", row_key(row));
        self.send("GET", &path, "")
    }

    /// Those rows that cannot be read; all others are right.
    fn unread(&mut self, table: &str) -> BTreeSet<u32> {
        let is_unread = |row: &u32| {
            let answer = self.get(table, *row);
            match answer.status {
                200 => assert_eq!(row_of(&answer.json()), *row),
                _ => answer.must_be_failure(),
            }
            answer.status != 200
        };
        (0..ROWS).filter(is_unread).collect()
    }

    /// The rows that a query for all of them gives page by page, and whether a page failed.
    fn queried(&mut self, table: &str) -> (Vec<u32>, bool) {
        let (mut rows, mut next) = (Vec::new(), String::new());
        loop {
            let path = format!("/{table}()?$top={PAGE}{next}");
            let page = self.send("GET", &path, "");
            if page.status != 200 {
                page.must_be_failure();
                self.send("GET", &path, "").must_be_failure();
                return (rows, true);
            }
            rows.extend(page.rows());
            let token = |name| page.header(name).map(escaped);
            match token("x-ms-continuation-nextpartitionkey") {
                None => return (rows, false),
                Some(partition) => {
                    let row = token("x-ms-continuation-nextrowkey").unwrap_or_default();
                    next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
                }
            }
        }
    }

    /// The rows that a filter on the RowKey gives.
    fn filtered(&mut self, table: &str, is: &str, row: u32) -> Vec<u32> {
        let filter = format!("PartitionKey%20eq%20'p'%20and%20RowKey%20{is}%20'{}'", row_key(row));
        let page = self.send("GET", &format!("/{table}()?$filter={filter}"), "");
        assert_eq!(page.status, 200, "{}", page.body);
        page.rows()
    }

    /// The other table is as it was, and takes rows.
    fn goes_on(&mut self) {
        assert_eq!(self.unread("Sound"), BTreeSet::new());
        let all: Vec<u32> = (0..ROWS).collect();
        assert_eq!(self.queried("Sound"), (all, false));
        assert_eq!(self.insert("Sound", ROWS).status, 201);
        assert_eq!(row_of(&self.get("Sound", ROWS).json()), ROWS);
    }
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn rows(&self) -> Vec<u32> {
        self.json()["value"].as_array().expect("a list").iter().map(row_of).collect()
    }

    /// It says that the server failed, and nothing else: no row, no file, no place to go on from.
    #[track_caller]
    fn must_be_failure(&self) {
        assert_eq!(self.status, 500, "{}", self.body);
        assert_eq!(self.header("x-ms-error-code"), Some("InternalError"), "{}", self.head);
        let head = self.head.to_lowercase();
        assert!(!head.contains("continuation") && !head.contains("retry-after"), "{head}");
        assert!(!self.body.contains("RowKey") && !self.body.contains("sst"), "{}", self.body);
    }
}

fn connect(addr: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(addr).expect("a connection");
    stream.set_nodelay(true).expect("a setting");
    BufReader::new(stream)
}

fn row_key(row: u32) -> String {
    format!("{row:04}")
}

fn text(row: u32) -> String {
    format!("{row}/").repeat(60)
}

/// Which row it is, and that nothing of it is another's.
#[track_caller]
fn row_of(entity: &serde_json::Value) -> u32 {
    let key = entity["RowKey"].as_str().expect("a key");
    let row = key.parse().expect("a number");
    assert_eq!((&*row_key(row), entity["V"].as_str()), (key, Some(&*text(row))));
    assert_eq!(entity["PartitionKey"], "p");
    row
}

/// The table file that was made last.
fn newest_table_file(disk: &SimFs) -> PathBuf {
    let names = disk.list("data".as_ref()).expect("a folder");
    let newest = names.into_iter().filter(|name| name.ends_with(".sst")).max();
    PathBuf::from("data").join(newest.expect("a table file"))
}

#[test]
fn a_damaged_block_fails_the_requests_that_need_it_and_no_others() {
    let disk = SimFs::new();
    let mut house = House::filled(&disk);
    assert_eq!(house.unread("Damaged"), BTreeSet::new());
    let file = disk.open(&newest_table_file(&disk), Access::ReadWrite).expect("a file");
    let middle = file.len().expect("its length") / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).expect("a byte");
    file.write_all_at(&[byte[0] ^ 4], middle).expect("another one");

    let unread = house.unread("Damaged");
    let (first, last) = (*unread.first().expect("some"), *unread.last().expect("some"));
    let block: BTreeSet<u32> = (first..=last).collect();
    assert!(unread == block && unread.len() < 40, "one block: {unread:?}");
    let (rows, failed) = house.queried("Damaged");
    assert!(failed, "a query over the damage");
    let before: Vec<u32> = (0..rows.len() as u32).collect();
    assert!(rows == before && rows.len() <= first as usize, "{rows:?} before row {first}");
    assert!(rows.len() + 2 * PAGE > first as usize, "{} rows before row {first}", rows.len());
    let (low, high) = (first / 2, last + (ROWS - last) / 2);
    assert_eq!(house.filtered("Damaged", "lt", low), (0..low).collect::<Vec<_>>());
    assert_eq!(house.filtered("Damaged", "gt", high), (high + 1..ROWS).collect::<Vec<_>>());
    // Whether it is there nobody can say, so it is neither taken nor refused as there.
    house.insert("Damaged", first).must_be_failure();
    assert_eq!(house.insert("Damaged", ROWS).status, 201, "the table takes rows");
    house.goes_on();
    assert_eq!(house.unread("Damaged"), unread);
    house.end();
}

#[test]
fn rows_of_a_lost_file_are_not_said_to_be_absent() {
    let disk = SimFs::new();
    House::filled(&disk).end();
    disk.remove(&newest_table_file(&disk)).expect("a file");
    let mut house = House::start(&disk);
    assert_eq!(house.unread("Damaged"), (0..ROWS).collect());
    assert_eq!(house.queried("Damaged"), (Vec::new(), true));
    house.insert("Damaged", 7).must_be_failure();
    house.goes_on();
    house.end();
}

/// What takes the place of an entity, or removes it, has no use for what it was.
#[test]
fn an_entity_with_a_damaged_value_can_be_replaced_and_deleted() {
    let disk = SimFs::new();
    let mut house = House::start(&disk);
    assert_eq!(house.send("POST", "/Tables", "{\"TableName\":\"Damaged\"}").status, 201);
    let body = |byte: &str| format!("{{\"V\":\"{}\"}}", byte.repeat(10_000));
    let paths = ["a", "b"].map(|key| format!("/Damaged(PartitionKey='p',RowKey='{key}')"));
    for path in &paths {
        assert_eq!(house.send("PUT", path, &body("x")).status, 204);
    }
    house.db.flush().expect("a flush");
    let names = disk.list("data".as_ref()).expect("a folder");
    let blob = names.iter().find(|name| name.ends_with(".blob")).expect("large values");
    let file = disk.open(&PathBuf::from("data").join(blob), Access::ReadWrite).expect("a file");
    for at in [5_000, 15_000] {
        file.write_all_at(b"y", at).expect("another byte");
    }
    for path in &paths {
        house.send("GET", path, "").must_be_failure();
        house.send("MERGE", path, "{\"W\":1}").must_be_failure();
    }
    assert_eq!(house.send("DELETE", &paths[0], "").status, 204);
    assert_eq!(house.send("GET", &paths[0], "").status, 404);
    assert_eq!(house.send("PUT", &paths[1], &body("z")).status, 204);
    let found = house.send("GET", &paths[1], "").json();
    assert_eq!(found["V"].as_str().map(|text| text.replace('z', "").len()), Some(0));
    house.end();
}
