//! `tabulith serve`: the server over one data folder, until a signal ends it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the log and the certificates are the user's files, not the engine's"
)]

use crate::args::serve::ServeArgs;
use crate::events;
use crate::exit::{self, Exit, Failure};
use crate::fleeting::Fleeting;
use crate::forks::Forks;
use crate::greeting::{Addrs, greet, trouble};
use crate::log;
use crate::notify::Notify;
use crate::open_files;
use crate::print::{self, note};
use crate::seed;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::memory::bytes_usable;
use tabulith::options::Options;
use tabulith::stats::ScrubStats;
use tabulith::table::store::TableStore;
use tabulith_server::config::{Identity, Pem, PemSource, Throttling, Tls};
use tabulith_server::faults::rule::Rules;
use tabulith_server::limits::TEXT_BYTES_MAX;
use tabulith_server::observe::spans::Export;
use tabulith_server::texts::TextSource;
use tabulith_server::tokens::BearerConfig;
use tabulith_server::{Accounts, Config, Parts, Pulse, Running, Server, testing};

/// How long a stop waits for requests in flight: a second of the five that a stop takes at most is
/// for the last sync.
const STOP_TIME_MAX: Duration = Duration::from_secs(4);

/// Serves until SIGTERM or SIGINT; what was acknowledged by then is in the folder.
pub(crate) fn run(args: &ServeArgs) -> Result<Exit> {
    log::start(args)?;
    let notify = Arc::new(Notify::of_process());
    let mut config = config(args)?;
    let (connections_max, table_files_max) = files_allowed(config.connections_max);
    config.connections_max = connections_max;
    let (durability, history) = (args.durability.into(), args.history);
    let memory = args.memory.map(usize::try_from).transpose()?.map(|mib| mib << 20);
    let mut options = Options { durability, history, memory, ..Options::default() };
    options.advanced.open_files_max = Some(table_files_max);
    options.advanced.scrub_period_s = u64::from(args.scrub_hours) * 3600;
    let fleeting = args.in_memory.then(Fleeting::make).transpose()?;
    let data = fleeting.as_ref().map_or(&args.data_dir, |fleeting| &fleeting.data);
    if let Some(seed) = &args.seed {
        let account = first_account(args, &config)?;
        seed::load(seed, data, &account, args.silent)?;
    }
    let db = Db::builder().options(options.clone()).on_event(events::tell).open(data);
    let db = Arc::new(db.with_context(|| format!("opening {}", data.display()))?);
    // As much as bodies have is for long heads.
    let of_requests = 2 * config.body_bytes_max + config.answer_bytes_max;
    let given_bytes = db.stats().memory.budget.saturating_add(of_requests);
    let each_bytes = CONNECTION_BYTES + config.tls.as_ref().map_or(0, |_| TLS_BYTES);
    let most = fitting(bytes_usable(), given_bytes, each_bytes, config.connections_max);
    config.connections_max = most;
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
        for line in args.azurite.told() {
            note(line);
        }
        let accounts = running.account_names();
        let (plain, tls, admin) = (running.addr(), running.tls_addr(), running.admin_addr());
        let mut text = Vec::new();
        greet(&mut text, Addrs { plain, tls, admin }, &accounts, args, data)?;
        if !db.history().is_zero() {
            let span = db.history().as_secs();
            writeln!(text, "history     {span} s: the header x-tabulith-as-of reads the past")?;
        }
        text.extend_from_slice(trouble.as_bytes());
        let mut out = print::out();
        let told = out.write_all(&text).and_then(|()| out.flush());
        exit::verdict(told, Exit::Ok)?; // Its reader may be gone: others ask for rows.
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

/// The account that seeds are for: the first one.
fn first_account(args: &ServeArgs, config: &Config) -> Result<String> {
    let accounts = match &args.accounts_file {
        Some(path) => {
            let text =
                file(path).read().with_context(|| format!("--accounts-file {}", path.display()))?;
            Accounts::parse(text.trim()).map_err(|error| Failure::usage(error.to_string()))?
        }
        None => config.accounts.clone(),
    };
    let first = accounts.names().next().map(str::to_owned);
    first.ok_or_else(|| Failure::usage("no account is given".to_owned()).into())
}

/// How copies are served: as the original, without its other doors.
fn fork_config(config: &Config) -> Config {
    Config { tls: None, tls_only: false, admin: None, ..config.clone() }
}

fn config(args: &ServeArgs) -> Result<Config> {
    let accounts = match std::env::var("AZURITE_ACCOUNTS") {
        Ok(text) if !text.is_empty() => Accounts::parse(&text)
            .map_err(|error| Failure::usage(format!("AZURITE_ACCOUNTS: {error}")))?,
        _ => Accounts::development(),
    };
    let config = Config {
        listen: SocketAddr::new(args.listen, args.port),
        tls: tls(args)?,
        tls_only: args.cert.is_some(),
        admin: args.admin_address,
        hot_partitions: args.hot_partitions.into(),
        slow_time: Some(args.slow_request_ms).filter(|ms| *ms > 0).map(Duration::from_millis),
        stop_time_max: STOP_TIME_MAX,
        accounts,
        development_key_for_all: args.development_key_for_all,
        trusted_proxies: args.trusted_proxies.clone(),
        clock_believed: args.believe_clock,
        connections_max: usize::try_from(args.connections)?,
        connections_per_address_max: args
            .connections_per_address
            .map(|most| usize::try_from(most.get()))
            .transpose()?,
        body_bytes_max: memory_share(args.body_memory)?,
        answer_bytes_max: memory_share(args.answer_memory)?,
        accounts_source: args.accounts_file.as_deref().map(file),
        bearer: bearer(args)?,
        throttling: Throttling {
            partition_entities: args.throttle_partition,
            account_requests: args.throttle_account,
        },
        faults: faults(args)?,
        ..Config::default()
    };
    config
        .check()
        .map_err(|error| Failure::usage(format!("{error}: --development-key-for-all")))?;
    Ok(config)
}

/// Of the memory that this process may use, for one of the two uses of requests.
const MEMORY_SHARE: usize = 16;
const SHARE_MIB_MIN: usize = 32;
const SHARE_MIB_MAX: usize = 256;

/// Bytes of a use of memory: so many MiB, or a share of what there is.
fn memory_share(asked_mib: Option<u32>) -> Result<usize> {
    let mib = match (asked_mib, bytes_usable() >> 20) {
        (Some(mib), _) => usize::try_from(mib)?,
        (None, 0) => SHARE_MIB_MAX,
        (None, usable_mib) => (usable_mib / MEMORY_SHARE).clamp(SHARE_MIB_MIN, SHARE_MIB_MAX),
    };
    Ok(mib << 20)
}

/// Files that the database has to itself, a quarter of all but so many at least and at most:
/// connections must never keep it from opening one. What connections may not take is its own, too.
/// The program itself has some twenty open.
const FILES_KEPT_MIN: usize = 48;
const FILES_KEPT_MAX: usize = 4_096;
const FILES_OF_PROGRAM: usize = 20;

/// How many of the `connections` that are asked for may be open without taking files from the
/// database, and how many table files may stay open: as many again may be open for a while, and
/// half as many files of large values, and as many of those again for a while.
fn files_allowed(connections: usize) -> (usize, usize) {
    let files = usize::try_from(open_files::raised()).unwrap_or(usize::MAX);
    shares_of(files, connections)
}

fn shares_of(files: usize, connections: usize) -> (usize, usize) {
    let kept = (files / 4).clamp(FILES_KEPT_MIN, FILES_KEPT_MAX);
    let connections = connections.min(files.saturating_sub(kept)).max(1);
    let kept = files.saturating_sub(connections).max(kept);
    (connections, (kept - FILES_OF_PROGRAM) / 3)
}

/// What a connection without TLS takes at most, and some more: 42 KiB where heads are in the
/// buffers of the library, for as long as a body takes that nobody was let in to send, or an answer
/// that nobody takes; and that answer, which needs no place up to 64 KiB.
const CONNECTION_BYTES: usize = 112 << 10;

/// What TLS adds to that: a record whose requests wait to be read and one that has not come whole,
/// of 16 KiB each, and the state of the session. An answer waits encrypted, or as it was made.
const TLS_BYTES: usize = 48 << 10;

/// So many connections are served however little memory there is.
const CONNECTIONS_MIN: usize = 256;

/// How many of the `connections` fit, with so many bytes each, into what is not given to other uses
/// of the memory (0: nobody says how much there is).
fn fitting(
    usable_bytes: usize,
    given_bytes: usize,
    each_bytes: usize,
    connections: usize,
) -> usize {
    match usable_bytes {
        0 => connections,
        usable => {
            let most = usable.saturating_sub(given_bytes) / each_bytes;
            connections.min(most.max(CONNECTIONS_MIN))
        }
    }
}

/// A file that the server asks for again and again.
fn file(path: &Path) -> TextSource {
    let own = path.to_owned();
    TextSource::new(path.display().to_string(), move || {
        let mut text = String::new();
        // One byte more than the server takes shows that there is too much.
        let most = TEXT_BYTES_MAX as u64 + 1;
        File::open(&own)?.take(most).read_to_string(&mut text)?;
        Ok(text)
    })
}

/// What goes wrong on purpose.
fn faults(args: &ServeArgs) -> Result<Option<Rules>> {
    let Some(path) = &args.fault_lab else { return Ok(None) };
    let bad = |error: String| Failure::usage(format!("--fault-lab {error}"));
    let text = file(path).read().map_err(|error| bad(error.to_string()))?;
    let rules = Rules::parse(&text);
    let mut rules = rules.map_err(|error| bad(format!("{}: {error}", path.display())))?;
    rules.seed = args.fault_seed.unwrap_or(rules.seed);
    Ok(Some(rules))
}

/// Which tokens are accepted.
fn bearer(args: &ServeArgs) -> Result<Option<BearerConfig>> {
    let Some(mode) = &args.oauth else { return Ok(None) };
    let issuers = args.oauth_issuers.clone();
    let mut config = if mode.as_os_str() == "basic" {
        BearerConfig::basic()
    } else if issuers.is_empty() {
        return Err(Failure::usage("--oauth with a file needs an --oauth-issuer".to_owned()).into());
    } else {
        BearerConfig::signed(file(mode), Vec::new())
    };
    config.issuers.extend(issuers);
    config.audiences.extend(args.oauth_audiences.iter().cloned());
    config.assignments.extend(args.oauth_roles.iter().cloned());
    config.without_tls = args.oauth_without_tls;
    Ok(Some(config))
}

/// How long a client may take to shake hands.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

fn tls(args: &ServeArgs) -> Result<Option<Tls>> {
    if args.pwd.is_some() {
        return Err(Failure::usage(
            "--pwd: certificates are read in PEM; `openssl pkcs12 -in FILE -nodes` makes PEM of PFX",
        )
        .into());
    }
    let given = |certificates: &PathBuf, key: &PathBuf| {
        let (certificates, key) = (certificates.clone(), key.clone());
        Identity::Given(Arc::new(PemFiles { certificates, key }))
    };
    let handshake_time_max = HANDSHAKE_TIME_MAX;
    if let (Some(certificates), Some(key)) = (&args.cert, &args.key) {
        let listen = SocketAddr::new(args.listen, args.port);
        return Ok(Some(Tls { listen, identity: given(certificates, key), handshake_time_max }));
    }
    let identity = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => given(certificates, key),
        _ => Identity::SelfSigned,
    };
    Ok(args.tls_listen.map(|listen| Tls { listen, identity, handshake_time_max }))
}

/// A chain and its key in two files.
#[derive(Debug)]
struct PemFiles {
    certificates: PathBuf,
    key: PathBuf,
}

impl PemSource for PemFiles {
    fn read(&self) -> io::Result<Pem> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        Ok(Pem { certificates: read(&self.certificates)?, key: read(&self.key)? })
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{CONNECTION_BYTES, TLS_BYTES, fitting, shares_of};
    use crate::args::command::Cli;

    #[test]
    fn files_that_connections_may_not_take_are_the_databases() {
        // Files, connections asked for; connections, table files.
        for (files, asked, connections, table_files) in [
            (1_024, 10_000, 768, 78),
            (65_536, 10_000, 10_000, 18_505),
            (65_536, 100_000, 61_440, 1_358),
            (64, 10, 10, 11),
            (8, 10, 1, 9),
        ] {
            assert_eq!(shares_of(files, asked), (connections, table_files), "{files}, {asked}");
        }
    }

    /// 10,000 of them could take three times a memory of 256 MiB, whoever they are from.
    #[test]
    fn connections_are_as_many_as_memory_has_room_for() {
        const MIB: usize = 1 << 20;
        for (usable_mib, given_mib, asked, connections, with_tls) in [
            (0, 896, 10_000, 10_000, 10_000),
            (16_384, 4_864, 10_000, 10_000, 10_000),
            (256, 181, 10_000, 685, 480),
            (256, 181, 600, 600, 480),
            (256, 300, 10_000, 256, 256),
            (256, 300, 10, 10, 10),
        ] {
            let fit = |each| fitting(usable_mib * MIB, given_mib * MIB, each, asked);
            let fit = (fit(CONNECTION_BYTES), fit(CONNECTION_BYTES + TLS_BYTES));
            let expected = (connections, with_tls);
            assert_eq!(fit, expected, "{usable_mib} MiB, {given_mib} given, {asked}");
        }
    }

    #[test]
    fn tls_options_belong_together() {
        let parses = |words: &[&str]| {
            let words = ["tabulith", "serve"].iter().chain(words).map(std::ffi::OsString::from);
            Cli::of(words).is_ok()
        };
        assert!(parses(&["--tls-listen", "127.0.0.1:0", "--tls-cert", "a", "--tls-key", "b"]));
        for words in [
            &["--tls-listen", "127.0.0.1:0"][..],
            &["--tls-cert", "a", "--tls-key", "b"],
            &["--tls-listen", "127.0.0.1:0", "--tls-cert", "a"],
            &["--tls-listen", "127.0.0.1:0", "--tls-key", "b"],
            &["--tls-self-signed", "ca.pem"],
            &[
                "--tls-listen",
                "127.0.0.1:0",
                "--tls-cert",
                "a",
                "--tls-key",
                "b",
                "--tls-self-signed",
                "c",
            ],
        ] {
            assert!(!parses(words), "{words:?}");
        }
    }
}
