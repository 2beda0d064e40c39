//! JSON objects as YAML: each an item of a list, its members one a line.
//!
//! A JSON scalar is a YAML scalar but for a few characters and forms of numbers, so that values
//! stand much as they do in JSON and are read back as what they were, by readers of YAML 1.1 too.

use serde_json::{Map, Value as Json};

/// Words that some YAML reader takes for something else than text.
const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// Appends the object as an item of a list.
pub(crate) fn write_item(out: &mut Vec<u8>, members: &Map<String, Json>) {
    if members.is_empty() {
        out.extend_from_slice(b"- {}\n");
    }
    for (at, (name, value)) in members.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"- " } else { b"  " });
        match is_plain(name) {
            true => out.extend_from_slice(name.as_bytes()),
            false => out.extend(scalar(&Json::from(name.as_str())).bytes()),
        }
        out.extend(format!(": {}\n", scalar(value)).bytes());
    }
}

/// A value as YAML has it.
fn scalar(value: &Json) -> String {
    let text = value.to_string();
    if value.is_number() {
        return with_point(text);
    }
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_safe(letter) {
            true => out.push(letter),
            false => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    out
}

/// Whether a reader takes it as it is: not controls of 8 bits, breaks of lines, marks of order, and
/// what is no character.
fn is_safe(letter: char) -> bool {
    let odd = ['\u{7f}'..='\u{9f}', '\u{2028}'..='\u{2029}', '\u{fffe}'..='\u{ffff}'];
    letter != '\u{feff}' && !odd.iter().any(|range| range.contains(&letter))
}

/// A number with an exponent is a text to YAML 1.1 where it lacks the point, or the exponent its
/// sign.
fn with_point(text: String) -> String {
    let Some((digits, exponent)) = text.split_once(['e', 'E']) else { return text };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

fn is_plain(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(letters)
        && !RESERVED.iter().any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn members_stand_below_one_another_and_odd_names_in_quotes() {
        let text = r#"{"Name":"a: \"b\"\n","n@odata.type":"Edm.Int64","No":true,"d":1.5,"é":null}"#;
        let mut out = Vec::new();
        write_item(&mut out, &serde_json::from_str(text).unwrap());
        write_item(&mut out, &Map::new());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "- Name: \"a: \\\"b\\\"\\n\"\n  \"n@odata.type\": \"Edm.Int64\"\n  \"No\": true\n  d: 1.5\n  \"é\": null\n- {}\n"
        );
    }

    #[test]
    fn what_yaml_reads_otherwise_is_written_otherwise() {
        for (json, yaml) in [
            ("1e16", "1.0e+16"),
            ("-1e-7", "-1.0e-7"),
            ("1.5E+300", "1.5e+300"),
            ("16.0", "16.0"),
            ("17", "17"),
            (r#""a\u007f\u0085\u2028\ufeff\uffffé""#, r#""a\u007f\u0085\u2028\ufeff\uffffé""#),
        ] {
            let members = serde_json::from_str(&format!("{{\"V\":{json}}}")).unwrap();
            let mut out = Vec::new();
            write_item(&mut out, &members);
            assert_eq!(String::from_utf8(out).unwrap(), format!("- V: {yaml}\n"));
        }
    }
}
