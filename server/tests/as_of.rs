//! Reads as of a moment, over real sockets: `x-tabulith-as-of` shows what was there then, goes with
//! reads alone, and is refused with a code of its own where no history is kept.

mod common;

use common::{FAR, START, Sas, date_of, request, sign, wire_text};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tabulith::Entity;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, ManualClock, SystemClock};
use tabulith::env::jobs::ByHand;
use tabulith::ids::CommitTs;
use tabulith::table::etag::IfMatch;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::TableStore;
use tabulith::table::value::DateTime;
use tabulith::table::write::Write;
use tabulith::vfs::mem::SimFs;
use tabulith_server::config::{Config, DEVELOPMENT_ACCOUNT};
use tabulith_server::http::message::Request;
use tabulith_server::{Running, Server};

const HISTORY: Duration = Duration::from_secs(3600);
const ENTITY: &str = "/people(PartitionKey='p',RowKey='r')";

/// A server whose database has a clock that the test turns.
struct House {
    running: Running,
    clock: Arc<ManualClock>,
    db: Arc<Db>,
    tables: Arc<TableStore<Db>>,
}

impl House {
    fn start(history: bool) -> House {
        let clock = Arc::new(ManualClock::at(START));
        let builder = Db::builder().history(if history { HISTORY } else { Duration::ZERO });
        let builder = builder.parts(Arc::new(SimFs::new()), clock.clone(), Arc::new(ByHand));
        let db = Arc::new(builder.open("data").expect("a database in memory"));
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), history, ..Config::default() };
        let tables = Arc::new(TableStore::new(db.clone()));
        let running = Server::start(config, tables.clone()).expect("a server");
        House { running, clock, db, tables }
    }

    /// Status and body of the answer.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let mut request = request(method, path, headers, body);
        sign(&mut request.head, &date_of(SystemClock::new().wall_ticks()));
        self.ask(&request)
    }

    /// The same for a request as it is.
    fn ask(&self, request: &Request) -> (u16, String) {
        let mut stream = TcpStream::connect(self.running.addr()).expect("a connection");
        stream.write_all(wire_text(request).as_bytes()).expect("the server reads");
        let (mut reader, mut line, mut rest) =
            (BufReader::new(stream), String::new(), String::new());
        reader.read_line(&mut line).expect("the server answers");
        reader.read_to_string(&mut rest).expect("the whole answer");
        let body = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        (line[9..12].parse().expect("a status"), body)
    }

    fn as_of(&self, path: &str, moment: &str) -> (u16, String) {
        self.send("GET", path, &[("x-tabulith-as-of", moment)], "")
    }

    /// Makes the table. The database has no threads, so this and all changes wait by themselves.
    fn create(&self) {
        self.tables.create_table(&account(), &people()).expect("a table");
    }

    fn put(&self, row: &str, n: i32) {
        let entity = Entity::new("p", row).with("n", n);
        self.change(Write::InsertOrReplace(entity));
    }

    fn delete(&self, row: &str) {
        let (partition_key, row_key) = ("p".to_owned(), row.to_owned());
        self.change(Write::Delete { partition_key, row_key, condition: IfMatch::Any });
    }

    fn change(&self, write: Write) {
        let pending = self.tables.write(&account(), &people(), write).expect("a change");
        pending.wait().expect("a durable change");
    }

    /// Lets a minute pass, and gives the moment in the middle of it.
    fn pass(&self) -> String {
        self.clock.advance(Duration::from_secs(60));
        DateTime::from(CommitTs(self.clock.wall_ticks() - 300_000_000)).to_string()
    }
}

fn account() -> AccountName {
    AccountName::parse(DEVELOPMENT_ACCOUNT).expect("its name")
}

fn people() -> TableName {
    TableName::parse("people").expect("a name")
}

fn refused(answer: (u16, String), code: &str) {
    assert!(answer.0 == 400 && answer.1.contains(&format!("\"{code}\"")), "{answer:?}");
}

#[test]
fn reads_show_what_was_there_then() {
    let house = House::start(true);
    let before_all = house.pass();
    house.create();
    house.put("r", 1);
    let first = house.pass();
    house.put("r", 2);
    house.put("s", 3);
    let second = house.pass();
    house.delete("r");
    let third = house.pass();
    house.tables.delete_table(&account(), &people()).expect("a table that goes");
    house.pass();
    house.db.compact().expect("a compaction");

    for (moment, status, shown) in
        [(&first, 200, "\"n\":1"), (&second, 200, "\"n\":2"), (&third, 404, "ResourceNotFound")]
    {
        let (got, body) = house.as_of(ENTITY, moment);
        assert!(got == status && body.contains(shown), "{moment}: {got} {body}");
    }
    let rows = |moment: &str, filter: &str| {
        let (status, body) = house.as_of(&format!("/people(){filter}"), moment);
        assert_eq!(status, 200, "{body}");
        body.matches("\"RowKey\"").count()
    };
    assert_eq!([&first, &second, &third].map(|at| rows(at, "")), [1, 2, 1]);
    assert_eq!([&first, &second].map(|at| rows(at, "?$filter=n%20gt%201")), [0, 2]);
    let tables = |moment: &str| house.as_of("/Tables", moment).1.contains("people");
    assert_eq!([&before_all, &first, &third].map(|at| tables(at)), [false, true, true]);
    assert_eq!(house.as_of("/Tables('people')", &third).0, 200);
    assert_eq!(house.as_of("/Tables('people')", &before_all).0, 404);
    assert_eq!(house.as_of("/people()", &before_all).0, 404);
    // Now it is gone; a zone and ticks are understood.
    assert_eq!(house.send("GET", ENTITY, &[], "").0, 404);
    let elsewhere = first.replace('Z', "+00:00");
    assert!(house.as_of(ENTITY, &elsewhere).1.contains("\"n\":1"), "{elsewhere}");
}

/// A table's policy says who may read that table, and not another one that had its name before.
#[test]
fn a_policy_opens_the_past_of_its_own_table_alone() {
    let house = House::start(true);
    house.create();
    house.put("r", 1);
    let of_the_first = house.pass();
    house.tables.delete_table(&account(), &people()).expect("a table that goes");
    let of_none = house.pass();
    house.create();
    house.put("r", 2);
    let of_the_second = house.pass();
    house.put("r", 3);
    let policies = format!(
        "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Expiry>{FAR}</Expiry>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    );
    assert_eq!(house.send("PUT", "/people?comp=acl", &[], &policies).0, 204);
    let by_policy = Sas::table("people").without("se").with("si", "p");
    let in_range = by_policy.with("spk", "q");
    let by_itself = Sas::table("people").with("sp", "r");
    let ask = |sas: &Sas, path: &str, moment: &str| {
        let path = format!("{path}?{}&$format=application/json;odata=nometadata", sas.token());
        house.ask(&request("GET", &path, &[("x-tabulith-as-of", moment)], ""))
    };
    for path in [ENTITY, "/people()"] {
        for sas in [&by_policy, &in_range] {
            for moment in [&of_the_first, &of_none] {
                let (status, body) = ask(sas, path, moment);
                assert!(status == 404 && body.contains("TableNotFound"), "{path}: {status} {body}");
            }
        }
        let (status, body) = ask(&by_policy, path, &of_the_second);
        assert!(status == 200 && body.contains("\"n\":2"), "{path}: {status} {body}");
        // Who needs no policy has leave for the name.
        let (status, body) = ask(&by_itself, path, &of_the_first);
        assert!(status == 200 && body.contains("\"n\":1"), "{path}: {status} {body}");
    }
    assert!(ask(&in_range, ENTITY, &of_the_second).1.contains("ResourceNotFound"));
}

#[test]
fn a_page_goes_on_in_the_same_past() {
    let house = House::start(true);
    house.create();
    for row in ["a", "b", "c"] {
        house.put(row, 1);
    }
    let moment = house.pass();
    for row in ["a", "c"] {
        house.delete(row);
    }
    let token = "&NextPartitionKey=1!4!cA--&NextRowKey=1!4!Yg--";
    let (status, first) = house.as_of("/people()?$top=1", &moment);
    assert!(status == 200 && first.contains("\"RowKey\":\"a\""), "{first}");
    let (status, rest) = house.as_of(&format!("/people()?$top=5{token}"), &moment);
    assert!(status == 200 && rest.contains("\"RowKey\":\"b\""), "{rest}");
    assert!(rest.contains("\"RowKey\":\"c\""), "{rest}");
}

#[test]
fn moments_that_are_not_kept_are_refused_with_the_window() {
    let house = House::start(true);
    house.create();
    let early = house.pass();
    house.clock.advance(2 * HISTORY);
    house.put("r", 1);
    house.db.compact().expect("a compaction");
    for moment in
        [early.as_str(), "2021-01-02T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T00:00:00Z"]
    {
        let answer = house.as_of(ENTITY, moment);
        assert!(answer.1.contains("the history begins at 2021-01-01T01:01:"), "{answer:?}");
        refused(answer, "AsOfOutOfRange");
    }
    for moment in
        ["", "now", "2021-01-01", "2021-01-01T00:00:00", "1609459200", "2021-13-01T00:00:00Z"]
    {
        refused(house.as_of(ENTITY, moment), "InvalidHeaderValue");
    }
    let twice = [("x-tabulith-as-of", early.as_str()), ("x-tabulith-as-of", early.as_str())];
    refused(house.send("GET", ENTITY, &twice, ""), "InvalidHeaderValue");
}

#[test]
fn only_reads_are_done_as_of_a_moment() {
    let house = House::start(true);
    house.create();
    house.put("r", 1);
    let moment = house.pass();
    let header = [("x-tabulith-as-of", moment.as_str()), ("If-Match", "*")];
    for (method, path, body) in [
        ("POST", "/Tables", "{\"TableName\":\"other\"}"),
        ("DELETE", "/Tables('people')", ""),
        ("POST", "/people", "{\"PartitionKey\":\"p\",\"RowKey\":\"s\"}"),
        ("PUT", ENTITY, "{}"),
        ("MERGE", ENTITY, "{}"),
        ("DELETE", ENTITY, ""),
        ("POST", "/$batch", "x"),
        ("GET", "/people?comp=acl", ""),
        ("GET", "/$metadata", ""),
    ] {
        let answer = house.send(method, path, &header, body);
        assert!(
            answer.0 == 400 && answer.1.contains("AsOfNotSupported"),
            "{method} {path}: {answer:?}"
        );
    }
    assert_eq!(house.send("GET", "/people()", &[], "").1.matches("\"RowKey\"").count(), 1);
}

#[test]
fn a_query_in_a_batch_may_be_of_the_past() {
    let house = House::start(true);
    house.create();
    house.put("r", 1);
    let moment = house.pass();
    house.put("r", 2);
    let body = format!(
        "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         GET http://127.0.0.1:10002/devstoreaccount1/people() HTTP/1.1\r\n\
         Accept: application/json\r\nx-tabulith-as-of: {moment}\r\n\r\n\r\n--b--\r\n"
    );
    let kind = [("Content-Type", "multipart/mixed; boundary=b")];
    let (status, answer) = house.send("POST", "/$batch", &kind, &body);
    assert!(status == 202 && answer.contains("\"n\":1"), "{status} {answer}");
}

#[test]
fn a_server_without_a_window_says_so() {
    let house = House::start(false);
    house.create();
    let moment = house.pass();
    let answer = house.as_of("/people()", &moment);
    assert!(answer.1.contains("--history"), "{answer:?}");
    refused(answer, "AsOfOutOfRange");
}
