//! JSON objects as YAML: each an item of a list, its members one a line.
//!
//! A JSON scalar is a YAML scalar, so that values stand as they do in JSON and are read back as what
//! they were.

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
            false => out.extend(Json::from(name.as_str()).to_string().bytes()),
        }
        out.extend(format!(": {value}\n").bytes());
    }
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
}
