//! `$filter` text into the table layer's filter tree.
//!
//! ```text
//! filter     = [ or-expr ]
//! or-expr    = and-expr *( "or" and-expr )
//! and-expr   = unary *( "and" unary )
//! unary      = "not" unary / comparison / property / "true" / "false" / "(" or-expr ")"
//! comparison = operand ( "eq" / "ne" / "gt" / "ge" / "lt" / "le" ) operand
//! operand    = property / literal / "(" operand ")"
//! ```
//!
//! `not` binds looser than a comparison: `not A eq 1` is `not (A eq 1)`. Where an operand is due
//! every other operator is a property's name.
//!
//! Promise: no recursion, and time linear in the text. The tree has at most
//! [`FILTER_NODES_MAX`] nodes and is no deeper than the table layer takes, so that what walks it
//! may recurse.

use crate::error::{
    FILTER_NOT_BOOLEAN, FilterFault, INVALID_INPUT, NOT_IMPLEMENTED, WireError, unknown_function,
};
use crate::limits::{FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_NODES_MAX};
use crate::odata::lexer::{Lexer, Token, TokenKind};
use tabulith::table::filter::ast::{DEPTH_MAX, Filter, Op};
use tabulith::table::value::{DateTime, Value};

// Within each parenthesis, and around all, an `or` has an `and` in it; a comparison is in the last.
const _: () = assert!(2 * (FILTER_DEPTH_MAX + 1) < DEPTH_MAX);

/// Reads a filter; none where the text is blank.
pub fn parse(filter: &str) -> Result<Option<Filter>, WireError> {
    if filter.trim().is_empty() {
        return Ok(None);
    }
    if filter.len() > FILTER_BYTES_MAX {
        return Err(INVALID_INPUT);
    }
    Parser {
        lexer: Lexer::new(filter),
        pending: Vec::new(),
        operands: Vec::new(),
        nodes: 0,
        depth: 0,
    }
    .run()
    .map(Some)
}

/// An operator that waits for its right side, or an open parenthesis.
#[derive(Clone, Copy)]
enum Pending {
    Open,
    Or,
    And,
    Not,
    Compare(Op),
}

impl Pending {
    /// How tightly it binds.
    fn rank(self) -> u8 {
        match self {
            Pending::Open => 0,
            Pending::Or => 1,
            Pending::And => 2,
            Pending::Not => 3,
            Pending::Compare(_) => 4,
        }
    }
}

/// What an operator works on.
enum Operand {
    Property(String),
    Literal(Value),
    /// A moment before all dates, or after them.
    Beyond {
        is_late: bool,
    },
    Condition(Filter),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    pending: Vec<Pending>,
    operands: Vec<Operand>,
    nodes: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Result<Filter, WireError> {
        loop {
            self.read_operand()?;
            if self.read_operator()? {
                let condition = self.pop_condition()?;
                return Ok(condition);
            }
        }
    }

    /// Reads up to and with one operand: `not`s and parentheses open before it.
    fn read_operand(&mut self) -> Result<(), WireError> {
        loop {
            let token = self.lexer.next()?;
            match token.kind {
                TokenKind::Open => self.open(Pending::Open)?,
                TokenKind::Word("not") => self.open(Pending::Not)?,
                TokenKind::Word(word) => {
                    let operand = self.word_operand(word)?;
                    self.operands.push(operand);
                    return Ok(());
                }
                TokenKind::Literal(value) => {
                    self.operands.push(Operand::Literal(value));
                    return Ok(());
                }
                TokenKind::Beyond { is_late } => {
                    self.operands.push(Operand::Beyond { is_late });
                    return Ok(());
                }
                TokenKind::Minus => {
                    let literal = self.lexer.negative(&token)?;
                    self.operands.push(Operand::Literal(literal));
                    return Ok(());
                }
                TokenKind::Close | TokenKind::Sign | TokenKind::End => {
                    return Err(self.lexer.fault(FilterFault::Expression, token.start));
                }
            }
        }
    }

    /// Reads parentheses that close and then one operator; true where the filter is over.
    fn read_operator(&mut self) -> Result<bool, WireError> {
        loop {
            let token = self.lexer.next()?;
            let operator = match token.kind {
                TokenKind::Close => {
                    self.reduce_down_to(Pending::Or.rank())?;
                    self.pending.pop().ok_or_else(|| self.unexpected(&token))?;
                    self.depth -= 1;
                    continue;
                }
                TokenKind::End => {
                    self.reduce_down_to(Pending::Or.rank())?;
                    let is_over = self.pending.is_empty();
                    return if is_over { Ok(true) } else { Err(self.unexpected(&token)) };
                }
                TokenKind::Word(word) => binary_operator(word)?,
                TokenKind::Literal(_)
                | TokenKind::Beyond { .. }
                | TokenKind::Open
                | TokenKind::Minus
                | TokenKind::Sign => None,
            };
            let operator = operator.ok_or_else(|| self.unexpected(&token))?;
            self.push_binary(operator, &token)?;
            return Ok(false);
        }
    }

    /// The error that the token is no operator, nor what could end what is open.
    fn unexpected(&self, token: &Token) -> WireError {
        if self.pending.iter().any(|pending| matches!(pending, Pending::Open)) {
            self.lexer.fault(FilterFault::Parenthesis, token.start)
        } else {
            self.lexer.fault(FilterFault::Syntax, token.end)
        }
    }

    fn open(&mut self, opened: Pending) -> Result<(), WireError> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err(INVALID_INPUT);
        }
        self.pending.push(opened);
        Ok(())
    }

    fn word_operand(&self, word: &str) -> Result<Operand, WireError> {
        if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
            return Ok(Operand::Literal(Value::Boolean(word.eq_ignore_ascii_case("true"))));
        }
        if word == "null" {
            return Err(INVALID_INPUT);
        }
        if self.lexer.at_parenthesis() {
            let is_known = FUNCTIONS.contains(&word);
            return Err(if is_known { NOT_IMPLEMENTED } else { unknown_function(word) });
        }
        Ok(Operand::Property(word.to_owned()))
    }

    fn push_binary(&mut self, operator: Pending, token: &Token) -> Result<(), WireError> {
        self.reduce_down_to(operator.rank())?;
        // Comparisons do not chain.
        if matches!(
            (operator, self.operands.last()),
            (Pending::Compare(_), Some(Operand::Condition(_)))
        ) {
            return Err(self.lexer.fault(FilterFault::Syntax, token.end));
        }
        self.pending.push(operator);
        Ok(())
    }

    /// Applies what waits and binds at least as tightly as `rank`.
    fn reduce_down_to(&mut self, rank: u8) -> Result<(), WireError> {
        while let Some(&operator) = self.pending.last() {
            if operator.rank() < rank {
                break;
            }
            self.pending.pop();
            let condition = self.apply(operator)?;
            self.operands.push(Operand::Condition(condition));
            self.nodes += 1;
            if self.nodes > FILTER_NODES_MAX {
                return Err(INVALID_INPUT);
            }
        }
        Ok(())
    }

    fn apply(&mut self, operator: Pending) -> Result<Filter, WireError> {
        match operator {
            Pending::Compare(op) => self.apply_comparison(op),
            Pending::Not => {
                self.depth -= 1;
                Ok(Filter::Not(Box::new(self.pop_condition()?)))
            }
            Pending::And => {
                let right = self.pop_condition()?;
                Ok(match self.pop_condition()? {
                    Filter::And(mut all) => {
                        all.push(right);
                        Filter::And(all)
                    }
                    left => Filter::And(vec![left, right]),
                })
            }
            Pending::Or | Pending::Open => {
                let right = self.pop_condition()?;
                Ok(match self.pop_condition()? {
                    Filter::Or(mut any) => {
                        any.push(right);
                        Filter::Or(any)
                    }
                    left => Filter::Or(vec![left, right]),
                })
            }
        }
    }

    fn apply_comparison(&mut self, op: Op) -> Result<Filter, WireError> {
        let right = self.operands.pop();
        let left = self.operands.pop();
        match (left, right) {
            (Some(Operand::Property(property)), Some(Operand::Literal(literal))) => {
                Ok(Filter::Compare { property, op, literal })
            }
            (Some(Operand::Literal(literal)), Some(Operand::Property(property))) => {
                Ok(Filter::Compare { property, op: op.mirrored(), literal })
            }
            (Some(Operand::Property(property)), Some(Operand::Beyond { is_late })) => {
                Ok(compare_beyond(property, op, is_late))
            }
            (Some(Operand::Beyond { is_late }), Some(Operand::Property(property))) => {
                Ok(compare_beyond(property, op.mirrored(), is_late))
            }
            _ => Err(INVALID_INPUT),
        }
    }

    fn pop_condition(&mut self) -> Result<Filter, WireError> {
        match self.operands.pop() {
            Some(Operand::Condition(condition)) => Ok(condition),
            Some(Operand::Property(property)) => Ok(Filter::Flag(property)),
            Some(Operand::Literal(Value::Boolean(value))) => Ok(Filter::Always(value)),
            Some(Operand::Literal(_) | Operand::Beyond { .. }) | None => Err(FILTER_NOT_BOOLEAN),
        }
    }
}

/// A comparison with a moment after all dates, or before them, by one with the first date or the
/// last: what has no date is less than either.
fn compare_beyond(property: String, op: Op, is_late: bool) -> Filter {
    let (op, bound) = match op {
        Op::Eq => (Op::Gt, DateTime::MAX),
        Op::Ne => (Op::Le, DateTime::MAX),
        Op::Lt | Op::Le if is_late => (Op::Le, DateTime::MAX),
        Op::Gt | Op::Ge if is_late => (Op::Gt, DateTime::MAX),
        Op::Lt | Op::Le => (Op::Lt, DateTime(0)),
        Op::Gt | Op::Ge => (Op::Ge, DateTime(0)),
    };
    Filter::Compare { property, op, literal: Value::DateTime(bound) }
}

/// The functions of OData 3, none of which the service has.
const FUNCTIONS: [&str; 22] = [
    "cast",
    "ceiling",
    "concat",
    "day",
    "endswith",
    "floor",
    "hour",
    "indexof",
    "isof",
    "length",
    "minute",
    "month",
    "replace",
    "round",
    "second",
    "startswith",
    "substring",
    "substringof",
    "tolower",
    "toupper",
    "trim",
    "year",
];

/// The operator that a word is; [`NOT_IMPLEMENTED`] for those of OData that the service lacks.
fn binary_operator(word: &str) -> Result<Option<Pending>, WireError> {
    Ok(Some(match word {
        "and" => Pending::And,
        "or" => Pending::Or,
        "eq" => Pending::Compare(Op::Eq),
        "ne" => Pending::Compare(Op::Ne),
        "lt" => Pending::Compare(Op::Lt),
        "le" => Pending::Compare(Op::Le),
        "gt" => Pending::Compare(Op::Gt),
        "ge" => Pending::Compare(Op::Ge),
        "add" | "sub" | "mul" | "div" | "mod" => return Err(NOT_IMPLEMENTED),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::error::{INVALID_INPUT, NOT_IMPLEMENTED};
    use crate::limits::{FILTER_DEPTH_MAX, FILTER_NODES_MAX};
    use tabulith::table::entity::Entity;
    use tabulith::table::filter::ast::{Filter, Op};
    use tabulith::table::filter::eval::passes;
    use tabulith::table::time;
    use tabulith::table::value::{DateTime, Value};

    /// The tree as text, fully parenthesised.
    fn show(filter: &Filter) -> String {
        let list = |parts: &[Filter], word: &str| {
            let parts: Vec<String> = parts.iter().map(show).collect();
            format!("({})", parts.join(word))
        };
        match filter {
            Filter::Compare { property, op, literal } => {
                let op = match op {
                    Op::Eq => "=",
                    Op::Ne => "!=",
                    Op::Lt => "<",
                    Op::Le => "<=",
                    Op::Gt => ">",
                    Op::Ge => ">=",
                };
                format!("{property}{op}{}", show_value(literal))
            }
            Filter::Flag(property) => property.clone(),
            Filter::Always(value) => value.to_string(),
            Filter::Not(inner) => format!("!{}", show(inner)),
            Filter::And(all) => list(all, " & "),
            Filter::Or(any) => list(any, " | "),
        }
    }

    fn show_value(value: &Value) -> String {
        match value {
            Value::String(text) => format!("{text:?}"),
            Value::Int32(n) => format!("{n}"),
            Value::Int64(n) => format!("{n}L"),
            Value::Double(n) => format!("{n:?}"),
            other => format!("{other:?}"),
        }
    }

    /// The filter's tree is `tree`, and what the tree prints as reads back as the same.
    #[track_caller]
    fn check(filter: &str, tree: &str) {
        let shown = |text: &str| match parse(text) {
            Ok(parsed) => (parsed.as_ref().map_or(String::new(), show), parsed),
            Err(error) => panic!("{text}: {error}"),
        };
        let (parsed_tree, parsed) = shown(filter);
        assert_eq!(parsed_tree, tree);
        if let Some(printed) = parsed.map(|parsed| parsed.to_string()) {
            assert_eq!(shown(&printed).0, tree, "{printed}");
        }
    }

    #[track_caller]
    fn refused(filter: &str, message: &str) {
        assert_eq!(parse(filter).expect_err(filter).message, message);
    }

    #[test]
    fn nothing_to_filter() {
        check("", "");
        check("  ", "");
    }

    #[test]
    fn precedence() {
        check("A eq 1 or B eq 2 and C eq 3", "(A=1 | (B=2 & C=3))");
        check("A eq 1 and B eq 2 or C eq 3", "((A=1 & B=2) | C=3)");
        check("(A eq 1 or B eq 2) and C eq 3", "((A=1 | B=2) & C=3)");
        check("not A eq 1 and B eq 2", "(!A=1 & B=2)");
        check("not (A eq 1 and B eq 2)", "!(A=1 & B=2)");
        check("not not A", "!!A");
        check("A eq 1 and not B", "(A=1 & !B)");
        check("A or B or C or D", "(A | B | C | D)");
        check("A and B or C and D or E", "((A & B) | (C & D) | E)");
    }

    #[test]
    fn blanks_are_free_next_to_parentheses() {
        check("(A eq 1)and(B eq 2)", "(A=1 & B=2)");
        check("not(A eq 1)", "!A=1");
        check(" ( ( A eq 1 ) ) ", "A=1");
        check("(A) eq (1)", "A=1");
        check("A eq(1)", "A=1");
        check("\tA\neq\r\n1", "A=1");
    }

    #[test]
    fn blanks_are_free_next_to_quotes_and_behind_numbers() {
        check("A eq'x'and B eq 5and C eq 6L", "(A=\"x\" & B=5 & C=6L)");
        check("A eq 'x'or B eq 1.5d or'y'eq C", "(A=\"x\" | B=1.5 | C=\"y\")");
        check("A eq datetime'1601-01-01T00:00:00Z'and not B", "(A=DateTime(DateTime(0)) & !B)");
        check("A eq X'00'and B eq-5and(C)", "(A=Binary([0]) & B=-5 & C)");
        check("5L eq A or 5ne A", "(A=5L | A!=5)");
        refused("A eq'x'B", "Syntax error at position 8 in 'A eq'x'B'.");
        refused("A eq 5'x'", "Syntax error at position 9 in 'A eq 5'x''.");
        refused("a-b eq 1", "Syntax error at position 2 in 'a-b eq 1'.");
        refused("not'x'", "The $filter expression must evaluate to a single boolean value.");
    }

    #[test]
    fn the_property_may_stand_on_the_right() {
        check("'x' eq PartitionKey", "PartitionKey=\"x\"");
        check("5 lt N", "N>5");
        check("5 ge N", "N<=5");
    }

    #[test]
    fn properties_may_be_called_as_operators() {
        check("or eq 1 or and eq 2", "(or=1 | and=2)");
        check("eq eq 1 and 2 lt ne", "(eq=1 & ne>2)");
        check("lt and (le) and not gt or ge", "((lt & le & !gt) | ge)");
        check("and and and and and", "(and & and & and)");
        check("add eq 1 or in", "(add=1 | in)");
    }

    #[test]
    fn conditions_without_comparison() {
        check("Flag", "Flag");
        check("true", "true");
        check("False or Flag", "(false | Flag)");
        check("Flag eq true", "Flag=Boolean(true)");
    }

    #[test]
    fn literals() {
        check("A eq 'it''s (a) & b%20'", "A=\"it's (a) & b%20\"");
        check("A eq ''", "A=\"\"");
        check("A eq -5 or A eq - 5", "(A=-5 | A=-5)");
        check("- 5L lt A", "A>-5L");
        check("A eq 5L or A eq 5l", "(A=5L | A=5L)");
        check(
            "A eq 1.0 or A eq 1e3 or A eq 1d or A eq 1.5f or A eq 2m",
            "(A=1.0 | A=1000.0 | A=1.0 | A=1.5 | A=2.0)",
        );
        check("A eq NaN or A eq INF or A eq -INF", "(A=NaN | A=inf | A=-inf)");
        check("A eq - INF", "A=-inf");
        check("A eq 2147483647 or A eq -2147483648", "(A=2147483647 | A=-2147483648)");
        check("A eq - 2147483648", "A=-2147483648");
        check("A eq -9223372036854775808L", "A=-9223372036854775808L");
        check(
            "A eq X'0aFF' or A eq binary'' or A eq x'00'",
            "(A=Binary([10, 255]) | A=Binary([]) | A=Binary([0]))",
        );
        check("A eq datetime'1601-01-01T00:00:00.0000001Z'", "A=DateTime(DateTime(1))");
        check(
            "A eq guid'00000000-0000-0000-0000-0000000000FF'",
            "A=Guid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255])",
        );
        check("名 eq 'é'", "名=\"é\"");
    }

    #[test]
    fn guids_in_every_form_that_bodies_have() {
        let tree = |guid: &str| parse(&format!("A eq guid'{guid}'")).expect(guid);
        let dashed = tree("0d391d16-97f1-4b9a-be68-4cc871f90001");
        for guid in [
            "0D391D16-97F1-4B9A-BE68-4CC871F90001",
            "0d391d1697f14b9abe684cc871f90001",
            "{0d391d16-97f1-4b9a-be68-4cc871f90001}",
            "(0d391d16-97f1-4b9a-be68-4cc871f90001)",
        ] {
            assert_eq!(tree(guid), dashed, "{guid}");
        }
        for guid in ["0d391d16", "{0d391d1697f14b9abe684cc871f90001}"] {
            let literal = format!("guid'{guid}'");
            let message =
                format!("Unrecognized 'Edm.Guid' literal '{literal}' at '5' in 'A eq {literal}'.");
            refused(&format!("A eq {literal}"), &message);
        }
    }

    /// .NET's least moment is a usual lower bound; it was refused as if it were no date.
    #[test]
    fn dates_before_all_and_after_all_are_bounds() {
        let day = time::parse("2020-01-01").expect("a day");
        let (least, most) = ("0001-01-01T00:00:00Z", "9999-12-31T23:00:00-02:00");
        for (moment, word, of_dates, of_others) in [
            (least, "eq", false, false),
            (least, "ne", true, true),
            (least, "lt", false, true),
            (least, "le", false, true),
            (least, "gt", true, false),
            (least, "ge", true, false),
            (most, "eq", false, false),
            (most, "ne", true, true),
            (most, "lt", true, true),
            (most, "le", true, true),
            (most, "gt", false, false),
            (most, "ge", false, false),
        ] {
            let text = format!("A {word} datetime'{moment}'");
            let filter = parse(&text).expect("a filter").expect("not blank");
            let check = |value: &Value, expected: bool| {
                let entity = Entity::new("p", "r").with("A", value.clone());
                assert_eq!(passes(&filter, &entity).ok(), Some(expected), "{text}, {value}");
            };
            for date in [DateTime(0), day, DateTime::MAX] {
                check(&Value::DateTime(date), of_dates);
            }
            for other in [Value::Int32(1), Value::Double(f64::NAN), Value::String(String::new())] {
                check(&other, of_others);
            }
            assert_eq!(passes(&filter, &Entity::new("p", "r")).ok(), Some(false), "{text}");
            let turned = match word {
                "lt" => "gt",
                "le" => "ge",
                "gt" => "lt",
                "ge" => "le",
                same => same,
            };
            assert_eq!(parse(&format!("datetime'{moment}' {turned} A")), Ok(Some(filter)));
        }
        let least = format!("datetime'{least}'");
        refused(&least, "The $filter expression must evaluate to a single boolean value.");
        assert_eq!(parse(&format!("{least} eq {least}")).expect_err("no property"), INVALID_INPUT);
        refused(&format!("A {least}"), &format!("Syntax error at position 32 in 'A {least}'."));
    }

    #[test]
    fn syntax_errors_name_their_position() {
        refused("aaa bbb ccc", "Syntax error at position 7 in 'aaa bbb ccc'.");
        refused("A eq 1)", "Syntax error at position 7 in 'A eq 1)'.");
        refused("A eq 1 eq 2", "Syntax error at position 9 in 'A eq 1 eq 2'.");
        refused("A EQ 1", "Syntax error at position 4 in 'A EQ 1'.");
        refused("A eq 1x", "Syntax error at position 7 in 'A eq 1x'.");
        refused("'😀' eq A b", "Syntax error at position 11 in ''😀' eq A b'.");
        refused("A eq foo'x'", "Syntax error at position 11 in 'A eq foo'x''.");
        refused("and A", "Syntax error at position 5 in 'and A'.");
        refused("eq 'x'", "Syntax error at position 6 in 'eq 'x''.");
        refused("A in ('x','y')", "Syntax error at position 4 in 'A in ('x','y')'.");
        refused("A = 1", "Syntax error at position 3 in 'A = 1'.");
        refused("A eq *", "Syntax error at position 6 in 'A eq *'.");
    }

    #[test]
    fn syntax_errors_say_what_is_missing() {
        refused("A eq", "Expression expected at position 4 in 'A eq'.");
        refused("not ", "Expression expected at position 4 in 'not '.");
        refused("A and", "Expression expected at position 5 in 'A and'.");
        refused("()", "Expression expected at position 1 in '()'.");
        refused("A eq = 1", "Expression expected at position 5 in 'A eq = 1'.");
        refused("A eq .5", "Expression expected at position 5 in 'A eq .5'.");
        refused("(A eq 1", "')' or operator expected at position 7 in '(A eq 1'.");
        refused("('é' eq A B)", "')' or operator expected at position 10 in '('é' eq A B)'.");
        refused("(A in (1))", "')' or operator expected at position 3 in '(A in (1))'.");
        refused("(A) eq 1)", "Syntax error at position 9 in '(A) eq 1)'.");
    }

    #[test]
    fn syntax_errors_within_a_token() {
        let text = "There is an unterminated string literal at position";
        refused("A eq 'x", &format!("{text} 7 in 'A eq 'x'."));
        refused("A eq 'x''", &format!("{text} 9 in 'A eq 'x'''."));
        let literal = "There is an unterminated literal at position";
        refused("A eq guid'x", &format!("{literal} 11 in 'A eq guid'x'."));
        refused("A eq 1.", "A digit was expected at position 7 in 'A eq 1.'.");
        refused("A eq 1.e5", "A digit was expected at position 7 in 'A eq 1.e5'.");
        refused("A eq -1e", "A digit was expected at position 8 in 'A eq -1e'.");
        refused("A eq 1e+x", "A digit was expected at position 8 in 'A eq 1e+x'.");
        let character = |c: &str| format!("Syntax error: character '{c}' is not valid at position");
        refused("A eq ;", &format!("{} 5 in 'A eq ;'.", character(";")));
        refused("A eq +5", &format!("{} 5 in 'A eq +5'.", character("+")));
        refused("A&&B", &format!("{} 1 in 'A&&B'.", character("&")));
    }

    #[test]
    fn numbers_out_of_their_type() {
        refused(
            "A eq 5454161346626",
            "Unrecognized 'Edm.Int32' literal '5454161346626' at '5' in 'A eq 5454161346626'.",
        );
        refused(
            "A eq 9223372036854775808L",
            "Unrecognized 'Edm.Int64' literal '9223372036854775808L' at '5' in 'A eq 9223372036854775808L'.",
        );
        refused("A eq 1.5L", "Unrecognized 'Edm.Int64' literal '1.5L' at '5' in 'A eq 1.5L'.");
        refused("A eq 1e999", "Unrecognized 'Edm.Double' literal '1e999' at '5' in 'A eq 1e999'.");
        refused(
            "A eq 1e999f",
            "Unrecognized 'Edm.Single' literal '1e999f' at '5' in 'A eq 1e999f'.",
        );
    }

    #[test]
    fn a_minus_belongs_to_the_number_behind_it() {
        refused(
            "A eq - 2147483649",
            "Unrecognized 'Edm.Int32' literal '-2147483649' at '5' in 'A eq - 2147483649'.",
        );
        refused("A - 1", "Syntax error at position 3 in 'A - 1'.");
        refused("A -1", "Syntax error at position 4 in 'A -1'.");
        refused("A eq --5", "Syntax error at position 6 in 'A eq --5'.");
        refused("A eq -B", "Syntax error at position 6 in 'A eq -B'.");
    }

    #[test]
    fn literals_that_are_none_are_quoted_whole() {
        refused(
            "A eq guid'1'",
            "Unrecognized 'Edm.Guid' literal 'guid'1'' at '5' in 'A eq guid'1''.",
        );
        refused("A eq x'0'", "Unrecognized 'Edm.Binary' literal 'x'0'' at '5' in 'A eq x'0''.");
        refused(
            "DateTime'1' lt A",
            "Unrecognized 'Edm.DateTime' literal 'DateTime'1'' at '0' in 'DateTime'1' lt A'.",
        );
    }

    #[test]
    fn what_is_not_a_condition() {
        let not_boolean = "The $filter expression must evaluate to a single boolean value.";
        refused("'x'", not_boolean);
        refused("5 and A", not_boolean);
        refused("not 5", not_boolean);
        assert_eq!(parse("1 eq 1").expect_err("no property").code, "InvalidInput");
        assert_eq!(parse("A eq B").expect_err("no literal").code, "InvalidInput");
    }

    #[test]
    fn what_the_service_does_not_have() {
        for filter in
            ["startswith(A,'x')", "A add 1 eq 2", "A mod 2 eq 0", "tolower (A) eq 'x'", "isof('x')"]
        {
            assert_eq!(parse(filter).expect_err(filter), NOT_IMPLEMENTED);
        }
    }

    #[test]
    fn what_the_protocol_does_not_have() {
        let unknown = |name: &str| format!("An unknown function with name '{name}' was found.");
        refused("contains(A,'x')", &unknown("contains"));
        refused("foo(A) eq 1", &unknown("foo"));
        refused("A eq StartsWith (A,'x')", &unknown("StartsWith"));
        refused("and (A)", &unknown("and"));
    }

    #[test]
    fn null_is_no_value() {
        for filter in ["A eq null", "null ne A", "null"] {
            assert_eq!(parse(filter).expect_err(filter), INVALID_INPUT);
        }
        check("Null eq 1", "Null=1");
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let any = |terms: usize| vec!["A eq 1"; terms].join(" or ");
        assert!(parse(&any(FILTER_NODES_MAX / 2)).is_ok());
        assert_eq!(parse(&any(FILTER_NODES_MAX)).expect_err("too many").code, "InvalidInput");
        let nested = |depth: usize| format!("{}A{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(FILTER_DEPTH_MAX)).is_ok());
        assert_eq!(
            parse(&nested(FILTER_DEPTH_MAX + 1)).expect_err("too deep").code,
            "InvalidInput"
        );
        assert!(parse(&"not ".repeat(20_000)).is_err());
    }

    #[test]
    fn what_is_parsed_is_never_too_deep_for_the_table_layer() {
        for (open, opened) in [("A or B and (", 1), ("A or B and not (", 2), ("not ", 1)] {
            let count = FILTER_DEPTH_MAX / opened;
            let closed = if open.ends_with('(') { count } else { 0 };
            let text = format!("{}A or B and C{}", open.repeat(count), ")".repeat(closed));
            let filter = parse(&text).expect("not too deep").expect("not blank");
            assert!(filter.check().is_ok(), "{open}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let pieces = [
            "(", ")", "not ", "A", " eq ", "'", "1", "L", " and ", "X'", "-", ".", "e", "é", "😀",
            "null", "%",
        ];
        let mut rng = tabulith::env::rng::Rng::seeded(5);
        for _ in 0..20_000 {
            let length = rng.below(12);
            let filter: String =
                (0..length).map(|_| pieces[rng.below(pieces.len() as u64) as usize]).collect();
            let _ = parse(&filter);
        }
    }
}
