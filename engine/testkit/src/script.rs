//! Lists of operations as files: one that failed is written, made short, and replayed for ever.
//!
//! ```text
//! # what it was, as many lines as it takes
//! {"options":3}
//! {"Create":{"table":0}}
//! {"Get":{"table":0,"keys":["b:p","b:row-00012"]}}
//! ```
//!
//! The first line that is no comment tells under which settings, each other one is an operation.
//! Bytes are text behind `b:`, with `\xNN` for what cannot be read; a few that cannot be are
//! numbers.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where failing lists are written, if not below the target folder.
pub const FOLDER_VARIABLE: &str = "TABULITH_FAILED";

/// What text begins with that is bytes, and text that would be taken for such.
const BYTES: &str = "b:";
const TEXT: &str = "s:";

/// A list of operations with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script<S, T> {
    /// What it shows, line by line.
    pub story: Vec<String>,
    /// What else a run needs to know.
    pub settings: S,
    /// The operations.
    pub ops: Vec<T>,
}

/// A script with the name of its file.
pub type Named<S, T> = (String, Script<S, T>);

impl<S: Serialize + DeserializeOwned, T: Serialize + DeserializeOwned> Script<S, T> {
    /// The script as the text of a file.
    ///
    /// Errors: what cannot be text, such as a map whose keys are not.
    pub fn to_text(&self) -> Result<String, String> {
        let mut out = String::new();
        for line in self.story.iter().flat_map(|line| line.lines()) {
            out.push_str(format!("# {line}").trim_end());
            out.push('\n');
        }
        out.push_str(&line_of(&self.settings)?);
        for op in &self.ops {
            out.push_str(&line_of(op)?);
        }
        Ok(out)
    }

    /// Reads what [`Script::to_text`] wrote.
    ///
    /// Errors: the line that is none.
    pub fn parse(text: &str) -> Result<Script<S, T>, String> {
        let (comments, lines): (Vec<_>, Vec<_>) =
            text.lines().enumerate().partition(|(_, line)| line.starts_with('#'));
        let story = comments.into_iter().map(|(_, line)| line[1..].trim().to_owned()).collect();
        let mut lines = lines.into_iter().filter(|(_, line)| !line.trim().is_empty());
        let (number, first) = lines.next().ok_or("there is no line with settings")?;
        let settings = read_line(number, first)?;
        let ops = lines.map(|(number, line)| read_line(number, line)).collect::<Result<_, _>>()?;
        Ok(Script { story, settings, ops })
    }

    /// Writes it into a file of its own, in the folder that the environment names or else in
    /// `folder`; gives where it is.
    ///
    /// Errors: as the file system's.
    pub fn save(&self, folder: &Path, name: &str) -> Result<PathBuf, String> {
        let folder = env::var_os(FOLDER_VARIABLE).map_or(folder.to_owned(), PathBuf::from);
        let file = folder.join(format!("{name}.list"));
        let text = self.to_text()?;
        #[allow(clippy::disallowed_methods, reason = "a file for who runs the test")]
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, text));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// All scripts of a folder, by name, in the order of their names.
    ///
    /// Errors: a file that cannot be read, or is no script.
    pub fn all_in(folder: &Path) -> Result<Vec<Named<S, T>>, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        #[allow(clippy::disallowed_methods, reason = "files of the repository")]
        let entries = fs::read_dir(folder).map_err(told)?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(told)?.path();
            if path.extension().is_some_and(|extension| extension == "list") {
                files.push(path);
            }
        }
        files.sort();
        let read = |path: PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            #[allow(clippy::disallowed_methods, reason = "a file of the repository")]
            let text = fs::read_to_string(&path).map_err(told)?;
            let script = Script::parse(&text).map_err(|what| format!("{name}: {what}"))?;
            Ok((name, script))
        };
        files.into_iter().map(read).collect()
    }
}

fn line_of(what: &impl Serialize) -> Result<String, String> {
    let value = serde_json::to_value(what).map_err(|error| error.to_string())?;
    Ok(format!("{}\n", readable(value)))
}

fn read_line<T: DeserializeOwned>(number: usize, line: &str) -> Result<T, String> {
    let told = |what: String| format!("line {}: {what}", number + 1);
    let value = serde_json::from_str(line).map_err(|error| told(error.to_string()))?;
    let value = plain(value).map_err(told)?;
    serde_json::from_value(value).map_err(|error| told(error.to_string()))
}

/// So many bytes are text even where they cannot be read.
const BYTES_MIN: usize = 8;

/// Lists of bytes as text. A list of small numbers may be one as well: it is read as it was.
fn readable(value: Value) -> Value {
    match value {
        Value::Array(list) => match bytes_of(&list) {
            Some(bytes) => Value::String(format!("{BYTES}{}", bytes.escape_ascii())),
            None => Value::Array(list.into_iter().map(readable).collect()),
        },
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(k, v)| (k, readable(v))).collect())
        }
        Value::String(text) if text.starts_with(BYTES) || text.starts_with(TEXT) => {
            Value::String(format!("{TEXT}{text}"))
        }
        other => other,
    }
}

fn bytes_of(list: &[Value]) -> Option<Vec<u8>> {
    let byte = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    let bytes = list.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    let is_text = bytes.iter().all(|byte| (b' '..0x7f).contains(byte));
    (!bytes.is_empty() && (is_text || bytes.len() >= BYTES_MIN)).then_some(bytes)
}

fn plain(value: Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match (text.strip_prefix(BYTES), text.strip_prefix(TEXT)) {
            (Some(escaped), _) => unescaped(escaped)?.into_iter().map(Value::from).collect(),
            (_, Some(text)) => Value::String(text.to_owned()),
            _ => Value::String(text),
        },
        Value::Array(list) => Value::Array(list.into_iter().map(plain).collect::<Result<_, _>>()?),
        Value::Object(map) => {
            let plain = |(name, value)| Ok((name, plain(value)?));
            Value::Object(map.into_iter().map(plain).collect::<Result<Map<_, _>, String>>()?)
        }
        other => other,
    })
}

/// The other way of `escape_ascii`.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let bad = || format!("no bytes: {text}");
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().ok_or_else(bad)? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let mut digit =
                    || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(bad);
                (digit()? * 16 + digit()?) as u8
            }
            same => same,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::ops::Bound;

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    enum Op {
        Put { table: usize, key: (Vec<u8>, Vec<u8>), value: Option<Vec<u8>> },
        Scan { from: Bound<Vec<u8>>, fronts: Vec<bool>, small: (u8, u8), text: String },
        Flush,
    }

    fn script() -> Script<u32, Op> {
        let odd: Vec<u8> = (0..=255).collect();
        let scan = |text: &str| Op::Scan {
            from: Bound::Excluded(b"row\\x".to_vec()),
            fronts: vec![true, false],
            small: (1, 255),
            text: text.to_owned(),
        };
        let ops = vec![
            Op::Put { table: 300, key: (odd.clone(), Vec::new()), value: Some(odd) },
            Op::Put { table: 0, key: (b"p".to_vec(), b"it's \"so\"".to_vec()), value: None },
            scan("b:not bytes"),
            scan("s:as it is"),
            scan("\u{1f600} \u{0}"),
            Op::Flush,
        ];
        Script {
            story: vec!["What it was.".to_owned(), "It was bad.".to_owned()],
            settings: 7,
            ops,
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let (script, text) = (script(), script().to_text().expect("text"));
        assert_eq!(Script::parse(&text), Ok(script));
        assert!(text.is_ascii() || text.contains('\u{1f600}'), "{text}");
        assert!(text.contains(r#""key":["b:p","b:it\\'s \\\"so\\\""]"#), "{text}");
    }

    #[test]
    fn a_file_is_found_again_and_what_is_no_script_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        script().save(folder.path(), "two").expect("written");
        script().save(folder.path(), "one").expect("written");
        let all = Script::all_in(folder.path()).expect("read");
        assert_eq!(all, [("one".to_owned(), script()), ("two".to_owned(), script())]);
        let bad = Script::<u32, Op>::parse("# x\n7\n{\"Put\":1}\n").expect_err("no operation");
        assert!(bad.starts_with("line 3: "), "{bad}");
        assert!(Script::<u32, Op>::parse("7\n\"b:\\\\xg0\"").is_err());
        assert!(Script::<u32, Op>::parse("# nothing\n").is_err());
    }
}
