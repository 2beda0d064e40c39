//! Heads of requests: from the HTTP library's form to ours, and to what is kept of one while a body
//! is on its way.
//!
//! Promise: ours takes no more than its bytes and a place for each header, whatever is in them. A
//! client may take a minute to send a body, without being let in; of its head there is by then a
//! verb and a few words.

use crate::http::message::{Head, Headers};
use crate::observe::spans::cut;
use hyper::header;
use hyper::http::request::Parts;

/// What stands for bytes that are no UTF-8. The library lets none of these through, so that such a
/// value is like none that came as text; and it is no longer than what it stands for.
const NO_TEXT: &str = "\u{7f}";

/// Values of a header of which no more than one may come: two tell that there were several.
const SEVERAL: usize = 2;

/// A head in our form. The library's goes: it has the buffer that the head came in.
pub(crate) fn head(parts: Parts) -> Head {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let bytes = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let mut headers = Headers::with_room(parts.headers.len(), bytes);
    for (name, value) in &parts.headers {
        headers.push_parts(name.as_str(), texts(value.as_bytes()));
    }
    Head {
        method: parts.method.as_str().to_owned(),
        target: target.to_owned(),
        authority: authority(&parts),
        headers,
        ..Head::default()
    }
}

/// What is told of a request once it has its answer: all that is left of its head until then. The
/// path is there where the log is told it.
pub(crate) fn remembered(head: &Head, has_path: bool) -> Head {
    let mut headers = Headers::default();
    for (name, count) in [("traceparent", SEVERAL), ("User-Agent", 1)] {
        head.headers.all(name).take(count).for_each(|value| headers.push(name, cut(value)));
    }
    Head {
        method: cut(&head.method),
        target: if has_path { head.path().to_owned() } else { String::new() },
        authority: cut(&head.authority),
        headers,
        ..*head
    }
}

/// The texts that a value is made of.
fn texts(value: &[u8]) -> impl Iterator<Item = &str> {
    value.utf8_chunks().flat_map(|chunk| {
        let invalid = if chunk.invalid().is_empty() { "" } else { NO_TEXT };
        [chunk.valid(), invalid]
    })
}

/// That of an absolute target, else of the one `Host`. With two hosts nobody knows which is meant.
fn authority(parts: &Parts) -> String {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none());
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    parts.uri.authority().map_or(host, |authority| authority.as_str()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{head, remembered};
    use crate::http::message::Head;
    use crate::trace::Trace;
    use hyper::http::{HeaderValue, Request};

    fn parsed(headers: &[(&'static str, &[u8])]) -> Head {
        let mut request = Request::new(());
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value).expect("a value");
            request.headers_mut().append(*name, value);
        }
        head(request.into_parts().0)
    }

    #[test]
    fn a_head_is_no_longer_than_what_came() {
        let value = [0xff; 8_000];
        let head = parsed(&[("a", &value), ("b", b"\xc3\xa9\xff\xe2\x82."), ("c", b"")]);
        assert_eq!(head.headers.get("b"), Some("\u{e9}\u{7f}\u{7f}."));
        assert_eq!(head.headers.get("c"), Some(""));
        assert_eq!(head.headers.get("a").map(str::len), Some(8_000));
        let bytes = value.len() + 6 + 3;
        let room = head.headers.room_bytes();
        assert!((bytes..bytes + 200).contains(&room), "{room} for {bytes}");
    }

    #[test]
    fn little_is_remembered_of_a_head() {
        let long = [b'x'; 10_000];
        let trace = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let later = [b"cc".as_slice(), &trace[2..], b"-", &long].concat();
        let of = |traces: &[&[u8]]| {
            let mut headers = vec![("user-agent", &long[..]), ("authorization", &long)];
            headers.extend(traces.iter().map(|value| ("traceparent", *value)));
            let mut whole = parsed(&headers);
            whole.method = "X".repeat(10_000);
            whole.authority = "h".repeat(10_000);
            whole.target = "/path?sig=secret".to_owned();
            let of = |head: &Head| Trace::of(&head.headers, "0af76519-16cd-43dd-8448-eb211c80319c");
            let kept = remembered(&whole, false);
            assert_eq!(of(&kept), of(&whole), "{} traces", traces.len());
            assert!(kept.headers.room_bytes() < 2_000 && kept.method.capacity() < 300);
            assert!(kept.authority.capacity() < 300 && kept.target.is_empty());
            assert_eq!(remembered(&whole, true).target, "/path");
            of(&kept).is_some()
        };
        assert!(of(&[trace]) && of(&[&later]));
        assert!(!of(&[]) && !of(&[trace, trace]) && !of(&[trace, trace, trace]) && !of(&[&long]));
    }
}
