//! `tabulith serve`: the server over one data folder, until a signal ends it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the log and the certificates are the user's files, not the engine's"
)]

use crate::args::serve::ServeArgs;
use crate::asked::{config, first_account};
use crate::events;
use crate::exit::{self, Exit, Failure};
use crate::fleeting::Fleeting;
use crate::forks::Forks;
use crate::greeting::{Addrs, greet, trouble};
use crate::log;
use crate::notify::Notify;
use crate::print::{self, note};
use crate::seed;
use crate::shares::{connections_fitting, files_allowed};
use anyhow::{Context, Result};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::options::Options;
use tabulith::stats::ScrubStats;
use tabulith::table::store::TableStore;
use tabulith_server::observe::spans::Export;
use tabulith_server::{Config, Parts, Pulse, Running, Server, testing};

/// Serves until SIGTERM or SIGINT; what was acknowledged by then is in the folder.
pub(crate) fn run(args: &ServeArgs) -> Result<Exit> {
    log::start(args)?;
    outlive_hangups().context("listening for SIGHUP")?;
    let notify = Arc::new(Notify::of_process());
    let mut config = config(args)?;
    let (connections_max, table_files_max) = files_allowed(config.connections_max);
    config.connections_max = connections_max;
    let options = options(args, table_files_max)?;
    let fleeting = args.in_memory.then(Fleeting::make).transpose()?;
    let data = fleeting.as_ref().map_or(&args.data_dir, |fleeting| &fleeting.data);
    if let Some(seed) = &args.seed {
        let account = first_account(args, &config)?;
        seed::load(seed, data, &account, args.silent)?;
    }
    let db = Db::builder().options(options.clone()).on_event(events::tell).open(data);
    let db = Arc::new(db.with_context(|| format!("opening {}", data.display()))?);
    config.connections_max = connections_fitting(&config, db.stats().memory.budget);
    config.history = !db.history().is_zero();
    for repair in &db.recovery().repairs {
        note(&format!("put right from its other copy: {repair}"));
    }
    let listen = config.listen;
    let trouble = trouble(&config);
    let forks =
        args.testing.then(|| Arc::new(Forks::new(db.clone(), data, options, fork_config(&config))));
    let parts = Parts {
        engine: Some(db.clone()),
        forks: forks.clone().map(|forks| forks as Arc<dyn testing::Forks>),
        export: export(args)?,
        is_made_ready_later: true,
    };
    let mut running = Server::start_with(config, Arc::new(TableStore::new(db.clone())), parts)
        .map_err(|error| not_started(listen, error))?;
    running.listen_for_signals().context("listening for signals")?;
    if let (Some(path), Some(certificate)) = (&args.tls_self_signed, running.own_certificate()) {
        let written = std::fs::write(path, certificate);
        written.with_context(|| format!("--tls-self-signed {}", path.display()))?;
    }
    // Before the greeting: whoever waited for that may ask at once, and it may wait for its reader.
    running.set_ready();
    if !args.silent {
        tell_where(args, &running, data, db.history(), &trouble)?;
    }
    notify.tell("READY=1");
    watch(notify.clone(), &running)?;
    let stopping = notify.clone();
    let waited = running.wait_for_signal_and(move || stopping.tell("STOPPING=1"));
    waited.context("waiting for a signal")?;
    if let Some(forks) = forks {
        forks.end_all();
    }
    let ScrubStats { passes, files, bytes, finds, .. } = db.stats().scrub;
    tracing::info!(passes, files, bytes, finds, "scrub");
    db.close().with_context(|| format!("closing {}", data.display()))?;
    if !args.silent {
        note("stopped");
    }
    Ok(Exit::Ok)
}

/// From here on SIGHUP ends nothing. Until the server listens for it there is nothing that it could
/// ask for: the files that it has read anew are read after the database is opened, which may take
/// a while, and by the system's own rule it would end the process in that time.
#[cfg(unix)]
fn outlive_hangups() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // The handler is the process's, and stays when this goes.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).map(drop)
}

#[cfg(not(unix))]
fn outlive_hangups() -> io::Result<()> {
    Ok(())
}

/// How the database is opened.
fn options(args: &ServeArgs, table_files_max: usize) -> Result<Options> {
    let (durability, history) = (args.durability.into(), args.history);
    let memory = args.memory.map(usize::try_from).transpose()?.map(|mib| mib << 20);
    let mut options = Options { durability, history, memory, ..Options::default() };
    options.advanced.open_files_max = Some(table_files_max);
    options.advanced.scrub_period_s = u64::from(args.scrub_hours) * 3600;
    Ok(options)
}

/// Says where the server listens and what it keeps where, and of what there is to worry about.
fn tell_where(
    args: &ServeArgs,
    running: &Running,
    data: &Path,
    history: Duration,
    trouble: &str,
) -> Result<()> {
    for line in args.azurite.told() {
        note(line);
    }
    let accounts = running.account_names();
    let (plain, tls, admin) = (running.addr(), running.tls_addr(), running.admin_addr());
    let mut text = Vec::new();
    greet(&mut text, Addrs { plain, tls, admin }, &accounts, args, data)?;
    if !history.is_zero() {
        let span = history.as_secs();
        writeln!(text, "history     {span} s: the header x-tabulith-as-of reads the past")?;
    }
    text.extend_from_slice(trouble.as_bytes());
    let mut out = print::out();
    let told = out.write_all(&text).and_then(|()| out.flush());
    exit::verdict(told, Exit::Ok)?; // Its reader may be gone: others ask for rows.
    Ok(())
}

/// Who sends spans of requests, where somebody collects them.
#[cfg(feature = "otlp")]
fn export(args: &ServeArgs) -> Result<Option<Arc<dyn Export>>> {
    crate::otlp::export(args.otlp_endpoint.as_deref())
}

#[cfg(not(feature = "otlp"))]
fn export(args: &ServeArgs) -> Result<Option<Arc<dyn Export>>> {
    match &args.otlp_endpoint {
        None => Ok(None),
        Some(_) => Err(Failure::usage(
            "--otlp-endpoint: this build sends no spans; `cargo build --release --features otlp` makes one that does",
        )
        .into()),
    }
}

/// Tells systemd that the server lives, whenever it does, where systemd asks for that.
fn watch(notify: Arc<Notify>, running: &Running) -> Result<()> {
    let Some(period) = notify.watchdog_period() else { return Ok(()) };
    let heart = running.heart();
    let beat = move || {
        loop {
            match heart.pulse(period) {
                Pulse::Beats => {
                    notify.tell("WATCHDOG=1");
                    std::thread::sleep(period / 2);
                }
                Pulse::Late => {}
                Pulse::Gone => break,
            }
        }
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(beat).context("a thread")?;
    Ok(())
}

/// How copies are served: as the original, without its other doors.
fn fork_config(config: &Config) -> Config {
    Config { tls: None, tls_only: false, admin: None, ..config.clone() }
}

fn not_started(listen: SocketAddr, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Exit::Conflict,
            format!(
                "{listen} is in use by another process; choose another --port, or 0 for a free one"
            ),
        ),
        io::ErrorKind::AddrNotAvailable => {
            Failure::usage(format!("{} is no address of this machine", listen.ip()))
        }
        io::ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => Failure::new(Exit::Failure, format!("listening on {listen}: {error}")),
    }
}
