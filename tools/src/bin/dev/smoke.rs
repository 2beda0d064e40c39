//! Runs every example of README.md and docs/fault-lab.md as it stands there, in its order, against
//! a server that the document's own command starts in a folder that was empty in the beginning.
//!
//! A comment above a block says what is special about it: `<!-- smoke: serve -->` starts the
//! server, `<!-- smoke: ci -->` is a command that .ci/run itself runs. Rust blocks stand in
//! engine/examples too. Where port 10002 is taken, another one is put in its place.

use crate::repo;
use anyhow::{Context, Result, bail};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PORT: u16 = 10_002;
const START_WAIT: Duration = Duration::from_secs(30);
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A fenced block of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) language: String,
    /// What the comment above it says after `smoke:`.
    mark: String,
    pub(crate) line: usize,
    pub(crate) code: String,
}

/// Where the examples run.
struct Stage {
    root: PathBuf,
    /// An empty folder; removed at the end.
    work: PathBuf,
    port: u16,
    server: Option<Child>,
}

/// The documents whose examples are run.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/fault-lab.md"];

/// Runs the examples of the documents and of engine/examples.
pub(crate) fn run() -> Result<()> {
    let root = repo::root()?;
    let work = root.join("target/smoke");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    let mut stage = Stage { root, work, port: free_port()?, server: None };
    for document in DOCUMENTS {
        let text = fs::read_to_string(stage.root.join(document)).context(document)?;
        for block in blocks(&text) {
            let place = format!("{document}:{}", block.line);
            println!("smoke: {place} {} {}", block.language, block.mark);
            stage.play(&block).with_context(|| format!("the example at {place} failed"))?;
        }
    }
    stage.stop_server()?;
    stage.run_engine_examples()
}

/// The fenced blocks of a document.
pub(crate) fn blocks(readme: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let mut mark = "";
    let mut inside = false;
    for (i, line) in readme.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            if !inside {
                let (language, mark) = (language.to_owned(), mark.to_owned());
                out.push(Block { language, mark, line: i + 1, code: String::new() });
            }
            (inside, mark) = (!inside, "");
        } else if let (true, Some(block)) = (inside, out.last_mut()) {
            block.code.push_str(line);
            block.code.push('\n');
        } else if let Some(comment) = line.strip_prefix("<!-- smoke:") {
            mark = comment.trim_end_matches("-->").trim();
        }
    }
    out
}

impl Stage {
    fn play(&mut self, block: &Block) -> Result<()> {
        match (block.language.as_str(), block.mark.as_str()) {
            ("bash", "serve") => self.start_server(&block.code),
            ("bash", "ci") => self.ci_runs(&block.code),
            ("bash", "") => self.run_shell(&block.code),
            ("python", "") => self.run_python(block),
            ("js", "") => self.run_js(block),
            // Rust blocks are in engine/examples, as tidy checks, and run from there below.
            ("rust" | "text" | "toml", "") => Ok(()),
            (language, mark) => bail!("no way to run a block of {language} marked '{mark}'"),
        }
    }

    fn start_server(&mut self, code: &str) -> Result<()> {
        self.stop_server()?;
        let mut command = self.local(code.trim());
        if self.port != PORT {
            println!("smoke: port {PORT} is taken, using {}", self.port);
            let serve = if command.contains(" -- serve") { "" } else { " -- serve" };
            command = format!("{command}{serve} --port {}", self.port);
        }
        // The build comes first, so that the wait below is for the start alone.
        let build = "cargo build --quiet --release --locked --bin tabulith";
        self.succeed(Command::new("bash").arg("-ec").arg(build).current_dir(&self.root))?;
        let log = fs::File::create(self.work.join("server.log"))?;
        let server = Command::new("bash")
            .arg("-ec")
            .arg(format!("exec {command}"))
            .current_dir(&self.work)
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()?;
        self.server = Some(server);
        self.await_server()
    }

    fn await_server(&mut self) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let pause = Duration::from_millis(50);
        for _ in 0..START_WAIT.as_millis() / pause.as_millis() {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.server.as_mut().and_then(|s| s.try_wait().transpose()) {
                bail!("the server ended with {}:\n{}", status?, self.server_log());
            }
            std::thread::sleep(pause);
        }
        bail!("nothing listens on {address} after {START_WAIT:?}:\n{}", self.server_log())
    }

    fn server_log(&self) -> String {
        fs::read_to_string(self.work.join("server.log")).unwrap_or_default()
    }

    /// Asks the server to stop, as an operator does, and expects a clean end.
    fn stop_server(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let pid = server.id().to_string();
        self.succeed(Command::new("kill").args(["-TERM", &pid]))?;
        let status = server.wait()?;
        if !status.success() {
            bail!("the server ended with {status} on SIGTERM:\n{}", self.server_log());
        }
        Ok(())
    }

    fn ci_runs(&self, code: &str) -> Result<()> {
        let ci = fs::read_to_string(self.root.join(".ci/run")).context(".ci/run")?;
        let commands = code.lines().filter(|line| !line.trim().is_empty());
        for command in commands.map(without_comment) {
            if !ci.contains(command) {
                bail!(".ci/run does not run `{command}`");
            }
        }
        Ok(())
    }

    fn run_shell(&self, code: &str) -> Result<()> {
        let code = self.local(&self.on_our_port(code));
        let bin = self.root.join("target/release");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &code]).current_dir(&self.work);
        if self.port != PORT {
            bash.env("AZURE_STORAGE_CONNECTION_STRING", self.connection_string());
        }
        self.succeed(bash.env("PATH", format!("{}:{path}", bin.display())))
    }

    fn run_python(&self, block: &Block) -> Result<()> {
        let python = self.root.join("target/sdk/python/bin/python");
        self.run_script(block, &python, &self.work, "py")
    }

    fn run_js(&self, block: &Block) -> Result<()> {
        // Node looks for packages beside the script.
        let room = self.root.join("target/sdk/js");
        if !room.join("node_modules").is_dir() {
            println!("SKIPPED: {} is not there; tests/sdk/run makes it", room.display());
            return Ok(());
        }
        self.run_script(block, Path::new("node"), &room, "mjs")
    }

    fn run_script(&self, block: &Block, program: &Path, room: &Path, end: &str) -> Result<()> {
        if program.is_absolute() && !program.exists() {
            println!("SKIPPED: {} is not there; tests/sdk/run makes it", program.display());
            return Ok(());
        }
        let script = room.join(format!("readme-{}.{end}", block.line));
        fs::write(&script, self.on_our_port(&block.code))?;
        self.succeed(Command::new(program).arg(&script).current_dir(&self.work))
    }

    fn run_engine_examples(&self) -> Result<()> {
        // As the tests are built: otherwise the engine would be built anew.
        let build = "cargo build --quiet --workspace --locked --examples \
                     --features tabulith-tools/parquet,tabulith-tools/zstd,tabulith/tracing";
        self.succeed(Command::new("bash").arg("-ec").arg(build).current_dir(&self.root))?;
        let programs = repo::target(&self.root).join("debug/examples");
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join("engine/examples"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".rs").map(str::to_owned));
        }
        names.sort();
        for name in names {
            println!("smoke: engine/examples/{name}.rs");
            self.succeed(Command::new(programs.join(&name)).current_dir(&self.work))?;
        }
        Ok(())
    }

    /// The same command from another folder: the README's are typed at the root.
    fn local(&self, code: &str) -> String {
        code.lines()
            .map(|line| line.replace("cargo run", &self.cargo_run()))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn cargo_run(&self) -> String {
        format!("cargo run --manifest-path '{}'", self.root.join("Cargo.toml").display())
    }

    fn on_our_port(&self, code: &str) -> String {
        if self.port == PORT {
            return code.to_owned();
        }
        on_port(code, self.port, &self.connection_string())
    }

    fn connection_string(&self) -> String {
        let endpoint = format!("http://127.0.0.1:{}/devstoreaccount1", self.port);
        format!(
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};\
             TableEndpoint={endpoint}"
        )
    }

    fn succeed(&self, command: &mut Command) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let status = command.status().with_context(|| format!("cannot start {program}"))?;
        if !status.success() {
            bail!("{program} ended with {status}\nthe server's log:\n{}", self.server_log());
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.work);
    }
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or(line).trim()
}

/// The same code for a server on another port: every word for the development account names that
/// one instead, so that nothing goes to whoever has the development port.
fn on_port(code: &str, port: u16, connection: &str) -> String {
    let line = |line: &str| {
        let word =
            |word| if word == "dev" { format!("'{connection}'") } else { String::from(word) };
        match line.contains(" copy ") {
            true => line.split(' ').map(word).collect::<Vec<_>>().join(" "),
            false => line.to_owned(),
        }
    };
    let code = code.split_inclusive('\n').map(|whole| match whole.strip_suffix('\n') {
        Some(text) => line(text) + "\n",
        None => line(whole),
    });
    code.collect::<String>()
        .replace("UseDevelopmentStorage=true", connection)
        .replace(&PORT.to_string(), &port.to_string())
}

/// The development port, or any free one where that is taken.
fn free_port() -> Result<u16> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = bind(PORT).or_else(|_| bind(0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_carry_language_mark_and_line() {
        let text = "# A\n\n<!-- smoke: serve -->\n```bash\nrun\n```\n\n```python\na\nb\n```\n";
        let block = |language: &str, mark: &str, line, code: &str| Block {
            language: language.into(),
            mark: mark.into(),
            line,
            code: code.into(),
        };
        let expected = [block("bash", "serve", 4, "run\n"), block("python", "", 8, "a\nb\n")];
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn every_way_to_name_the_development_account_is_turned_to_another_port() {
        let code = "tabulith copy dev jsonl:dev-copy\ntabulith copy jsonl:a dev\n\
            curl http://127.0.0.1:10002/\nx=\"UseDevelopmentStorage=true\"\necho dev";
        let turned = "tabulith copy 'C=1' jsonl:dev-copy\ntabulith copy jsonl:a 'C=1'\n\
            curl http://127.0.0.1:20001/\nx=\"C=1\"\necho dev";
        assert_eq!(on_port(code, 20_001, "C=1"), turned);
    }
}
