//! Rust source as the tidy rules see it: comments and literals blanked, test items cut, every
//! line where it was. Enough for rules about names and shapes; not a parser.

use std::ops::Range;

/// `text` with comments and the insides of literals as spaces. Offsets and lines stay.
pub(crate) fn blank(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    while at < out.len() {
        let end = match literal_or_comment(text.as_bytes(), at) {
            Some(end) => end.min(out.len()),
            None => {
                at += 1;
                continue;
            }
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_or_comment(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with(b"//") {
        return Some(at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(at + block_comment_len(rest));
    }
    match rest[0] {
        b'"' => Some(at + string_len(rest)),
        b'\'' => char_len(rest).map(|len| at + len),
        b'r' if at == 0 || !is_word(text[at - 1]) || matches!(text[at - 1], b'b' | b'c') => {
            raw_string_len(rest).map(|len| at + len)
        }
        _ => None,
    }
}

fn block_comment_len(text: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Length of a character literal; `None` for a lifetime.
fn char_len(text: &[u8]) -> Option<usize> {
    if text.get(1) == Some(&b'\\') {
        let close = text[3..].iter().position(|b| *b == b'\'')?;
        return Some(close + 4);
    }
    let width = match text.get(1)? {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    (text.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn raw_string_len(text: &[u8]) -> Option<usize> {
    let hashes = text[1..].iter().take_while(|b| **b == b'#').count();
    if text.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &text[1..1 + hashes]].concat();
    let body = 2 + hashes;
    let end = text[body..].windows(close.len()).position(|w| w == close);
    Some(end.map_or(text.len(), |end| body + end + close.len()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Blanked source without the items under `#[cfg(test)]` or `#[test]`.
pub(crate) fn without_tests(blanked: &str) -> String {
    let mut out = blanked.as_bytes().to_vec();
    let mut from = 0;
    while let Some(found) = blanked[from..].find("#[") {
        let start = from + found;
        let end = attribute_end(blanked, start);
        from = end;
        if is_test(&blanked[start..end]) {
            from = item_end(blanked, end);
            for byte in &mut out[start..from] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_test(attribute: &str) -> bool {
    let packed: String = attribute.chars().filter(|c| !c.is_whitespace()).collect();
    packed == "#[test]"
        || packed.starts_with("#[cfg(test")
        || packed.starts_with("#[cfg(all(test")
        || packed.starts_with("#[cfg(any(test")
}

fn attribute_end(text: &str, start: usize) -> usize {
    matching(text, start + 1).unwrap_or(text.len())
}

/// The end of the item after an attribute: its `;`, or its closing brace.
fn item_end(text: &str, from: usize) -> usize {
    let mut depth = 0;
    for (i, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return i + 1,
            b'{' if depth == 0 => return matching(text, i).unwrap_or(text.len()),
            _ => {}
        }
    }
    text.len()
}

/// One past the bracket that closes the one at `open`.
fn matching(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (i, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(i + 1);
        }
    }
    None
}

/// A path that starts with `crate` or `super`, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

/// Every `crate::…` and `super::…` path of blanked source, use trees taken apart.
pub(crate) fn imports(blanked: &str) -> Vec<Import> {
    let mut out = Vec::new();
    for root in ["crate::", "super::"] {
        let starts = blanked.match_indices(root).map(|(at, _)| at);
        for at in starts.filter(|at| starts_a_path(blanked, *at)) {
            let line = line_of(blanked, at);
            let mut paths = Vec::new();
            use_tree(blanked, at, &mut Vec::new(), &mut paths);
            out.extend(paths.into_iter().map(|path| Import { line, path }));
        }
    }
    out.sort_by_key(|import| import.line);
    out
}

fn starts_a_path(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end();
    let last = text[..at].bytes().next_back();
    !last.is_some_and(|b| is_word(b) || b == b'$')
        && !before.ends_with("::")
        && !before.ends_with("(in")
}

/// Reads the use tree at `at` behind `prefix`; returns where it ends.
fn use_tree(
    text: &str,
    mut at: usize,
    prefix: &mut Vec<String>,
    out: &mut Vec<Vec<String>>,
) -> usize {
    let depth = prefix.len();
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        if text[at..].starts_with('{') {
            at = use_list(text, at + 1, prefix, out);
            break;
        }
        let word = text[at..].bytes().take_while(|b| is_word(*b)).count();
        if word > 0 && &text[at..at + word] != "self" {
            prefix.push(text[at..at + word].to_owned());
        }
        at += word + usize::from(text[at..].starts_with('*'));
        let more = text[at..].starts_with("::") && !text[at..].starts_with("::<");
        if word == 0 || !more {
            out.push(prefix.clone());
            break;
        }
        at += 2;
    }
    prefix.truncate(depth);
    at
}

fn use_list(
    text: &str,
    mut at: usize,
    prefix: &mut Vec<String>,
    out: &mut Vec<Vec<String>>,
) -> usize {
    while at < text.len() && !text[at..].starts_with('}') {
        let skip = text[at..].bytes().take_while(|b| b.is_ascii_whitespace() || *b == b',').count();
        at += skip;
        if text[at..].starts_with('}') {
            break;
        }
        let end = use_tree(text, at, prefix, out);
        // `a as b` inside a list, or text that is no use tree: go to the next separator.
        at = end + text[end..].find([',', '}']).unwrap_or(text.len() - end);
    }
    (at + 1).min(text.len())
}

/// The `mod name;` lines of blanked source, in order.
pub(crate) fn modules(blanked: &str) -> Vec<String> {
    let lines = blanked.lines().map(str::trim);
    lines.filter_map(|line| module_of(line).map(str::to_owned)).collect()
}

fn module_of(line: &str) -> Option<&str> {
    let rest = line.strip_suffix(';')?;
    let (visibility, name) = rest.rsplit_once("mod ")?;
    let visibility = visibility.trim();
    let plain = visibility.is_empty() || visibility.starts_with("pub");
    (plain && name.bytes().all(is_word)).then_some(name)
}

/// A function: its name and the lines it spans.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: Range<usize>,
}

/// The functions with a body in blanked source.
pub(crate) fn functions(blanked: &str) -> Vec<Function> {
    let mut out = Vec::new();
    for (at, _) in blanked.match_indices("fn ") {
        if at > 0 && is_word(blanked.as_bytes()[at - 1]) {
            continue;
        }
        let name: String =
            blanked[at + 3..].bytes().take_while(|b| is_word(*b)).map(char::from).collect();
        let end = item_end(blanked, at);
        if !name.is_empty() && blanked[..end].ends_with('}') {
            out.push(Function { name, lines: line_of(blanked, at)..line_of(blanked, end) + 1 });
        }
    }
    out
}

/// The line, from 1, that holds byte `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        let mut all: Vec<_> = imports(&without_tests(&blank(source)))
            .into_iter()
            .map(|import| import.path.join("::"))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_use_tree_gives_every_path() {
        assert_eq!(
            paths("use crate::{error::Result, key::{order, range::KeyRange as R}, rows::*};"),
            [
                "crate::error::Result",
                "crate::key::order",
                "crate::key::range::KeyRange",
                "crate::rows"
            ]
        );
        assert_eq!(
            paths("fn f() -> crate::error::Result<()> { crate::flush::run::<u8>() }"),
            ["crate::error::Result", "crate::flush::run"]
        );
        assert_eq!(paths("use super::reader::Block;"), ["super::reader::Block"]);
    }

    #[test]
    fn what_is_not_code_is_not_an_import() {
        let source = r##"
            // use crate::a;
            /* use crate::b; /* nested */ crate::c */
            const A: &str = "crate::d \" crate::e";
            const B: &str = r#"crate::f " crate::g"#;
            const C: char = '"'; fn f<'a>(x: &'a str) {} // crate::h
            macro_rules! m { () => { $crate::i } }
            pub(in crate::j) struct S;
            #[cfg(test)]
            mod tests { use crate::k; fn f() { "}" } }
            #[cfg(all(test, unix))]
            use crate::{l, m};
            use crate::real;
        "##;
        assert_eq!(paths(source), ["crate::real"]);
    }

    #[test]
    fn blanking_keeps_every_line() {
        let source = "a /* x\n y */ b \"q\nr\" 'c' '\\n' '\\u{1F600}' '字' 'static\n";
        let blanked = blank(source);
        assert_eq!(blanked.len(), source.len());
        assert_eq!(blanked.lines().count(), source.lines().count());
        assert_eq!(blanked.split_whitespace().collect::<Vec<_>>(), ["a", "b", "'static"]);
    }

    #[test]
    fn modules_and_functions_are_found() {
        let source = "pub(crate) mod b;\nmod a;\nmod inner { }\n// mod no;\nfn long() {\n\n}\n";
        assert_eq!(modules(&blank(source)), ["b", "a"]);
        let found = functions(&blank(source));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].lines.clone()), ("long", 5..8));
    }
}
