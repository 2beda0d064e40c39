//! What `serve` says once it listens: where, how to connect, what is kept where and how safely, and
//! what goes wrong on purpose.

use crate::args::serve::ServeArgs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tabulith::options::Durability;
use tabulith_server::Config;
use tabulith_server::config::{DEFAULT_PORT, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Throttling};
use tabulith_server::faults::rule::Rules;
use tabulith_server::lab::HEADER;

/// Where a server listens.
#[derive(Clone, Copy)]
pub(crate) struct Addrs {
    pub(crate) plain: SocketAddr,
    pub(crate) tls: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
}

/// A few lines: where, how to connect, what is kept where and how safely.
pub(crate) fn greet(
    out: &mut impl Write,
    addrs: Addrs,
    accounts: &[String],
    args: &ServeArgs,
    data: &Path,
) -> io::Result<()> {
    let addr = addrs.plain;
    let scheme = if args.cert.is_some() { "https" } else { "http" };
    let base = format!("{scheme}://{}", reachable(addr));
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    writeln!(out, "tabulith {} listens on {addr}", env!("CARGO_PKG_VERSION"))?;
    for account in accounts {
        // Other keys than the published one are secrets, and its owner knows them.
        let key = if account == DEVELOPMENT_ACCOUNT && keys_are_published(args) {
            DEVELOPMENT_KEY
        } else {
            "<its key>"
        };
        writeln!(out, "endpoint    {base}/{account}")?;
        writeln!(
            out,
            "connection  DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={key};TableEndpoint={base}/{account};"
        )?;
    }
    let is_default = addr == SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
    if is_default && keys_are_published(args) && args.cert.is_none() {
        writeln!(out, "or          UseDevelopmentStorage=true")?;
    }
    if let Some(addr) = addrs.admin {
        writeln!(out, "operators   http://{}/_/ready and /_/metrics", reachable(addr))?;
    }
    if args.testing {
        writeln!(out, "testing     POST /_/reset, /_/accounts and /_/fork, without credentials")?;
    }
    if let Some(addr) = addrs.tls.filter(|_| args.cert.is_none()) {
        writeln!(out, "over TLS    https://{}", reachable(addr))?;
    }
    let kept = if args.in_memory { ", until this process or the next one removes it" } else { "" };
    writeln!(out, "data        {}{kept}", data.display())?;
    let durability = match args.in_memory {
        true => {
            "none: the data is gone when this process ends in order, else when the next one starts"
        }
        false => explained(Durability::from(args.durability)),
    };
    writeln!(out, "durability  {durability}")?;
    Ok(())
}

/// The lines of a greeting about what goes wrong on purpose, so that nobody looks for the reason.
pub(crate) fn trouble(config: &Config) -> String {
    let mut lines = String::new();
    let Throttling { partition_entities, account_requests } = config.throttling;
    if let Some(rate) = partition_entities {
        lines += &format!("throttling  {rate} entities/s of a partition\n");
    }
    if let Some(rate) = account_requests {
        lines += &format!("throttling  {rate} requests/s of an account\n");
    }
    if let Some(Rules { seed, rules }) = &config.faults {
        let count = rules.len();
        lines += &format!("fault lab   {count} rules, seed {seed}, and the header {HEADER}\n");
    }
    lines
}

fn keys_are_published(args: &ServeArgs) -> bool {
    args.accounts_file.is_none()
        && std::env::var_os("AZURITE_ACCOUNTS").is_none_or(|text| text.is_empty())
}

/// "All addresses" is no address to connect to.
fn reachable(addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        ip if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), addr.port()),
        _ => addr,
    }
}

fn explained(durability: Durability) -> &'static str {
    match durability {
        Durability::Synced => "synced: an acknowledged write survives a power cut",
        Durability::Flushed => {
            "flushed: an acknowledged write survives this process, not a power cut"
        }
        Durability::Buffered => {
            "buffered: a crash of this process loses the last few milliseconds of writes"
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::args::command::{Cli, Command};

    fn greeting(addr: &str, words: &[&str]) -> String {
        let words = ["tabulith", "serve"].iter().chain(words).map(std::ffi::OsString::from);
        let Command::Serve(args) = Cli::of(words).unwrap().command else { panic!("not serve") };
        let mut out = Vec::new();
        let accounts = [DEVELOPMENT_ACCOUNT.to_owned(), "other".to_owned()];
        let (plain, tls, admin) = (addr.parse().unwrap(), args.tls_listen, args.admin_address);
        let addrs = Addrs { plain, tls, admin };
        greet(&mut out, addrs, &accounts, &args, &args.data_dir).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_greeting_has_a_connection_string_that_works() {
        let text = greeting("0.0.0.0:1234", &["--durability", "flushed"]);
        let line = text.lines().find(|line| line.starts_with("connection")).unwrap();
        let connection = tabulith_client::Connection::parse(line.split_once("  ").unwrap().1);
        assert_eq!(connection.unwrap().endpoint, "http://127.0.0.1:1234/devstoreaccount1");
        assert!(text.contains("durability  flushed: "), "{text}");
        assert!(text.contains("AccountName=other;AccountKey=<its key>;"), "{text}");
        assert!(!text.contains("UseDevelopmentStorage"), "another port: {text}");
    }

    /// It promised what a power cut would take, and the end of the process too.
    #[test]
    fn what_is_kept_in_memory_is_not_called_durable() {
        let text = greeting("127.0.0.1:10002", &["--inMemoryPersistence"]);
        assert!(text.contains("\ndurability  none: "), "{text}");
        assert!(!text.contains("survives"), "{text}");
    }

    #[test]
    fn the_greeting_names_both_ports() {
        let words = ["--tls-listen", "0.0.0.0:443", "--tls-self-signed", "ca.pem"];
        let text = greeting("127.0.0.1:10002", &words);
        assert!(text.contains("\nover TLS    https://127.0.0.1:443\n"), "{text}");
    }

    #[test]
    fn trouble_on_purpose_is_told() {
        assert_eq!(trouble(&Config::default()), "");
        let faults = Some(Rules::parse("seed 42\nlost\nbusy every=3\n").unwrap());
        let config = Config { throttling: Throttling::AZURE, faults, ..Config::default() };
        assert_eq!(
            trouble(&config),
            "throttling  2000 entities/s of a partition\n\
             throttling  20000 requests/s of an account\n\
             fault lab   2 rules, seed 42, and the header x-tabulith-fault\n"
        );
    }

    #[test]
    fn the_default_is_what_every_sdk_knows() {
        assert!(greeting("127.0.0.1:10002", &[]).contains("UseDevelopmentStorage=true"));
    }
}
