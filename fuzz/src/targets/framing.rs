//! Heads and bodies on a connection: any bytes are requests or refused, in whatever pieces they
//! come; where requests end, a second reader of whole texts says the same.
//!
//! Input: a byte that says how long the pieces are, then the bytes of the connection.

use tabulith_server::http::framing::Framing;

/// Follows the bytes of the input.
pub fn framing(data: &[u8]) {
    let Some((step, bytes)) = data.split_first() else { return };
    let whole = ends(bytes, bytes.len().max(1));
    let pieces = ends(bytes, usize::from(*step) % 7 + 1);
    assert_eq!(whole.is_some(), pieces.is_some(), "refused in one way of cutting only");
    let single = ends(bytes, 1);
    assert_eq!(whole.is_some(), single.is_some(), "refused in one way of cutting only");
    let Some(ends) = single else { return };
    assert_eq!(requests(bytes), ends, "{}", bytes.escape_ascii());
}

/// Where requests end, as far as pieces tell; `None` where the bytes are refused.
fn ends(bytes: &[u8], step: usize) -> Option<Vec<usize>> {
    let (mut framing, mut at, mut ends, mut from) = (Framing::default(), 0, Vec::new(), 0);
    for piece in bytes.chunks(step) {
        framing.take(&mut piece.to_vec()).ok()?;
        at += piece.len();
        if framing.is_between() {
            // Empty lines before a request are none.
            if !matches!(&bytes[from..at], b"\r\n" | b"") {
                ends.push(at);
            }
            from = at;
        }
    }
    Some(ends)
}

/// The same of a text that is known to be taken: by searching it, without a state.
fn requests(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (0, Vec::new());
    loop {
        while bytes[at..].starts_with(b"\r\n") {
            at += 2;
        }
        let Some(head) = find(&bytes[at..], b"\r\n\r\n") else { return ends };
        let text = String::from_utf8_lossy(&bytes[at..at + head]).to_ascii_lowercase();
        at += head + 4;
        let value = |name: &str| {
            let mut fields = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
            fields.find(|(own, _)| *own == name).map(|(_, value)| value.trim_matches([' ', '\t']))
        };
        let end = match value("transfer-encoding") {
            Some(_) => chunked(bytes, at),
            None => {
                let length = value("content-length").map_or(Some(0), |length| length.parse().ok());
                length.and_then(|length: usize| at.checked_add(length))
            }
        };
        let Some(end) = end.filter(|end| *end <= bytes.len()) else { return ends };
        ends.push(end);
        at = end;
    }
}

fn chunked(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let line = find(bytes.get(at..)?, b"\r\n")?;
        let text = std::str::from_utf8(&bytes[at..at + line]).ok();
        let digits = text.map_or("", |text| text.split(';').next().unwrap_or_default());
        // An extension may hold any bytes; its digits stand before them.
        let digits = match text {
            Some(_) => digits.to_owned(),
            None => String::from_utf8_lossy(&bytes[at..at + line]).split(';').next()?.to_owned(),
        };
        let size = usize::from_str_radix(&digits, 16).ok()?;
        at += line + 2;
        if size == 0 {
            break;
        }
        at = at.checked_add(size)?.checked_add(2)?;
    }
    loop {
        let line = find(bytes.get(at..)?, b"\r\n")?;
        at += line + 2;
        if line == 0 {
            return Some(at);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
