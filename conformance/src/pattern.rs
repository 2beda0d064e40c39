//! Patterns of expected texts: literal but for their holes, some of which are captured.
//!
//! | hole | fits |
//! |---|---|
//! | `${*}` | anything within a line |
//! | `${**}` | anything |
//! | `${GUID}`, `${N}`, `${TIME}`, `${TIME7}`, `${DATE}`, `${ETAG}` | what its name says; `TIME7` has seven digits, `DATE` is that of a header |
//! | `${TRIMMED}` | an ETag whose fraction has no zeros at its end |
//! | `${END}` | what ends a member of a JSON object |
//! | `${name<HOLE}` | the same, kept as it is, as a variable for what follows |
//! | others | their value ([`crate::expand`]), to the letter |

use crate::expand::{Piece, Scope, pieces};
use regex::{Regex, RegexBuilder};

/// Whether a pattern is about a whole text or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The text as a whole.
    Whole,
    /// Some place in it.
    Somewhere,
}

/// Most bytes of a compiled pattern: bodies of a megabyte are compared.
const COMPILED_BYTES_MAX: usize = 512 << 20;

/// Whether `text` fits `pattern`; what it captures is added to the scope.
///
/// Errors: a hole that is not known.
pub fn fits(pattern: &str, text: &str, extent: Extent, scope: &mut Scope) -> Result<bool, String> {
    let parts = pieces(pattern);
    let free = |piece: &Piece<'_>| matches!(piece, Piece::Hole(hole) if open(hole).is_some());
    if !parts.iter().any(free) {
        let literal = scope.fill(pattern)?;
        return Ok(match extent {
            Extent::Whole => text == literal,
            Extent::Somewhere => text.contains(&literal),
        });
    }
    let regex = compiled(&parts, extent, scope)?;
    let Some(found) = regex.captures(text) else { return Ok(false) };
    for name in regex.capture_names().flatten() {
        if let Some(value) = found.name(name) {
            scope.keep(name, value.as_str());
        }
    }
    Ok(true)
}

fn compiled(parts: &[Piece<'_>], extent: Extent, scope: &Scope) -> Result<Regex, String> {
    let mut out = String::new();
    for part in parts {
        match part {
            Piece::Text(text) => out.push_str(&regex::escape(text)),
            Piece::Hole(hole) => match open(hole) {
                Some((None, form)) => out.push_str(&format!("(?:{form})")),
                Some((Some(name), form)) => out.push_str(&format!("(?P<{name}>{form})")),
                None => out.push_str(&regex::escape(&scope.fill(&format!("${{{hole}}}"))?)),
            },
        }
    }
    let text = if extent == Extent::Whole { format!("^(?:{out})$") } else { out };
    let mut builder = RegexBuilder::new(&text);
    builder.size_limit(COMPILED_BYTES_MAX).build().map_err(|error| error.to_string())
}

/// What a hole that is open fits, and the name that keeps it.
fn open(hole: &str) -> Option<(Option<&str>, &'static str)> {
    let (name, hole) = match hole.split_once('<') {
        Some((name, hole)) => (Some(name), hole),
        None => (None, hole),
    };
    let form = match hole {
        "*" => "[^\n]*?",
        "**" => "(?s:.*?)",
        "GUID" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
        "N" => "[0-9]+",
        "TIME" => r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,7})?Z",
        "TIME7" => r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z",
        "DATE" => r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT",
        "ETAG" => r#"W/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(?:\.\d{1,7})?Z'""#,
        "TRIMMED" => r#"W/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(?:\.\d{0,6}[1-9])?Z'""#,
        "END" => "[,}]",
        _ => return None,
    };
    Some((name, form))
}

#[cfg(test)]
mod tests {
    use super::{Extent, fits};
    use crate::expand::Scope;

    #[test]
    fn literals_are_literal_and_holes_are_open() {
        let mut scope = Scope::default();
        let mut check = |pattern: &str, text: &str| {
            fits(pattern, text, Extent::Whole, &mut scope).expect("a pattern")
        };
        assert!(check("a.b(${N})", "a.b(12)") && !check("a.b(${N})", "axb(12)"));
        assert!(check("${e<ETAG}", "W/\"datetime'2017-11-10T02%3A44%3A47.62Z'\""));
        assert!(check("${e}", "W/\"datetime'2017-11-10T02%3A44%3A47.62Z'\""));
        assert!(!check("${TRIMMED}", "W/\"datetime'2017-11-10T02%3A44%3A47.620Z'\""));
        assert!(!check("a${*}b", "a\nb") && check("a${**}b", "a\nb"));
        assert!(fits("b", "abc", Extent::Somewhere, &mut scope).expect("a pattern"));
        assert!(fits("${x}", "", Extent::Whole, &mut scope).is_err());
    }

    #[test]
    fn what_is_captured_is_literal() {
        let mut scope = Scope::default();
        let mut check = |pattern: &str, text: &str| {
            fits(pattern, text, Extent::Whole, &mut scope).expect("a pattern")
        };
        assert!(check("${p<**}", "${rep x 3}"));
        assert!(check("${p}", "${rep x 3}") && !check("${p}", "xxx"));
        assert!(check("${p}${N}", "${rep x 3}1") && !check("${p}${N}", "xxx1"));
    }
}
