//! Runs the tabulith program for tests: in an environment of its own, with its output in hand.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "shared by test files, each of which uses a part of it"
)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a test waits for what a program that works does within moments.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is removed in the end, and commands that know no other place.
pub struct Place {
    folder: tempfile::TempDir,
}

/// What a command left behind.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it wrote to stdout.
    pub out: String,
    /// What it wrote to stderr.
    pub err: String,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path as text.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A command with nothing of the caller's environment that could change what it does.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tabulith"));
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command.env_clear().env("XDG_STATE_HOME", self.path("state")).env("RUST_BACKTRACE", "0");
        command
    }

    /// Runs to the end.
    pub fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs to the end and expects it to succeed.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}\n{}{}", ran.out, ran.err);
        ran
    }

    /// Starts a server on a free port over the folder `data` and waits until it listens.
    #[track_caller]
    pub fn serve(&self, port: u16, data: &str) -> Server {
        self.serve_with(port, data, &[])
    }

    /// As `serve`, on free ports without and with TLS; what is to be trusted is written to `ca`.
    #[track_caller]
    pub fn serve_tls(&self, data: &str, ca: &str) -> Server {
        let more = ["--tls-listen", "127.0.0.1:0", "--tls-self-signed", ca];
        self.serve_with(0, data, &more)
    }

    /// As `serve`, with more flags.
    #[track_caller]
    pub fn serve_with(&self, port: u16, data: &str, more: &[&str]) -> Server {
        let port = port.to_string();
        let args = ["serve", "--port", &port, "--data-dir", data];
        let mut command = self.command(&[&args, more].concat());
        Server::of(command.stdout(Stdio::piped()).spawn().unwrap())
    }
}

/// The folder of a test that fails stays for whoever looks into it.
impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("the folder is kept: {}", self.folder.path().display());
        }
    }
}

/// A running server; killed when it goes out of scope.
pub struct Server {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    pub connection: String,
    /// Its address over TLS, without an account.
    tls: Option<String>,
    /// Where operators ask, if that is a place of its own.
    admin: Option<String>,
    /// Where its data is.
    data: String,
}

impl Server {
    /// One that has been started with its stdout in a pipe, once it listens.
    #[track_caller]
    pub fn of(mut child: Child) -> Server {
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("\ndurability ") && out.read_line(&mut said).unwrap() > 0 {}
        let after = |label: &str| said.lines().find_map(|line| line.strip_prefix(label));
        let connection = after("connection").unwrap_or_else(|| panic!("it did not start: {said}"));
        let tls = after("over TLS").map(|address| address.trim().to_owned());
        let admin = after("operators").and_then(|line| line.trim().split("http://").nth(1));
        let admin = admin.and_then(|rest| rest.split('/').next()).map(str::to_owned);
        let data = after("data ").unwrap().trim().split(", until").next().unwrap().to_owned();
        let connection = connection.trim().to_owned();
        Server { child, out, connection, tls, admin, data }
    }

    /// Its folder.
    pub fn data(&self) -> PathBuf {
        PathBuf::from(&self.data)
    }

    /// Whether it is still there.
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Its metrics, as the address of operators gives them.
    pub fn metrics(&self) -> String {
        let mut stream = std::net::TcpStream::connect(self.admin.as_deref().unwrap()).unwrap();
        let ask = "GET /_/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        std::io::Write::write_all(&mut stream, ask.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Requests without an answer, as its metrics have it.
    pub fn in_flight(&self) -> u64 {
        let text = self.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix("tabulith_requests_in_flight "));
        line.unwrap().parse().unwrap()
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// The process that it is.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Waits for its end; gives its exit code.
    pub fn wait(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    pub fn port(&self) -> u16 {
        let (_, rest) = self.connection.split_once("://127.0.0.1:").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// The address of the development account over TLS.
    pub fn tls_endpoint(&self) -> String {
        format!("{}/devstoreaccount1", self.tls.as_deref().unwrap())
    }

    /// The same server over TLS.
    pub fn tls_connection(&self) -> String {
        let (before, _) = self.connection.split_once("TableEndpoint=").unwrap();
        format!("{before}TableEndpoint={};", self.tls_endpoint())
    }

    /// Sends SIGTERM and returns the exit code and what was left on stdout.
    pub fn terminate(mut self) -> (i32, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), rest)
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of the flights data, if it is there: `TABULITH_DATA`, or `../shared/data` beside the
/// workspace.
pub fn flights_folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let data = std::env::var_os("TABULITH_DATA").map(PathBuf::from);
    let data = data.unwrap_or_else(|| root.join("../shared/data"));
    [data.join("nycflights13"), data].into_iter().find(|path| path.join("flights.csv.gz").exists())
}
