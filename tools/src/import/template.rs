//! Key templates: text with columns in braces, as in `{month:02}{day:02}-{flight:05}`.
//!
//! ```text
//! {col}        the column's text
//! {col:05}     the same, zeros in front up to 5 characters, so that numbers sort as text
//! {col|/=~}    the same, every `/` replaced by `~`; more pairs follow with `|`
//! {{ }}        a brace
//! ```
//! A column's text is what the file says, before nulls are recognised and types applied.

use anyhow::{Result, bail, ensure};

/// Widest zero padding; a key has 1,024 characters at most.
const PAD_MAX: usize = 64;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Column { name: String, pad: usize, replace: Vec<(char, char)> },
}

impl Template {
    /// Parses `text`; an error says what is wrong with which brace.
    pub(crate) fn parse(text: &str) -> Result<Template> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => {
                    chars.next();
                    plain.push(c);
                }
                '{' => {
                    push_text(&mut pieces, &mut plain);
                    let mut inner = String::new();
                    loop {
                        match chars.next() {
                            Some('}') => break,
                            Some(c) => inner.push(c),
                            None => bail!("key template `{text}`: a `{{` is never closed"),
                        }
                    }
                    pieces.push(parse_column(text, &inner)?);
                }
                '}' => bail!(
                    "key template `{text}`: a `}}` without its `{{`; write `}}}}` for the character"
                ),
                other => plain.push(other),
            }
        }
        push_text(&mut pieces, &mut plain);
        Ok(Template { pieces })
    }

    /// The columns it uses, in order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Column { name, .. } => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Adds replacements to every column, after the column's own.
    pub(crate) fn replace_everywhere(&mut self, pairs: &[(char, char)]) {
        for piece in &mut self.pieces {
            if let Piece::Column { replace, .. } = piece {
                replace.extend_from_slice(pairs);
            }
        }
    }

    /// The key for one row. `None` where `text_of` has no text for a column; the error is the
    /// column's name.
    pub(crate) fn render<'a>(
        &self,
        mut text_of: impl FnMut(&str) -> Option<std::borrow::Cow<'a, str>>,
    ) -> Result<String, String> {
        let mut key = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => key.push_str(text),
                Piece::Column { name, pad, replace } => {
                    let text = text_of(name).ok_or_else(|| name.clone())?;
                    append(&mut key, &text, *pad, replace);
                }
            }
        }
        Ok(key)
    }
}

fn push_text(pieces: &mut Vec<Piece>, plain: &mut String) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain)));
    }
}

fn parse_column(template: &str, inner: &str) -> Result<Piece> {
    let mut parts = inner.split('|');
    let head = parts.next().unwrap_or_default();
    // A name may hold a colon (`odata:x`): only digits behind the last one are a width.
    let (name, pad) = match head.rsplit_once(':') {
        Some((name, width)) if width.bytes().all(|b| b.is_ascii_digit()) && !width.is_empty() => {
            (name, width.parse().unwrap_or(usize::MAX))
        }
        Some((_, width)) => bail!(
            "key template `{template}`: `{width}` is no width; `{{col:05}}` pads with zeros to 5"
        ),
        None => (head, 0),
    };
    ensure!(!name.is_empty(), "key template `{template}`: a brace without a column name");
    ensure!(pad <= PAD_MAX, "key template `{template}`: width {pad} is above {PAD_MAX}");
    let mut replace = Vec::new();
    for pair in parts {
        replace.extend(parse_replacements(pair)?);
    }
    Ok(Piece::Column { name: name.to_owned(), pad, replace })
}

/// Parses `/=~` or `/=~,#=_` into pairs of characters.
pub(crate) fn parse_replacements(text: &str) -> Result<Vec<(char, char)>> {
    let mut pairs = Vec::new();
    for pair in text.split(',') {
        let mut chars = pair.chars();
        match (chars.next(), chars.next(), chars.next(), chars.next()) {
            (Some(from), Some('='), Some(to), None) => pairs.push((from, to)),
            _ => bail!("`{pair}` is no replacement; write `/=~` to turn `/` into `~`"),
        }
    }
    Ok(pairs)
}

fn append(key: &mut String, text: &str, pad: usize, replace: &[(char, char)]) {
    // A minus stays in front of its zeros.
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) if pad > 0 => ("-", digits),
        _ => ("", text),
    };
    key.push_str(sign);
    let length = if pad == 0 { 0 } else { sign.len() + digits.chars().count() };
    key.extend(std::iter::repeat_n('0', pad.saturating_sub(length)));
    for c in digits.chars() {
        key.push(replace.iter().find(|(from, _)| *from == c).map_or(c, |(_, to)| *to));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn render(template: &str) -> Result<String, String> {
        Template::parse(template).unwrap().render(|name| {
            let text = match name {
                "month" => "1",
                "flight" => "1545",
                "origin" => "EWR",
                "delta" => "-7",
                "tzone" => "America/New_York",
                _ => return None,
            };
            Some(Cow::Borrowed(text))
        })
    }

    #[track_caller]
    fn refused(template: &str, because: &str) {
        let error = Template::parse(template).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
    }

    #[test]
    fn columns_are_put_in_and_padded() {
        assert_eq!(render("{origin}-{month:02}-{flight:05}").unwrap(), "EWR-01-01545");
        assert_eq!(render("{flight:02}").unwrap(), "1545", "longer text is not cut");
        assert_eq!(render("{delta:04}").unwrap(), "-007", "the sign stays in front");
        assert_eq!(render("{{{origin}}}").unwrap(), "{EWR}");
        assert_eq!(render("airline").unwrap(), "airline");
        assert_eq!(render("").unwrap(), "");
    }

    #[test]
    fn forbidden_characters_are_mapped_where_asked() {
        assert_eq!(render("{tzone}").unwrap(), "America/New_York");
        assert_eq!(render("{tzone|/=~}").unwrap(), "America~New_York");
        assert_eq!(render("{tzone|/=~|_=+}").unwrap(), "America~New+York");
        let mut everywhere = Template::parse("a/{tzone}").unwrap();
        everywhere.replace_everywhere(&parse_replacements("/=~,_= ").unwrap());
        let key = everywhere.render(|_| Some(Cow::Borrowed("x/y_z"))).unwrap();
        assert_eq!(key, "a/x~y z", "the template's own text is left as it is");
    }

    #[test]
    fn a_missing_column_is_named() {
        assert_eq!(render("{origin}{gone}"), Err("gone".to_owned()));
    }

    #[test]
    fn mistakes_are_explained() {
        refused("{a", "never closed");
        refused("a}", "without its `{`");
        refused("{}", "without a column name");
        refused("{a:x}", "`x` is no width");
        refused("{a:999}", "above 64");
        refused("{a|/}", "no replacement");
    }
}
