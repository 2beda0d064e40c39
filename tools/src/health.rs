//! `tabulith health`: whether a server is ready, as an exit code, for images that have no other
//! client.

use crate::args::health::HealthArgs;
use crate::exit::{Exit, Failure};
use crate::print::note;
use anyhow::Result;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// More of an answer is not read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Asks once, and says what is in the way.
pub(crate) fn run(args: &HealthArgs) -> Result<Exit> {
    let (authority, path) = parts(&args.url)?;
    let told = ask(&authority, &path, Duration::from_secs(args.timeout));
    let text = told.map_err(|error| {
        Failure::new(Exit::Unavailable, format!("{authority} does not answer: {error}"))
    })?;
    let status = text.split(' ').nth(1).unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
    match status {
        "200" => Ok(Exit::Ok),
        "503" => {
            note(&format!("not ready: {}", body.replace('\n', ", ")));
            Ok(Exit::Unavailable)
        }
        status => {
            let what = format!(
                "{authority}{path} answers {status}: it tells this machine alone, or --admin-address"
            );
            Err(Failure::new(Exit::Failure, what).into())
        }
    }
}

/// The authority and the path of an address; `/_/ready` where it has no path.
fn parts(url: &str) -> Result<(String, String)> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(Failure::usage(format!("{url}: an address like http://127.0.0.1:10002")).into());
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = if path.is_empty() { "_/ready" } else { path };
    let is_plain = |text: &str| text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if authority.is_empty() || !is_plain(authority) || !is_plain(path) {
        return Err(Failure::usage(format!("{url} is no address")).into());
    }
    let port = if authority.ends_with(']') || !authority.contains(':') { ":80" } else { "" };
    Ok((format!("{authority}{port}"), format!("/{path}")))
}

fn ask(authority: &str, path: &str, time_max: Duration) -> std::io::Result<String> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for addr in authority.to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&addr, time_max) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(time_max))?;
        stream.set_write_timeout(Some(time_max))?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        return Ok(String::from_utf8_lossy(&answer).into_owned());
    }
    Err(last)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let is = |url: &str, authority: &str, path: &str| {
            assert_eq!(parts(url).unwrap(), (authority.to_owned(), path.to_owned()), "{url}");
        };
        is("http://127.0.0.1:10002", "127.0.0.1:10002", "/_/ready");
        is("http://localhost:1/_/live", "localhost:1", "/_/live");
        is("http://[::1]:9/", "[::1]:9", "/_/ready");
        is("http://[::1]", "[::1]:80", "/_/ready");
        for bad in ["", "127.0.0.1:10002", "https://a", "http://", "http://a\r\nb", "http://a/b c"]
        {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }
}
