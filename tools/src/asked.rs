//! What `serve` is asked for, as the configuration of a server.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "certificates, accounts and rules are the user's files, not the engine's"
)]

use crate::args::serve::ServeArgs;
use crate::exit::Failure;
use crate::shares::memory_share;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith_server::config::{Identity, Pem, PemSource, Throttling, Tls};
use tabulith_server::faults::rule::Rules;
use tabulith_server::limits::TEXT_BYTES_MAX;
use tabulith_server::texts::TextSource;
use tabulith_server::tokens::BearerConfig;
use tabulith_server::{Accounts, Config};

/// How long a stop waits for requests in flight: a second of the five that a stop takes at most is
/// for the last sync.
const STOP_TIME_MAX: Duration = Duration::from_secs(4);

/// The configuration that was asked for.
pub(crate) fn config(args: &ServeArgs) -> Result<Config> {
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

/// The account that seeds are for: the first one.
pub(crate) fn first_account(args: &ServeArgs, config: &Config) -> Result<String> {
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

#[cfg(test)]
mod tests {
    use crate::args::command::Cli;

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
