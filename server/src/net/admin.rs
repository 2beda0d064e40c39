//! What operators ask below `/_/`: whether the server lives, whether it is ready, its metrics, its
//! hottest partitions.
//!
//! These questions need no credentials, so they are heard in two places only: at an address of
//! their own, where the configuration gives one; else where requests come in, from this machine. A
//! proxy on this machine speaks for others, and so does a browser that was told a name for this
//! machine's address: where requests come in neither is heard, at an address of this machine for
//! operators the browser is not. To everybody else such a path is like any other that means
//! nothing.
//!
//! No account's name can begin with `_`, so that no table hides behind these paths.
//!
//! Absent: data of tables, and what is done there for tests of applications. Names of partitions
//! are told only where the configuration says so.

use crate::http::message::{Head, Response};
use crate::net::counts::Connections;
use crate::net::room::Room;
use crate::observe::engine::{self, Engine};
use crate::observe::hot::{Hot, Rank};
use crate::observe::requests::Requests;
use crate::observe::spans::Spans;
use crate::observe::text::{CONTENT_TYPE, Text};
use crate::testing::Forks;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith::health::Obstacle;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

/// Where these paths begin.
const PREFIX: &str = "/_/";

/// Questions to the engine at once: each may look at the disk, and has a thread for that.
const QUESTIONS: usize = 2;

/// How long the engine may take for its answer, the wait for a turn included.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(1);

/// Who asks by a connection, as far as that tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The other end.
    pub(crate) peer: Option<IpAddr>,
    /// Whether they come over TLS.
    pub(crate) secure: bool,
    /// Whether they came to the address that is for operators alone.
    pub(crate) admin: bool,
}

/// Where the tables are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) addr: SocketAddr,
    /// Whether that address speaks TLS alone.
    pub(crate) secure: bool,
}

impl Tables {
    /// What clients of tables begin addresses with, who reach them as a request has come. From the
    /// address for operators the tables are at their own, on the machine that was asked.
    pub(crate) fn base(self, head: &Head, caller: Caller) -> String {
        let secure = if caller.admin { self.secure } else { head.secure };
        let scheme = if secure { "https" } else { "http" };
        match self.addr {
            _ if !caller.admin => format!("{scheme}://{}", head.authority),
            addr if !addr.ip().is_unspecified() => format!("{scheme}://{addr}"),
            addr => format!("{scheme}://{}:{}", host(&head.authority), addr.port()),
        }
    }
}

/// Turns of questions to the engine.
#[derive(Debug)]
pub(crate) struct Questions(Arc<Semaphore>);

impl Default for Questions {
    fn default() -> Questions {
        Questions(Arc::new(Semaphore::new(QUESTIONS)))
    }
}

/// The engine did not answer in time.
struct Late;

/// What is told, and to whom.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) tables: Tables,
    /// The address for these questions alone, if there is one.
    pub(crate) own_address: Option<IpAddr>,
    pub(crate) engine: Option<Arc<dyn Engine>>,
    pub(crate) questions: Questions,
    /// Who makes copies for tests of applications; without them there is nothing for these.
    pub(crate) forks: Option<Arc<dyn Forks>>,
    /// Whether whoever started the server says that it is.
    pub(crate) started: AtomicBool,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) hot: Arc<Hot>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) spans: Option<Arc<Spans>>,
    pub(crate) bodies: Room,
    pub(crate) answers: Room,
}

impl Admin {
    /// Whether a request is one of these, from somebody who is told.
    pub(crate) fn hears(&self, head: &Head, caller: Caller) -> bool {
        head.path().starts_with(PREFIX)
            && match self.own_address {
                None => is_of_this_machine(head, caller),
                Some(own) => caller.admin && (!is_loopback(own) || is_of_no_stranger(head)),
            }
    }

    /// Who makes copies, where a request that is heard may be one for tests of applications. A page
    /// of some other site, which a browser asks for, may make none.
    pub(crate) fn forks_for(&self, head: &Head) -> Option<Arc<dyn Forks>> {
        let changes = matches!(head.method.as_str(), "POST" | "DELETE");
        self.forks.clone().filter(|_| changes && head.headers.get("Origin").is_none())
    }

    /// The answer to a request that is heard.
    pub(crate) async fn answer(&self, head: &Head) -> Response {
        let path = below(head);
        if !matches!(path, "live" | "ready" | "metrics" | "hot") {
            return plain(404, "there is /_/live, /_/ready, /_/metrics and /_/hot\n");
        }
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            let mut response = plain(405, "GET or HEAD\n");
            response.header("Allow", "GET, HEAD");
            return response;
        }
        match path {
            "live" => plain(200, "live\n"),
            "ready" => {
                let obstacle = self.ask(|engine| engine.obstacle()).await.map(Option::flatten);
                match self.obstacles(&obstacle).as_slice() {
                    [] => plain(200, "ready\n"),
                    obstacles => plain(503, obstacles.join("\n") + "\n"),
                }
            }
            "hot" => self.hot(),
            _ => self.metrics().await,
        }
    }

    /// The engine's answer, if there is an engine. A disk that does not answer holds up whoever
    /// asks here, and no connection.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Engine) -> T + Send + 'static,
    ) -> Result<Option<T>, Late> {
        let Some(engine) = self.engine.clone() else { return Ok(None) };
        let asking = async {
            let turn = self.questions.0.clone().acquire_owned().await;
            let ask = move || {
                let _turn = turn;
                question(&*engine)
            };
            spawn_blocking(ask).await
        };
        match tokio::time::timeout(QUESTION_TIME_MAX, asking).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            _ => Err(Late),
        }
    }

    /// What keeps the server from being ready, with what the engine says.
    fn obstacles(&self, of_engine: &Result<Option<Obstacle>, Late>) -> Vec<&'static str> {
        let mut obstacles = Vec::new();
        if !self.started.load(Ordering::Acquire) {
            obstacles.push("starting");
        }
        if *self.stopping.borrow() {
            obstacles.push("draining");
        }
        match of_engine {
            Ok(obstacle) => obstacles.extend(obstacle.as_ref().map(engine::told)),
            Err(Late) => obstacles.push("disk does not answer"),
        }
        obstacles
    }

    async fn metrics(&self) -> Response {
        let said = self.ask(|engine| (engine.stats(), engine.obstacle())).await;
        let (stats, obstacle) = match said {
            Ok(Some((stats, obstacle))) => (Some(stats), Ok(obstacle)),
            Ok(None) => (None, Ok(None)),
            Err(late) => (None, Err(late)),
        };
        let mut text = Text::default();
        let version = env!("CARGO_PKG_VERSION");
        text.gauge("tabulith_build_info", "1, with the version.").of(&[("version", version)], 1);
        let is_ready = u8::from(self.obstacles(&obstacle).is_empty());
        text.gauge("tabulith_ready", "1 where /_/ready says so.").is(is_ready);
        self.requests.write(&mut text);
        self.connections.write(&mut text);
        let rooms = [("bodies", &self.bodies), ("answers", &self.answers)];
        let help = "Bytes held for requests on their way, by use.";
        let mut family = text.gauge("tabulith_request_memory_bytes", help);
        for (what, room) in rooms {
            family.of(&[("use", what)], room.taken_bytes());
        }
        let help = "Bytes that may be held for requests, by use; beyond them requests get 503.";
        let mut family = text.gauge("tabulith_request_memory_limit_bytes", help);
        for (what, room) in rooms {
            family.of(&[("use", what)], room.bytes());
        }
        self.write_ranks(&mut text);
        if let Some(spans) = &self.spans {
            spans.write(&mut text);
        }
        if let (Some(stats), Ok(obstacle)) = (&stats, &obstacle) {
            engine::write(stats, obstacle.as_ref(), &mut text);
        }
        told(200, CONTENT_TYPE, text.finish())
    }

    fn write_ranks(&self, text: &mut Text) {
        if !self.hot.is_on() {
            return;
        }
        let ranking = self.hot.ranking(self.clock.steady());
        let help = "Entities read or written within the last full minute, in all partitions.";
        text.gauge("tabulith_partition_entities", help).is(ranking.entities);
        let help = "The same in the partitions with the most, at most; the first has rank 1.";
        let ranks: Vec<String> = (1..=ranking.ranks.len()).map(|rank| rank.to_string()).collect();
        let mut family = text.gauge("tabulith_partitions_hot", help);
        for (rank, Rank { entities, .. }) in ranks.iter().zip(&ranking.ranks) {
            family.of(&[("rank", rank)], entities);
        }
        let help = "By how much that may be too much.";
        let mut family = text.gauge("tabulith_partitions_hot_error", help);
        for (rank, Rank { error, .. }) in ranks.iter().zip(&ranking.ranks) {
            family.of(&[("rank", rank)], error);
        }
    }

    /// The ranking with names, where these are told.
    fn hot(&self) -> Response {
        if !self.hot.tells_names() {
            return plain(404, "names of partitions are told with --hot-partitions names\n");
        }
        let ranking = self.hot.ranking(self.clock.steady());
        let rank = |Rank { name, entities, error }: Rank| {
            let name = name.unwrap_or_default();
            json!({
                "account": name.account, "table": name.table,
                "partition_key": name.partition_key, "entities": entities, "error": error,
            })
        };
        let partitions: Vec<_> = ranking.ranks.into_iter().map(rank).collect();
        json(200, &json!({ "entities": ranking.entities, "partitions": partitions }))
    }
}

/// Whether a request comes from this machine, on its own behalf, to a name or address that is no
/// stranger's.
fn is_of_this_machine(head: &Head, caller: Caller) -> bool {
    caller.peer.is_some_and(is_loopback)
        && !head.headers.iter().any(|(name, _)| is_of_another(name))
        && is_own_name(&head.authority)
}

/// Whether a request to an address of this machine is of no page that a browser has from elsewhere,
/// under a name that leads here.
fn is_of_no_stranger(head: &Head) -> bool {
    head.headers.get("Origin").is_none() && is_own_name(&head.authority)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a header says that somebody else is spoken for.
fn is_of_another(name: &str) -> bool {
    const PASSED_ON: [&str; 4] = ["Forwarded", "X-Real-IP", "Via", "Origin"];
    const FORWARDED: &str = "X-Forwarded-";
    let start = name.get(..FORWARDED.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(FORWARDED))
        || PASSED_ON.iter().any(|passed_on| name.eq_ignore_ascii_case(passed_on))
}

/// Whether an authority is `localhost` or an address of the loopback, with or without a port, and
/// nothing else beside them.
fn is_own_name(authority: &str) -> bool {
    let host = host(authority);
    let port = &authority[host.len()..];
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = |port: &str| is_number(port) && port.parse::<u16>().is_ok();
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    let in_brackets = host.strip_prefix('[').map(|rest| rest.strip_suffix(']').unwrap_or_default());
    let address = match in_brackets {
        Some(address) => address.parse().map(IpAddr::V6).ok(),
        None => host.parse().map(IpAddr::V4).ok(),
    };
    host.eq_ignore_ascii_case("localhost") || address.is_some_and(is_loopback)
}

/// An authority without its port.
fn host(authority: &str) -> &str {
    let end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']').map(|at| at + 2),
        None => authority.find(':'),
    };
    end.map_or(authority, |end| &authority[..end])
}

/// What follows `/_/` in a path.
pub(crate) fn below(head: &Head) -> &str {
    head.path().strip_prefix(PREFIX).unwrap_or_default()
}

/// A text for people.
pub(crate) fn plain(status: u16, text: impl Into<String>) -> Response {
    told(status, "text/plain; charset=utf-8", text.into())
}

/// A text for programs.
pub(crate) fn json(status: u16, value: &Value) -> Response {
    told(status, "application/json", value.to_string())
}

/// An answer that nobody keeps.
fn told(status: u16, content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(status);
    response.header("Content-Type", content_type);
    response.header("Cache-Control", "no-store");
    response.header("X-Content-Type-Options", "nosniff");
    response.body = text.into();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for own in
            ["localhost", "LOCALHOST:10002", "127.0.0.1:1", "127.1.2.3", "[::1]:10002", "[::1]"]
        {
            assert!(is_own_name(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:1",
            "10.0.0.1",
            "[::2]",
            "127.0.0.1.evil",
            "localhost:x@evil.example",
            "localhost:80@evil.example",
            "localhost@evil.example",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "127.0.0.1:1:2",
            "[::1]evil.example",
            "[::1]:x",
            "[::1",
            "[::1]]",
            "[127.0.0.1]",
            "::1",
        ] {
            assert!(!is_own_name(other), "{other}");
        }
    }

    #[test]
    fn tables_are_where_clients_reach_them() {
        let base = |tables: (&str, bool), (authority, secure, admin): (&str, bool, bool)| {
            let addr = tables.0.parse().expect("an address");
            let head = Head { authority: authority.to_owned(), secure, ..Head::default() };
            Tables { addr, secure: tables.1 }.base(&head, Caller { peer: None, secure, admin })
        };
        let here = ("127.0.0.1:10002", false);
        assert_eq!(base(here, ("localhost:10002", false, false)), "http://localhost:10002");
        assert_eq!(base(here, ("host:10003", true, false)), "https://host:10003");
        assert_eq!(base(here, ("localhost:9000", false, true)), "http://127.0.0.1:10002");
        assert_eq!(base(("[::1]:1", true), ("h:2", false, true)), "https://[::1]:1");
        assert_eq!(base(("0.0.0.0:1", false), ("h.example:2", false, true)), "http://h.example:1");
        assert_eq!(
            base(("[::]:1", true), ("[2001:db8::7]:2", false, true)),
            "https://[2001:db8::7]:1"
        );
        assert_eq!(base(("0.0.0.0:1", false), ("h", false, true)), "http://h:1");
    }

    #[test]
    fn a_proxy_and_a_browser_are_not_this_machine() {
        let caller = |peer: &str| Caller {
            peer: Some(peer.parse().expect("an address")),
            secure: false,
            admin: false,
        };
        let head = |name: &str| {
            let mut head = Head { authority: "localhost".to_owned(), ..Head::default() };
            head.headers.push(name, "x");
            head
        };
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(is_of_this_machine(&head("Accept"), caller(peer)), "{peer}");
        }
        assert!(!is_of_this_machine(&head("Accept"), caller("192.0.2.1")));
        assert!(!is_of_this_machine(&head("Accept"), Caller { peer: None, ..caller("::1") }));
        for name in [
            "x-forwarded-for",
            "X-Forwarded-Proto",
            "X-FORWARDED-Port",
            "Forwarded",
            "Via",
            "Origin",
        ] {
            assert!(!is_of_this_machine(&head(name), caller("127.0.0.1")), "{name}");
        }
    }
}
