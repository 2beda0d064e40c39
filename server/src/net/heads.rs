//! Heads of requests, from the HTTP library's form to ours.

use crate::http::message::Head;
use hyper::header;

pub(crate) fn head(parts: &hyper::http::request::Parts) -> Head {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = Head {
        method: parts.method.as_str().to_owned(),
        target: target.to_owned(),
        authority: authority(parts),
        ..Head::default()
    };
    for (name, value) in &parts.headers {
        head.headers.push(name.as_str(), String::from_utf8_lossy(value.as_bytes()));
    }
    head
}

/// That of an absolute target, else of the one `Host`. With two hosts nobody knows which is meant.
fn authority(parts: &hyper::http::request::Parts) -> String {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none());
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    parts.uri.authority().map_or(host, |authority| authority.as_str()).to_owned()
}
