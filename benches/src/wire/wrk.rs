//! Runs wrk, the load generator, on given requests and reads what it says.

use crate::cpu::CpuTimes;
use crate::wire::entities::NUMBER;
use anyhow::{Context as _, Result, ensure};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = include_str!("wrk.lua");

/// What is sent, and by how many.
#[derive(Debug)]
pub struct Load<'a> {
    /// Texts of whole requests, sent in turn.
    pub requests: &'a [String],
    /// Connections, each of which waits for an answer before it sends the next request.
    pub connections: usize,
    /// The number that stands in for [`NUMBER`] in the first request that is sent.
    pub base: u64,
    /// Whether answers hold those of a transaction.
    pub transactions: bool,
    /// How long.
    pub span: Duration,
}

/// What one run showed.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Requests answered per second.
    pub rate: f64,
    /// CPU time of the server for each, in microseconds.
    pub cpu_us: f64,
    /// Bytes of an answer.
    pub bytes: f64,
    /// Half of the requests took at most this long.
    pub p50_us: f64,
    /// 99 of 100 requests took at most this long.
    pub p99_us: f64,
}

/// Waits until a server is done with what earlier requests left it to do, 20 s at most: its work is
/// not to be counted twice, or for somebody else's requests.
fn await_rest(server: u32) {
    const LOOK: Duration = Duration::from_millis(200);
    for _ in 0..100 {
        let before = CpuTimes::now(Some(server));
        std::thread::sleep(LOOK);
        if CpuTimes::now(Some(server)).since(before).server * 20 <= LOOK {
            break;
        }
    }
}

/// Sends `load` to the server at `addr`, whose process is `server`. `dir` is for the script. Fails
/// if any request failed or was refused.
pub fn run(addr: SocketAddr, server: u32, load: &Load<'_>, dir: &Path) -> Result<Run> {
    let script = dir.join("requests.lua");
    std::fs::write(&script, script_of(load)).context("writing wrk's script")?;
    let mut command = Command::new("wrk");
    command.args(["--threads", "1", "--timeout", "60s", "--connections"]);
    command.arg(load.connections.to_string());
    // wrk takes whole seconds only.
    command.arg("--duration").arg(format!("{}s", load.span.as_secs().max(1)));
    command.arg("--script").arg(&script).arg(format!("http://{addr}/"));
    await_rest(server);
    let before = CpuTimes::now(Some(server));
    let output = command.output().context("starting wrk")?;
    await_rest(server);
    let cpu = CpuTimes::now(Some(server)).since(before).server;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    let line = line.with_context(|| format!("wrk says {text} {errors}"))?;
    let fields: Vec<f64> = line.split(' ').filter_map(|field| field.parse().ok()).collect();
    let &[requests, micros, bytes, broken, refused, p50_us, p99_us] = fields.as_slice() else {
        anyhow::bail!("wrk says {line}");
    };
    ensure!(broken == 0.0 && refused == 0.0, "{broken} requests broke, {refused} were refused");
    ensure!(requests > 0.0, "no request was answered");
    Ok(Run {
        rate: requests / (micros / 1e6),
        cpu_us: cpu.as_secs_f64() * 1e6 / requests,
        bytes: bytes / requests,
        p50_us,
        p99_us,
    })
}

fn script_of(load: &Load<'_>) -> String {
    let mut script = String::from("requests = {\n");
    for request in load.requests {
        let parts: Vec<String> = request.split(NUMBER).map(quoted).collect();
        script.push_str(&format!("{{{}}},\n", parts.join(",")));
    }
    script.push_str("}\n");
    script.push_str(&format!("base = {}\ntransactions = {}\n", load.base, load.transactions));
    script + SCRIPT
}

/// A Lua string of this text.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\r' => quoted.push_str("\\r"),
            '\n' => quoted.push_str("\\n"),
            '"' | '\\' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
