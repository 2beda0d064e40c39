//! A server that a shell has put under limits, and what all these tests do with one.

use crate::client::Client;
use crate::common::Place;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server under limits; killed in the end.
pub(crate) struct Limited {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) port: u16,
}

impl Limited {
    /// Starts on the folder `data` of `place`, after the shell has done `limits`.
    pub(crate) fn start(place: &Place, limits: &str, more: &[&str]) -> Result<Limited, String> {
        let script = format!("{limits}\nexec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_tabulith"));
        command.args(["serve", "--port", "0", "--data-dir"]).arg(place.path("data")).args(more);
        // To a file: nobody reads a pipe meanwhile.
        let messages = place.path("stderr");
        let stderr = std::fs::File::create(&messages).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("a shell");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut said = String::new();
        while !said.contains("\ndurability ") && out.read_line(&mut said).expect("text") > 0 {}
        let port = said.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
        match port.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Limited { child, out, port }),
            None => {
                child.wait().expect("its end");
                Err(std::fs::read_to_string(&messages).expect("text"))
            }
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port).expect("a connection")
    }

    /// The status and the text of `/_/ready`.
    pub(crate) fn ready(&self) -> (u16, String) {
        let mut stream =
            std::net::TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let ask = "GET /_/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        std::io::Write::write_all(&mut stream, ask.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status =
            answer.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or_default();
        (status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim().to_owned())
    }

    /// The memory that it has, all of it; what it has of files the kernel may take back.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    /// The memory that no file stands behind.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.memory_bytes("RssAnon:")
    }

    #[cfg(target_os = "linux")]
    fn memory_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("its state");
        let line = status.lines().find(|line| line.starts_with(name)).expect("its memory");
        1024 * line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("KiB")
    }

    #[cfg(not(target_os = "linux"))]
    fn memory_bytes(&self, _name: &str) -> u64 {
        0
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Whether none of its threads runs until it is told to go on.
    #[cfg(target_os = "linux")]
    pub(crate) fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        threads.expect("its threads").flatten().all(|thread| {
            // The state follows the name, which is in brackets. One that has ended has none.
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn stands_still(&self) -> bool {
        let id = self.child.id().to_string();
        let said = Command::new("ps").args(["-o", "state=", "-p", &id]).output().expect("ps");
        String::from_utf8_lossy(&said.stdout).trim_start().starts_with('T')
    }

    /// Whether it is still there.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Ends it in order; gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        let mut rest = String::new();
        let _ = self.out.read_to_string(&mut rest);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn entity(row: u64, bytes: usize) -> String {
    let text = format!("{row}/").repeat(bytes);
    let half = &text[..bytes / 2];
    format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:08}\",\"Text\":\"{half}\",\"More\":\"{half}\"}}"
    )
}

/// The number that a row has for its RowKey.
pub(crate) fn row_number(row: &serde_json::Value) -> u64 {
    row["RowKey"].as_str().expect("a key").parse().expect("a number")
}

/// Every row of the table, by number.
pub(crate) fn rows(client: &mut Client) -> BTreeSet<u64> {
    let mut rows = BTreeSet::new();
    client.each_row("rows", |row| _ = rows.insert(row_number(row)));
    rows
}

pub(crate) fn table(server: &Limited) -> Client {
    let mut client = server.client();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    client
}

/// All that was acknowledged is there after a start without limits, and the folder is whole.
pub(crate) fn all_there(place: &Place, acked: &BTreeSet<u64>) {
    let server = Limited::start(place, "", &[]).expect("a start without limits");
    let found = rows(&mut server.client());
    let lost: Vec<_> = acked.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert_eq!(server.stop(), Some(0));
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
}
