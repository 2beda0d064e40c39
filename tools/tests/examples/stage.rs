//! Where examples run: a folder for each page, the program under its name, a server at its port.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tabulith_client::connection::DEVELOPMENT_KEY;

/// The ports that examples and documents name: of tables, of operators, of TLS.
const PORTS: [u16; 3] = [10_002, 10_003, 10_443];

/// Folders that examples name from the root.
const ROOTS: [&str; 2] = ["/mnt/", "/var/lib/"];

/// How long a server may take to be ready.
const START_WAIT: Duration = Duration::from_secs(60);

/// The folder of the whole test, and its server.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    /// What stands in the place of each documented port.
    ports: [u16; 3],
    server: Option<Server>,
}

/// A server that has said that it is ready; killed when it drops.
pub(crate) struct Server(Child);

impl Server {
    /// Runs a command that becomes a server; the socket is where it tells that it is ready.
    fn start(mut command: Command, folder: &Path) -> Server {
        let path = folder.join("notify");
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(START_WAIT)).unwrap();
        let log = std::fs::File::create(folder.join("server.log")).unwrap();
        command.env("NOTIFY_SOCKET", &path).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let server = Server(command.spawn().unwrap());
        let mut said = [0; 256];
        let told = socket.recv(&mut said).map(|length| said[..length].to_vec());
        let log = || std::fs::read_to_string(folder.join("server.log")).unwrap();
        assert_eq!(told.ok().as_deref(), Some(&b"READY=1"[..]), "{command:?} says:\n{}", log());
        server
    }

    /// Asks it to end; gives its exit code.
    fn end(mut self) -> i32 {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// With a server at the port of tables.
    pub(crate) fn new() -> Stage {
        let mut stage = Stage::without_server();
        // Not for tests without a server: whoever looks for a free port holds it for a moment.
        stage.ports = ports();
        let port = stage.ports[0].to_string();
        let mut command = stage.command(stage.folder(), "tabulith");
        command.args(["serve", "--data-dir", "served", "--testing", "--port", &port]);
        stage.server = Some(Server::start(command, stage.folder()));
        stage
    }

    pub(crate) fn without_server() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let program = env!("CARGO_BIN_EXE_tabulith");
        std::os::unix::fs::symlink(program, bin.join("tabulith")).unwrap();
        Stage { folder, ports: PORTS, server: None }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the program prints; it ends with 0.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let output = self.command(self.folder(), "tabulith").args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A program with nothing of the caller's environment but what finds programs.
    fn command(&self, folder: &Path, program: &str) -> Command {
        let bin = self.folder().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = match program {
            "tabulith" => Command::new(bin.join(program)),
            other => Command::new(other),
        };
        command.current_dir(folder).stdin(Stdio::null()).env_clear().env("PATH", path);
        command.env("HOME", folder.join("home")).env("LANG", "C.UTF-8").env("RUST_BACKTRACE", "0");
        if self.ports != PORTS {
            command.env("AZURE_STORAGE_CONNECTION_STRING", self.connection());
            command.env("TABULITH_HEALTH_URL", format!("http://127.0.0.1:{}", self.ports[0]));
            command.env("TABULITH_PORT", self.ports[0].to_string());
        }
        command
    }

    /// The connection string of the development account.
    pub(crate) fn connection(&self) -> String {
        format!(
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={DEVELOPMENT_KEY};\
             TableEndpoint=http://127.0.0.1:{}/devstoreaccount1",
            self.ports[0]
        )
    }

    /// A folder for a page; the server has no tables.
    pub(crate) fn scene(&self, name: &str) -> Scene<'_> {
        let kind = if self.server.is_some() { "run" } else { "serve" };
        let folder = self.folder().join(kind).join(name.replace('/', "-"));
        std::fs::create_dir_all(folder.join("home")).unwrap();
        if self.server.is_some() {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[0])).unwrap();
            let request = "POST /_/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\
                           Connection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
        Scene { stage: self, folder, variables: RefCell::default(), servers: RefCell::default() }
    }

    /// Ends the server, so that its port is free.
    pub(crate) fn end_server(&mut self) {
        assert_eq!(self.server.take().map(Server::end), Some(0));
    }
}

/// The folder of a failed test stays for whoever looks into it.
impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("the folder is kept: {}", self.folder().display());
        }
    }
}

/// The documented ports, or others for all of them where one is taken.
fn ports() -> [u16; 3] {
    let bind = |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
    let taken: Result<Vec<_>, _> = PORTS.into_iter().map(bind).collect();
    if taken.is_ok() {
        return PORTS;
    }
    let free = PORTS.map(|_| bind(0).unwrap());
    let ports = free.each_ref().map(|listener| listener.local_addr().unwrap().port());
    eprintln!("a documented port is taken: {ports:?} stand for {PORTS:?}");
    ports
}

/// The folder of one page.
pub(crate) struct Scene<'a> {
    stage: &'a Stage,
    pub(crate) folder: PathBuf,
    /// Variables that its commands name.
    variables: RefCell<BTreeMap<&'static str, String>>,
    /// Further servers that its commands ask.
    servers: RefCell<Vec<Server>>,
}

impl Scene<'_> {
    /// Writes a file that commands name.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Sets a variable that commands name.
    pub(crate) fn set(&self, name: &'static str, value: String) {
        self.variables.borrow_mut().insert(name, value);
    }

    /// The connection string of the server.
    pub(crate) fn connection(&self) -> String {
        self.stage.connection()
    }

    /// Whether there is a server to prepare.
    pub(crate) fn has_server(&self) -> bool {
        self.stage.server.is_some()
    }

    /// Runs the program to prepare something; gives what it printed.
    pub(crate) fn prepare(&self, words: &[&str]) -> String {
        let output = self.stage.command(&self.folder, "tabulith").args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "preparing {}: {words:?}: {said}", self.folder.display());
        String::from_utf8(output.stdout).unwrap()
    }

    /// A second server, at the port of operators.
    pub(crate) fn second_server(&self) {
        let port = self.stage.ports[1].to_string();
        let folder = self.folder.join("second");
        std::fs::create_dir(&folder).unwrap();
        let mut command = self.stage.command(&folder, "tabulith");
        command.args(["serve", "--data-dir", "data", "--port", &port]);
        self.servers.borrow_mut().push(Server::start(command, &folder));
    }

    /// A command with this page's folders, and the ports that stand for the documented ones.
    fn local(&self, command: &str) -> String {
        let mut text = command.to_owned();
        for root in ROOTS {
            text = text.replace(root, &format!("{}{root}", self.folder.display()));
        }
        if self.stage.ports != PORTS {
            for (documented, port) in PORTS.into_iter().zip(self.stage.ports) {
                text = text.replace(&documented.to_string(), &port.to_string());
            }
            // The word for the development account has the documented port in itself.
            if text.starts_with("tabulith copy ") {
                text = text.replace(" dev", &format!(" '{}'", self.connection()));
            }
        }
        text
    }

    /// Runs commands one after the other, in one shell; each has to end with its code. Says which
    /// did not.
    pub(crate) fn run(&self, place: &str, commands: &[(&str, i32)]) -> Option<String> {
        let line = |(command, code): &(&str, i32)| match code {
            0 => self.local(command),
            code => {
                let command = self.local(command);
                format!("if {command}\nthen false; else test $? -eq {code}; fi")
            }
        };
        let script: Vec<String> = commands.iter().map(line).collect();
        let mut shell = self.shell(place);
        let output = shell.args(["-exc", &script.join("\n")]).output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let told = || format!("{place} ended with {}\n{out}{err}", output.status);
        (!output.status.success()).then(told)
    }

    /// Starts a server, waits until it is ready, and asks it to end.
    pub(crate) fn serve_once(&self, place: &str, command: &str) {
        let mut shell = self.shell(place);
        shell.args(["-ec", &format!("exec {}", self.local(command))]);
        assert_eq!(Server::start(shell, &self.folder).end(), 0, "{place}: {command}");
    }

    fn shell(&self, place: &str) -> Command {
        let mut shell = self.stage.command(&self.folder, "sh");
        shell.envs(self.variables.borrow().iter());
        // Whose key is meant changes what is said of a signature; no server is asked.
        if place.contains(" sas ") {
            shell.env_remove("AZURE_STORAGE_CONNECTION_STRING");
        }
        shell
    }

    /// Makes the folders that commands name from the root.
    pub(crate) fn roots(&self, text: &str) {
        for root in ROOTS.into_iter().filter(|root| text.contains(root)) {
            std::fs::create_dir_all(self.folder.join(&root[1..])).unwrap();
        }
    }
}
