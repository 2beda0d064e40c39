//! A server that answers as told, and a client of it with a clock that nobody waits for.

#![allow(unreachable_pub, reason = "tests")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith_client::world::{Pending, World};
use tabulith_client::{Account, Backoff, Connection, ETag, Entity, Options, Retry, Table};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A world that only notes how long it should wait.
#[derive(Default)]
pub struct Noted {
    pub waits: Mutex<Vec<Duration>>,
    now_ms: AtomicU64,
}

impl World for Noted {
    fn wall(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::Relaxed))
    }

    fn chance(&self) -> f64 {
        0.5
    }

    fn sleep(&self, wait: Duration) -> Pending<'_, ()> {
        self.now_ms.fetch_add(u64::try_from(wait.as_millis()).unwrap(), Ordering::Relaxed);
        self.waits.lock().unwrap().push(wait);
        Box::pin(async {})
    }
}

/// What the server does with the next request.
#[derive(Clone)]
pub enum Act {
    /// Answers: status, further headers, body.
    Answer(u16, &'static str, String),
    /// Reads the request and closes.
    Hang,
    /// Answers with a body that is shorter than it says.
    Cut,
    /// Listens no longer, from before the answer that stands before it.
    Leave,
}

/// A server that answers requests by a list; each connection takes one.
pub struct Script {
    pub account: Account,
    pub table: Table,
    pub world: Arc<Noted>,
    seen: Arc<Mutex<Vec<String>>>,
    left: Arc<Mutex<VecDeque<Act>>>,
}

pub const ONE_SECOND: Backoff = Backoff::Exponential {
    unit: Duration::from_secs(1),
    min: Duration::from_millis(1),
    max: Duration::from_secs(100),
};

impl Script {
    pub async fn new(acts: Vec<Act>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/abc", listener.local_addr().unwrap());
        let (seen, left) = (Arc::default(), Arc::new(Mutex::new(VecDeque::from(acts))));
        tokio::spawn(serve(listener, Arc::clone(&seen), Arc::clone(&left)));
        let text = format!("AccountName=abc;AccountKey=aGVsbG8=;TableEndpoint={endpoint}");
        let world = Arc::new(Noted::default());
        let retry = Retry { backoff: ONE_SECOND, retries_max: 3, ..Retry::default() };
        let options = Options { retry, world: world.clone(), ..Options::default() };
        let account = Account::new(Connection::parse(&text).unwrap(), options);
        let table = account.table("T");
        Script { account, table, world, seen, left }
    }

    /// The verbs of the requests that came, and the waits between them in milliseconds.
    #[track_caller]
    pub fn check(&self, verbs: &[&str], waits: &[u128]) {
        assert_eq!(*self.seen.lock().unwrap(), verbs);
        let noted: Vec<_> =
            self.world.waits.lock().unwrap().iter().map(Duration::as_millis).collect();
        assert_eq!(noted, waits);
        assert!(self.left.lock().unwrap().is_empty(), "requests that nobody made");
    }
}

async fn serve(
    listener: TcpListener,
    seen: Arc<Mutex<Vec<String>>>,
    left: Arc<Mutex<VecDeque<Act>>>,
) {
    let mut open = Some(listener);
    while let Some(listener) = &open
        && let Ok((mut socket, _)) = listener.accept().await
    {
        let Some(request) = read_request(&mut socket).await else { continue };
        seen.lock().unwrap().push(request.split(' ').next().unwrap().to_owned());
        let act = left.lock().unwrap().pop_front();
        if matches!(left.lock().unwrap().front(), Some(Act::Leave)) {
            left.lock().unwrap().pop_front();
            open = None;
        }
        let text = match act {
            Some(Act::Answer(status, headers, body)) => format!(
                "HTTP/1.1 {status} X\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
                if status == 204 { 0 } else { body.len() }
            ),
            Some(Act::Cut) => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_owned(),
            Some(Act::Hang) => continue,
            Some(Act::Leave) | None => {
                "HTTP/1.1 418 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
        };
        drop(socket.write_all(text.as_bytes()).await);
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let count = socket.read_buf(&mut read).await.ok()?;
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        if count == 0 {
            return None;
        }
    }
}

pub fn refusal(status: u16, headers: &'static str, code: &str) -> Act {
    let body = format!(
        "{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"0:No.\\nRequestId:r\\nTime:t\"}}}}}}"
    );
    Act::Answer(status, headers, body)
}

pub const NEW: &str = "ETag: W/\"new\"\r\n";

pub fn done() -> Act {
    Act::Answer(204, NEW, String::new())
}

pub fn there(etag: &str, properties: &str) -> Act {
    let body = format!(
        "{{\"odata.etag\":\"W/\\\"{etag}\\\"\",\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Timestamp\":\"2020-01-01T00:00:00Z\"{properties}}}"
    );
    Act::Answer(200, "", body)
}

pub fn busy() -> Act {
    refusal(503, "", "ServerBusy")
}

pub fn exists() -> Act {
    refusal(409, "", "EntityAlreadyExists")
}

pub fn missing() -> Act {
    refusal(404, "", "ResourceNotFound")
}

pub fn changed() -> Act {
    refusal(412, "", "UpdateConditionNotSatisfied")
}

pub fn row() -> Entity {
    Entity::new("p", "r").with("a", 1_i32)
}

pub fn new() -> ETag {
    ETag::new("W/\"new\"")
}

pub fn old() -> ETag {
    ETag::new("W/\"old\"")
}

pub fn part(status: u16, headers: &str, body: &str) -> String {
    format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 {status} X\r\n{headers}\r\n{body}\r\n--c--\r\n--b--\r\n"
    )
}

pub const MULTIPART: &str = "Content-Type: multipart/mixed; boundary=b\r\n";

pub fn refused_part(status: u16, code: &str) -> Act {
    let Act::Answer(_, _, body) = refusal(status, "", code) else { unreachable!() };
    Act::Answer(202, MULTIPART, part(status, "", &body))
}
