//! `tabulith shell`: lines of flags, of a script or of a person, run one after the other.

use crate::args::shell::ShellArgs;
use crate::connect::{self, Place};
use crate::exit::{Exit, Failure};
use crate::print::note;
use crate::shell::editor::{self, Shared};
use crate::shell::script::{self, Lines};
use crate::shell::session::{Next, Session};
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;

/// Runs the lines.
pub(crate) fn run(args: ShellArgs) -> Result<Exit> {
    // A place that nobody can reach is told before the first line.
    let place = connect::of_process(&args.target)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    let mut session = Session::new(&args);
    let keep_going = args.keep_going;
    if args.command.is_empty() && io::stdin().is_terminal() && io::stdout().is_terminal() {
        note(&greeting(&place));
        let shared = Rc::new(Shared { runtime, session: RefCell::new(session) });
        return editor::talk(&shared, |session, line| stoppable(&shared.runtime, session, line));
    }
    let lines = match args.command.is_empty() {
        true => Lines::of_stdin(),
        false => Lines::of_flags(args.command),
    };
    let ends_itself = Arc::new(AtomicBool::new(false));
    runtime.spawn(end_on_interrupt(ends_itself.clone()));
    let run = |session: &mut Session, line: &str| {
        ends_itself.store(stops_itself(line), Ordering::Relaxed);
        let done = runtime.block_on(session.run(line));
        ends_itself.store(false, Ordering::Relaxed);
        done
    };
    Ok(script::play(&mut session, lines, keep_going, run).exit)
}

fn greeting(place: &Place) -> String {
    let tables = match place {
        Place::Server(connection, _) => connection.endpoint.clone(),
        Place::Folder(path, _) => path.display().to_string(),
    };
    let version = env!("CARGO_PKG_VERSION");
    format!("Tabulith {version}: the tables of {tables}\n.help lists the commands, .quit leaves")
}

/// Runs a line of a person, who may stop it: what runs is given up then, and the shell stays.
fn stoppable(runtime: &Runtime, session: &mut Session, line: &str) -> Result<Next> {
    let stops_itself = stops_itself(line);
    runtime.block_on(async {
        tokio::select! {
            biased;
            signal = tokio::signal::ctrl_c(), if !stops_itself => {
                signal.context("waiting for signals")?;
                Err(Failure::new(Exit::Interrupted, "interrupted").into())
            }
            done = session.run(line) => done,
        }
    })
}

/// Whether a line ends by itself when it is interrupted: an import tells how far it has come.
fn stops_itself(line: &str) -> bool {
    matches!(line.split_whitespace().next(), Some("import" | ".import"))
}

/// Ends a script that is interrupted.
async fn end_on_interrupt(ends_itself: Arc<AtomicBool>) {
    while tokio::signal::ctrl_c().await.is_ok() {
        if !ends_itself.load(Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
    }
}
