//! Bytes of PartitionKey and RowKey: their order is the order of the texts' UTF-16 units, which is
//! how Azure compares keys.
//!
//! The bytes are UTF-8, except that a character above U+FFFF is written as its two surrogates,
//! three bytes each. UTF-8 orders as code points do; only those characters stand elsewhere in
//! UTF-16: below U+E000 to U+FFFF.
//!
//! Promise: [`decode`] takes back exactly what [`encode`] gives and refuses all other bytes.

use crate::limits::KEY_PART_BYTES_MAX;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The first lead byte of a character above U+FFFF in UTF-8.
const SUPPLEMENTARY_LEAD: u8 = 0xf0;
/// The lead byte of the triple of a surrogate, and of U+D000 to U+D7FF.
const SURROGATE_LEAD: u8 = 0xed;

/// The key bytes of `text`.
pub(crate) fn encode(text: &str) -> Cow<'_, [u8]> {
    if !text.bytes().any(|byte| byte >= SUPPLEMENTARY_LEAD) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len() + text.len() / 2);
    for c in text.chars() {
        if u32::from(c) <= 0xffff {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(&triple(*unit));
            }
        }
    }
    Cow::Owned(out)
}

/// Most bytes of a bound, so that it and the string above it are no longer than a key may be.
const BOUND_BYTES_MAX: usize = KEY_PART_BYTES_MAX - 1;

/// The key bytes of `text` to compare keys with: cut off where no key reaches, so that every key
/// stands to it as to the whole. A key is at most three quarters as long.
pub(crate) fn encode_bound(text: &str) -> Cow<'_, [u8]> {
    match encode(text) {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..bytes.len().min(BOUND_BYTES_MAX)]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(BOUND_BYTES_MAX);
            Cow::Owned(bytes)
        }
    }
}

/// A surrogate in the three-byte form of UTF-8.
fn triple(unit: u16) -> [u8; 3] {
    [SURROGATE_LEAD, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]
}

/// The text of key bytes; `None` where they are no key's.
pub(crate) fn decode(bytes: &[u8]) -> Option<Cow<'_, str>> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.bytes().any(|byte| byte >= SUPPLEMENTARY_LEAD) => {
            return Some(Cow::Borrowed(text));
        }
        Ok(_) => return None,
        Err(_) => {}
    }
    let mut out = String::with_capacity(bytes.len());
    decode_pairs(bytes, &mut out)?;
    Some(Cow::Owned(out))
}

/// Decodes stretches of plain text and pairs of triples in turn.
fn decode_pairs(mut rest: &[u8], out: &mut String) -> Option<()> {
    while !rest.is_empty() {
        let plain = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let (text, tail) = rest.split_at_checked(plain)?;
        if text.iter().any(|byte| *byte >= SUPPLEMENTARY_LEAD) {
            return None;
        }
        out.push_str(std::str::from_utf8(text).ok()?);
        rest = tail;
        if let Some((pair, tail)) = rest.split_first_chunk::<6>() {
            out.push(supplementary(pair)?);
            rest = tail;
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(())
}

/// The character of two triples: a high surrogate, then a low one.
fn supplementary(pair: &[u8; 6]) -> Option<char> {
    let [lead_high, high_1, high_0, lead_low, low_1, low_0] = *pair;
    let is_pair = lead_high == SURROGATE_LEAD
        && lead_low == SURROGATE_LEAD
        && (0xa0..=0xaf).contains(&high_1)
        && (0xb0..=0xbf).contains(&low_1)
        && (0x80..=0xbf).contains(&high_0)
        && (0x80..=0xbf).contains(&low_0);
    if !is_pair {
        return None;
    }
    let high = u32::from(high_1 & 0x0f) << 6 | u32::from(high_0 & 0x3f);
    let low = u32::from(low_1 & 0x0f) << 6 | u32::from(low_0 & 0x3f);
    char::from_u32(0x1_0000 + (high << 10 | low))
}

/// The order of two texts by their UTF-16 units.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let differing = a.iter().zip(b).find(|(a, b)| a != b);
    match differing {
        None => a.len().cmp(&b.len()),
        // Two lead bytes: only of EE and EF, the lead bytes of U+E000 to U+FFFF, is UTF-8's order
        // not that of UTF-16, where the characters above U+FFFF come before.
        Some((a, b)) if *a >= 0xee && *b >= 0xee => {
            (*a < SUPPLEMENTARY_LEAD, a).cmp(&(*b < SUPPLEMENTARY_LEAD, b))
        }
        Some((a, b)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Characters on both sides of every border of UTF-8's lengths and of the surrogates.
    const BORDERS: [char; 16] = [
        '\0',
        'a',
        '\u{7f}',
        '\u{80}',
        '\u{7ff}',
        '\u{800}',
        '\u{cfff}',
        '\u{d000}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{efff}',
        '\u{f000}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1f600}',
        '\u{10ffff}',
    ];

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn order_of_bytes_is_order_of_units_for_every_short_text_of_border_characters() {
        let mut texts = vec![String::new()];
        for a in BORDERS {
            texts.push(a.to_string());
            texts.extend(BORDERS.map(|b| format!("{a}{b}")));
        }
        for a in &texts {
            for b in &texts {
                let by_units = units(a).cmp(&units(b));
                assert_eq!(encode(a).cmp(&encode(b)), by_units, "{a:?} {b:?}");
                assert_eq!(compare(a, b), by_units, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn every_character_keeps_its_place_and_comes_back() {
        let mut by_units: Vec<char> = ('\0'..=char::MAX).collect();
        by_units.sort_by_key(|c| {
            let mut pair = [0; 2];
            c.encode_utf16(&mut pair);
            pair
        });
        let mut last: Option<Vec<u8>> = None;
        for c in by_units {
            let text = c.to_string();
            let bytes = encode(&text).into_owned();
            assert_eq!(decode(&bytes).as_deref(), Some(text.as_str()));
            assert!(last.is_none_or(|last| last < bytes), "{c:?}");
            last = Some(bytes);
        }
    }

    #[test]
    fn bytes_of_no_text_are_refused() {
        for bytes in [
            &b"\xff"[..],
            b"a\xc3",
            b"\xf0\x9f\x98\x80", // UTF-8's own form of a supplementary character.
            b"\xed\xa0\xbd",     // A high surrogate alone.
            b"\xed\xb8\x80\xed\xa0\xbd", // Low before high.
            b"\xed\xa0\xbd\xed\xa0\xbd", // High twice.
            b"\xed\xa0\xbd\xed\xb8\x00", // A broken last byte.
            b"\xed\xa0\xbd\xed\xb8\x80\xf0\x9f\x98\x80",
        ] {
            assert_eq!(decode(bytes), None, "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn texts_come_back(text in "\\PC{0,8}|[a\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,6}") {
            let bytes = encode(&text).into_owned();
            prop_assert_eq!(decode(&bytes).map(Cow::into_owned), Some(text));
        }

        #[test]
        fn decoding_is_strict(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(0xed), 0xa0..=0xbfu8], 0..12)) {
            if let Some(text) = decode(&bytes) {
                prop_assert_eq!(encode(&text).into_owned(), bytes);
            }
        }
    }
}
