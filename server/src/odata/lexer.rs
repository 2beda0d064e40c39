//! `$filter` text into tokens with positions.

use crate::error::{FilterFault, WireError, filter_literal, filter_syntax};
use crate::odata::literal;
use tabulith::table::time::{self, TimeError};
use tabulith::table::value::Value;

/// A token, and the byte offsets where it begins and right behind it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind<'a>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind<'a> {
    /// A property's name, an operator or a function's name.
    Word(&'a str),
    /// A value.
    Literal(Value),
    /// A moment that no property can have: before 1601, or after 9999.
    Beyond { is_late: bool },
    /// `(`
    Open,
    /// `)`
    Close,
    /// `-` without a number right behind it.
    Minus,
    /// Another sign of OData, which begins no operand and is no operator.
    Sign,
    /// The text is over.
    End,
}

/// Reads tokens off a filter.
pub(crate) struct Lexer<'a> {
    filter: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(filter: &'a str) -> Lexer<'a> {
        Lexer { filter, at: 0 }
    }

    /// The next token. It goes as far as it can: `eq'x'and` is three, and so is `5and B`.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, WireError> {
        self.pass_blanks();
        let start = self.at;
        let kind = match self.rest().as_bytes().first() {
            None => TokenKind::End,
            Some(b'(') => self.single(TokenKind::Open),
            Some(b')') => self.single(TokenKind::Close),
            Some(b',' | b'.' | b'/' | b':' | b'=' | b'?') => self.single(TokenKind::Sign),
            Some(b'\'') => TokenKind::Literal(Value::String(self.string(FilterFault::Text)?)),
            Some(b'-') => {
                self.at += 1;
                if self.at_number() {
                    TokenKind::Literal(self.number(start, "-")?)
                } else {
                    TokenKind::Minus
                }
            }
            Some(b'0'..=b'9') => TokenKind::Literal(self.number(start, "")?),
            Some(_) => self.word_or_literal()?,
        };
        Ok(Token { kind, start, end: self.at })
    }

    /// The number behind a minus and blanks.
    pub(crate) fn negative(&mut self, minus: &Token) -> Result<Value, WireError> {
        self.pass_blanks();
        if self.at_number() {
            self.number(minus.start, "-")
        } else {
            Err(self.fault(FilterFault::Syntax, minus.end))
        }
    }

    /// Whether a function's argument list follows.
    pub(crate) fn at_parenthesis(&self) -> bool {
        self.rest().trim_start().starts_with('(')
    }

    /// The error that the filter has `fault` at the byte offset `at`.
    pub(crate) fn fault(&self, fault: FilterFault, at: usize) -> WireError {
        filter_syntax(fault, self.position(at), self.filter)
    }

    fn rest(&self) -> &'a str {
        &self.filter[self.at..]
    }

    fn pass_blanks(&mut self) {
        self.at = self.filter.len() - self.rest().trim_start().len();
    }

    /// Whether a number follows, or `INF`.
    fn at_number(&self) -> bool {
        self.rest().starts_with(|c: char| c.is_ascii_digit()) || self.rest().starts_with("INF")
    }

    fn single(&mut self, kind: TokenKind<'a>) -> TokenKind<'a> {
        self.at += 1;
        kind
    }

    /// A quoted text; a quote within it is doubled. It fails with `open` where it has no end.
    fn string(&mut self, open: FilterFault) -> Result<String, WireError> {
        let mut text = String::new();
        let mut rest = &self.rest()[1..];
        loop {
            let Some((part, behind)) = rest.split_once('\'') else {
                return Err(self.fault(open, self.filter.len()));
            };
            text.push_str(part);
            rest = behind;
            match rest.strip_prefix('\'') {
                Some(behind) => {
                    text.push('\'');
                    rest = behind;
                }
                None => break,
            }
        }
        self.at = self.filter.len() - rest.len();
        Ok(text)
    }

    /// A number whose sign is read already; its token begins at `start`.
    fn number(&mut self, start: usize, sign: &str) -> Result<Value, WireError> {
        let rest = self.rest();
        if rest.starts_with("INF") {
            self.at += "INF".len();
            return Ok(Value::Double(f64::NEG_INFINITY));
        }
        let shape = NumberShape::of(rest);
        let shape = shape.map_err(|at| self.fault(FilterFault::Digit, self.at + at))?;
        let digits = &format!("{sign}{}", &rest[..shape.length]);
        let suffix = rest[shape.length..].bytes().next().unwrap_or(b' ').to_ascii_lowercase();
        let double = || literal::double(digits).map(Value::Double);
        let (value, edm_type) = match suffix {
            b'l' => (digits.parse().ok().map(Value::Int64), "Edm.Int64"),
            b'f' => (double(), "Edm.Single"),
            b'm' => (double(), "Edm.Decimal"),
            _ if suffix != b'd' && shape.is_integer => {
                (digits.parse().ok().map(Value::Int32), "Edm.Int32")
            }
            _ => (double(), "Edm.Double"),
        };
        let has_suffix = matches!(suffix, b'l' | b'd' | b'f' | b'm');
        let length = shape.length + usize::from(has_suffix);
        self.at += length;
        let text = || format!("{sign}{}", &rest[..length]);
        value.ok_or_else(|| self.literal_error(edm_type, &text(), start))
    }

    fn word_or_literal(&mut self) -> Result<TokenKind<'a>, WireError> {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|c| !is_identifier(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        if length == 0 {
            let first = rest.chars().next().unwrap_or_default();
            return Err(match first {
                // These begin something in the library, which the service has no use for.
                '$' | '*' | '[' | '{' => self.fault(FilterFault::Syntax, start + 1),
                _ => self.fault(FilterFault::Character(first), start),
            });
        }
        self.at += length;
        // Behind another word a quote begins a text of its own.
        let prefix = self.rest().starts_with('\'').then(|| word.to_ascii_lowercase());
        let edm_type = match prefix.as_deref() {
            Some("datetime") => "Edm.DateTime",
            Some("guid") => "Edm.Guid",
            Some("x" | "binary") => "Edm.Binary",
            _ => {
                return Ok(match word {
                    "NaN" => TokenKind::Literal(Value::Double(f64::NAN)),
                    "INF" => TokenKind::Literal(Value::Double(f64::INFINITY)),
                    _ => TokenKind::Word(word),
                });
            }
        };
        let text = self.string(FilterFault::Literal)?;
        let value = match edm_type {
            "Edm.DateTime" => match time::parse(&text) {
                // As a bound it is as good as any: clients have such for the least they know.
                Err(TimeError::OutOfRange { is_late, .. }) => {
                    return Ok(TokenKind::Beyond { is_late });
                }
                moment => moment.ok().map(Value::DateTime),
            },
            "Edm.Guid" => literal::guid_of_any_form(&text).map(Value::Guid),
            _ => literal::hex(&text).map(Value::Binary),
        };
        let literal = &self.filter[start..self.at];
        value.map(TokenKind::Literal).ok_or_else(|| self.literal_error(edm_type, literal, start))
    }

    /// The error that `literal`, from the byte offset `start` on, is no value of its type.
    fn literal_error(&self, edm_type: &str, literal: &str, start: usize) -> WireError {
        filter_literal(edm_type, literal, self.position(start), self.filter)
    }

    /// A byte offset as a count of UTF-16 units, the service's own way to count.
    fn position(&self, at: usize) -> usize {
        self.filter.get(..at).unwrap_or(self.filter).encode_utf16().count()
    }
}

/// Characters that may stand in a property's name. Beyond ASCII every character may: a name that
/// no property can have is then simply a property that no entity has.
fn is_identifier(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() || c == '_' } else { !c.is_whitespace() }
}

/// `digits [. digits] [e [sign] digits]` at the start of a text.
struct NumberShape {
    length: usize,
    is_integer: bool,
}

impl NumberShape {
    /// Fails with the offset at which a digit is missing.
    fn of(text: &str) -> Result<NumberShape, usize> {
        let bytes = text.as_bytes();
        let behind_digits = |from: usize| {
            let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 { Err(from) } else { Ok(from + digits) }
        };
        let mut length = behind_digits(0)?;
        let mut is_integer = true;
        if bytes.get(length) == Some(&b'.') {
            length = behind_digits(length + 1)?;
            is_integer = false;
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            length = behind_digits(length + 1 + sign)?;
            is_integer = false;
        }
        Ok(NumberShape { length, is_integer })
    }
}
