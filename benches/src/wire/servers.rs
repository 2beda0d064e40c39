//! The servers, each a process of its own with a folder of its own.

use crate::serve::Served;
use anyhow::{Context as _, Result, bail};
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const START_MAX: Duration = Duration::from_secs(60);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The program `tabulith`, every write synced before its answer.
    Tabulith,
    /// Azurite, tables in memory only.
    AzuriteMemory,
    /// Azurite, tables written to a folder from time to time.
    AzuriteDisk,
}

impl Kind {
    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tabulith => "Tabulith, durable",
            Kind::AzuriteMemory => "Azurite, memory",
            Kind::AzuriteDisk => "Azurite, disk",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program `tabulith`.
    pub tabulith: PathBuf,
    /// A folder into which npm has installed `azurite` and `node`.
    pub azurite: Option<PathBuf>,
}

impl Programs {
    /// The servers that can be started.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Tabulith];
        if self.azurite.is_some() {
            kinds.extend([Kind::AzuriteMemory, Kind::AzuriteDisk]);
        }
        kinds
    }
}

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Running {
    /// Starts a server over the empty folder `dir` and waits until it listens.
    pub fn start(kind: Kind, programs: &Programs, dir: &Path) -> Result<Running> {
        let addr = free_address()?;
        let port = addr.port().to_string();
        let data = dir.join("data");
        let mut command = match kind {
            Kind::Tabulith => {
                let mut command = Command::new(&programs.tabulith);
                command.args(["serve", "--silent", "--port", &port, "--data-dir"]).arg(&data);
                command
            }
            Kind::AzuriteMemory | Kind::AzuriteDisk => {
                let home = programs.azurite.as_ref().context("no folder with Azurite")?;
                let mut command = Command::new(home.join("node_modules/node/bin/node"));
                command.arg(home.join("node_modules/azurite/dist/src/table/main.js"));
                command.args(["--silent", "--disableTelemetry", "--skipApiVersionCheck"]);
                command.args(["--tablePort", &port]);
                match kind {
                    Kind::AzuriteMemory => command.arg("--inMemoryPersistence"),
                    _ => command.arg("--location").arg(&data),
                };
                command
            }
        };
        let log = File::create(dir.join("log")).context("making a log")?;
        let errors = log.try_clone().context("making a log")?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut running = Running { child, addr };
        let start = Instant::now();
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = running.child.try_wait()? {
                let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
                bail!("{} ended with {status}: {log}", kind.name());
            }
            anyhow::ensure!(start.elapsed() < START_MAX, "{} does not listen", kind.name());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that answers every request with `bytes` bytes, head included.
pub fn bare(bytes: u64) -> Result<Served> {
    Served::start(&["hello", &bytes.to_string()])
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    listener.local_addr().context("looking for a free port")
}
