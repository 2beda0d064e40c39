//! Types of columns, from all rows of a file.
//!
//! The whole file is read once before the first row is written: a type guessed from the first rows
//! alone would turn out wrong in the middle of the job. A column gets the narrowest type that holds
//! every cell that is not null: Int32, Int64, Double, Boolean, DateTime, Guid, String. Numbers with
//! zeros in front (`007`) are text; so are integers and moments that would lose digits, and codes
//! such as `1E5` where no cell of the column has a point. Binary is never guessed.
//!
//! In JSON lines the values say their own types, by `a@odata.type` or by their form; only numbers
//! of one column are widened together, whatever else stands between them, and not those of files as
//! `export` prints them, whose rows all have a PartitionKey and the service's Timestamp: there a
//! number says its type too. Parquet says the types of its columns, and is not read before.

use crate::columnar::column::Column as TypedColumn;
use crate::edm::{EdmType, is_finer_than_a_tick};
use crate::import::rows::{Cells, Next, Rows};
use crate::json;
use anyhow::Result;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use tabulith::table::value::Value as Typed;

/// Texts that often stand for "no value"; only used for a hint, never skipped without `--null`.
const LIKELY_NULLS: [&str; 6] = ["NA", "N/A", "NULL", "null", "NaN", "\\N"];

/// What reading a whole file told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Its records, the bad ones included.
    pub(crate) rows: u64,
    /// Its columns in the order of their first appearance.
    pub(crate) columns: Vec<Column>,
    /// Whether it looks like one that `export` has printed: its Timestamp is the service's then.
    pub(crate) is_exported: bool,
}

/// One column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// The type of all its values; `None` where JSON values have types that do not mix.
    pub(crate) edm: Option<EdmType>,
    /// Where they do not mix: the type of the numbers that say none. Others keep their own.
    pub(crate) numbers: Option<EdmType>,
    /// A text that looks like a null marker, and the type that the column has without it.
    pub(crate) hint: Option<(&'static str, EdmType)>,
    /// Why no property holds its values.
    pub(crate) barred: Option<String>,
}

impl Column {
    /// The type of its numbers that say none, if it is one for all of them.
    pub(crate) fn number_type(&self) -> Option<EdmType> {
        self.edm.or(self.numbers)
    }
}

/// Reads all of `path`; none where it `is_stopped` before the end. `nulls`: cells that say "no
/// value".
pub(crate) fn survey(
    path: &Path,
    nulls: &[String],
    is_stopped: impl Fn() -> bool,
) -> Result<Option<Survey>> {
    let mut input = Rows::open(path)?;
    if let Some((rows, columns)) = input.types() {
        let column = |column: &TypedColumn| Column {
            name: column.name.clone(),
            edm: column.edm.clone().ok(),
            numbers: None,
            hint: None,
            barred: column.edm.clone().err(),
        };
        return Ok(Some(Survey::of_columns(rows, columns.iter().map(column).collect())));
    }
    let mut columns = Columns::default();
    for name in input.columns() {
        columns.at(name);
    }
    let mut rows = 0;
    while !is_stopped() {
        match input.next()? {
            Next::Record(record) => {
                rows += 1;
                match record.cells {
                    Cells::Csv(cells) => {
                        for (at, text) in cells.iter().enumerate() {
                            if !is_null(text, nulls) {
                                columns.seen[at].text(text);
                            }
                        }
                    }
                    Cells::Json(members) => columns.members(&members, nulls),
                    // A file of such rows says their types itself.
                    Cells::Typed(_) => {}
                }
            }
            // Counted here, reported when it is its turn.
            Next::Bad { .. } => rows += 1,
            Next::End => return Ok(Some(columns.finish(rows))),
        }
    }
    Ok(None)
}

impl Survey {
    /// Of a file with a header.
    fn of_columns(rows: u64, columns: Vec<Column>) -> Survey {
        let has_moment =
            |column: &Column| column.name == "Timestamp" && column.edm == Some(EdmType::DateTime);
        let has_key = columns.iter().any(|column| column.name == "PartitionKey");
        let is_exported = has_key && columns.iter().any(has_moment);
        Survey { rows, columns, is_exported }
    }
}

/// Whether a cell says "no value": it is empty or one of `nulls`.
pub(crate) fn is_null(text: &str, nulls: &[String]) -> bool {
    text.is_empty() || nulls.iter().any(|null| null == text)
}

#[derive(Default)]
struct Columns {
    names: HashMap<String, usize>,
    seen: Vec<Seen>,
    /// Of JSON lines: how many rows are as `export` prints them, and how many are not.
    exported: u64,
    others: u64,
}

impl Columns {
    fn at(&mut self, name: &str) -> &mut Seen {
        let index = match self.names.get(name) {
            Some(index) => *index,
            None => {
                self.names.insert(name.to_owned(), self.seen.len());
                self.seen.push(Seen::new(name));
                self.seen.len() - 1
            }
        };
        &mut self.seen[index]
    }

    /// The members of a row of JSON lines, of which texts that are one of `nulls` say nothing. An
    /// annotation that tells the type of another one is none of them.
    fn members(&mut self, members: &Map<String, Value>, nulls: &[String]) {
        let count = if is_exported(members) { &mut self.exported } else { &mut self.others };
        *count += 1;
        for (name, value) in members {
            let of = name.strip_suffix("@odata.type");
            if of.is_none_or(|of| !members.contains_key(of)) {
                let seen = self.at(name);
                if matches!(value, Value::String(text) if nulls.contains(text)) {
                    continue;
                }
                // A word that is no type is told when it is the row's turn.
                seen.json(value, json::annotation(members, name).ok().flatten());
            }
        }
    }

    fn finish(self, rows: u64) -> Survey {
        let is_exported = self.exported > 0 && self.others == 0;
        let columns = self.seen.into_iter().map(|seen| seen.finish(is_exported)).collect();
        let of_columns = Survey::of_columns(rows, columns);
        Survey { is_exported: is_exported || of_columns.is_exported, ..of_columns }
    }
}

/// Whether a row is as `export` prints them: with the service's Timestamp, and a type for each
/// number that is neither Int32 nor Double.
fn is_exported(members: &Map<String, Value>) -> bool {
    let is_moment =
        |value: &Value| matches!(value, Value::String(text) if looks_like(EdmType::DateTime, text));
    let is_plain = |value: &Value| match value {
        Value::Number(number) => {
            let fitting = TypeSet::NUMBERS.that_take(&number.to_string());
            fitting.has(EdmType::Int32) || !fitting.has(EdmType::Int64)
        }
        _ => true,
    };
    members.contains_key("PartitionKey")
        && members.get("Timestamp").is_some_and(is_moment)
        && members.values().all(is_plain)
}

/// What a column's values have in common so far.
struct Seen {
    name: String,
    /// Types that fit every value.
    fits: TypeSet,
    /// Types that fit every value but the first that looked like a null marker.
    fits_but_null: TypeSet,
    /// Of JSON: types that fit every value where a number is of no other type than the narrowest.
    fits_exactly: TypeSet,
    /// Of JSON: types that fit every number, and every number that says no type of its own.
    fits_numbers: [TypeSet; 2],
    /// Of text: whether one of its doubles has a point, and whether one has an exponent without.
    has_point: bool,
    has_bare_exponent: bool,
    likely_null: Option<&'static str>,
}

impl Seen {
    fn new(name: &str) -> Seen {
        Seen {
            name: name.to_owned(),
            fits: TypeSet::ALL,
            fits_but_null: TypeSet::ALL,
            fits_exactly: TypeSet::ALL,
            fits_numbers: [TypeSet::NUMBERS; 2],
            has_point: false,
            has_bare_exponent: false,
            likely_null: None,
        }
    }

    fn text(&mut self, text: &str) {
        if self.fits_but_null == TypeSet::TEXT {
            return; // So does `fits`, a part of it.
        }
        let fits = self.fits_but_null.that_take(text);
        if fits.has(EdmType::Double) && !fits.has(EdmType::Int64) {
            let has_point = text.contains('.');
            self.has_point |= has_point;
            self.has_bare_exponent |= !has_point && text.contains(['e', 'E']);
        }
        if fits == self.fits_but_null {
            return;
        }
        self.fits = self.fits.and(fits);
        match LIKELY_NULLS.into_iter().find(|null| *null == text) {
            Some(null) => self.likely_null = Some(null),
            None => self.fits_but_null = fits,
        }
    }

    /// `said`: the type that the row gives to it.
    fn json(&mut self, value: &Value, said: Option<EdmType>) {
        let types = match (value, said) {
            (Value::Null, _) => return,
            (_, Some(edm)) => TypeSet::of(&[edm]),
            (value, None) => TypeSet::of_json(value),
        };
        let narrowest = types.narrowest().map_or(types, |edm| TypeSet::of(&[edm]));
        self.fits = self.fits.and(types);
        self.fits_but_null = self.fits;
        self.fits_exactly = self.fits_exactly.and(narrowest);
        let numbers = types.and(TypeSet::NUMBERS);
        // A number without any type is a bad row, whatever the others are.
        if numbers != TypeSet::NONE {
            let [all, untold] = &mut self.fits_numbers;
            *all = all.and(numbers);
            if said.is_none() {
                *untold = untold.and(numbers);
            }
        }
    }

    /// `is_exact`: a number of JSON is of no other type than the narrowest.
    fn finish(mut self, is_exact: bool) -> Column {
        if is_exact {
            self.fits = self.fits.and(self.fits_exactly);
        }
        if self.has_bare_exponent && !self.has_point {
            self.fits = self.fits.without(EdmType::Double);
            self.fits_but_null = self.fits_but_null.without(EdmType::Double);
        }
        let edm = self.fits.narrowest();
        let hint = match (self.likely_null, self.fits_but_null.narrowest()) {
            (Some(null), Some(without))
                if edm == Some(EdmType::String)
                    && without != EdmType::String
                    && self.fits_but_null != TypeSet::ALL =>
            {
                Some((null, without))
            }
            _ => None,
        };
        // Nothing but nulls: nothing will be stored, and text is the type that a later file fits.
        let edm = if self.fits == TypeSet::ALL { Some(EdmType::String) } else { edm };
        // What is an Int32 all over is read as one anyway.
        let mut numbers = self.fits_numbers.into_iter().filter(|fits| *fits != TypeSet::NUMBERS);
        let numbers = numbers.find_map(TypeSet::narrowest).filter(|_| edm.is_none() && !is_exact);
        Column { name: self.name, edm, numbers, hint, barred: None }
    }
}

/// A set of types, one bit each, in the order of [`EdmType::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeSet(u8);

impl TypeSet {
    const ALL: TypeSet = TypeSet(u8::MAX);
    const NONE: TypeSet = TypeSet(0);
    const TEXT: TypeSet = TypeSet(1 << EdmType::String as u8);
    const NUMBERS: TypeSet =
        TypeSet(1 << EdmType::Int32 as u8 | 1 << EdmType::Int64 as u8 | 1 << EdmType::Double as u8);

    fn of(types: &[EdmType]) -> TypeSet {
        TypeSet(types.iter().fold(0, |set, edm| set | 1 << *edm as u8))
    }

    /// Those of a value that says no more than JSON can.
    fn of_json(value: &Value) -> TypeSet {
        match value {
            Value::Bool(_) => TypeSet::of(&[EdmType::Boolean]),
            Value::Number(number) => TypeSet::NUMBERS.that_take(&number.to_string()),
            Value::Null => TypeSet::ALL,
            Value::String(_) | Value::Array(_) | Value::Object(_) => {
                TypeSet::of(&[EdmType::String])
            }
        }
    }

    fn has(self, edm: EdmType) -> bool {
        self.0 & (1 << edm as u8) != 0
    }

    fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 & other.0)
    }

    fn without(self, edm: EdmType) -> TypeSet {
        TypeSet(self.0 & !(1 << edm as u8))
    }

    /// Those of the set that `text` can be.
    fn that_take(self, text: &str) -> TypeSet {
        // Most cells of most files: what fits Int32 is a wider number and a text too, no more.
        if self.has(EdmType::Int32) && looks_like(EdmType::Int32, text) {
            return self.and(TypeSet(TypeSet::NUMBERS.0 | TypeSet::TEXT.0));
        }
        let guessed = EdmType::ALL.into_iter().filter(|edm| *edm != EdmType::Binary);
        let fitting = guessed.filter(|edm| self.has(*edm) && looks_like(*edm, text));
        TypeSet(fitting.fold(0, |set, edm| set | 1 << edm as u8))
    }

    fn narrowest(self) -> Option<EdmType> {
        EdmType::ALL.into_iter().find(|edm| self.has(*edm))
    }
}

/// Whether `text` is a value of the type and nothing but the type's own value is lost by it.
fn looks_like(edm: EdmType, text: &str) -> bool {
    match edm {
        EdmType::Int32 | EdmType::Int64 | EdmType::Double => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let padded = digits.len() > 1
                && digits.starts_with('0')
                && digits.as_bytes()[1].is_ascii_digit();
            let plus = text.starts_with('+');
            match edm.parse(text).filter(|_| !padded && !plus) {
                // An integer stands there for the number it is, and not for the nearest double.
                Some(Typed::Double(number)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                    format!("{number:.0}") == text
                }
                value => value.is_some(),
            }
        }
        EdmType::DateTime => edm.parse(text).is_some() && !is_finer_than_a_tick(text),
        EdmType::String => true,
        other => other.parse(text).is_some(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::io::Write;

    fn surveyed(text: &str, nulls: &[&str]) -> Vec<Column> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let nulls: Vec<String> = nulls.iter().map(|null| (*null).to_owned()).collect();
        assert_eq!(survey(file.path(), &nulls, || true).unwrap(), None, "as it is told");
        survey(file.path(), &nulls, || false).unwrap().unwrap().columns
    }

    fn columns(text: &str, nulls: &[&str]) -> Vec<String> {
        surveyed(text, nulls)
            .into_iter()
            .map(|column| match (column.edm, column.hint) {
                (Some(edm), None) => format!("{} {edm}", column.name),
                (Some(edm), Some((null, other))) => {
                    format!("{} {edm} ({other} without {null})", column.name)
                }
                (None, _) => format!("{} varies", column.name),
            })
            .collect()
    }

    #[test]
    fn the_narrowest_type_that_holds_every_cell() {
        let text = "i,l,d,b,t,g,s,n\n\
            1,1,1,true,2013-01-01T10:00:00Z,0d391d16-97f1-4b9a-be68-4cc871f90001,x,\n\
            -2,3000000000,1.5,FALSE,2013-01-01T10:00:00.5Z,,1,\n";
        assert_eq!(
            columns(text, &[]),
            [
                "i Int32",
                "l Int64",
                "d Double",
                "b Boolean",
                "t DateTime",
                "g Guid",
                "s String",
                "n String"
            ]
        );
    }

    #[test]
    fn codes_that_look_like_numbers_stay_text() {
        assert_eq!(
            columns("zip,plus,zero\n01234,+1,0\n99999,+2,0\n", &[]),
            ["zip String", "plus String", "zero Int32"]
        );
    }

    /// A part number `1E5` became 100000.
    #[test]
    fn codes_with_an_exponent_are_numbers_beside_a_point_alone() {
        for (cells, told) in [
            ("1E5\n2e10\n", "n String"),
            ("1\n1E5\n", "n String"),
            ("-7e12\n", "n String"),
            ("1E5\nNA\n", "n String"),
            ("1e-05\n0.5\n", "n Double"),
            ("0.5\n3\n1e-05\n", "n Double"),
            ("1.5e3\n", "n Double"),
            ("1.5e3\n1E5\nNA\n", "n String (Double without NA)"),
            ("1.5\n1E5\nA5\n", "n String"),
            ("NaN\n-Infinity\n", "n Double"),
        ] {
            assert_eq!(columns(&format!("n\n{cells}"), &[]), [told], "{cells}");
        }
        assert_eq!(columns("{\"n\":1e5}\n", &[]), ["n Double"], "JSON has numbers and texts");
    }

    /// Numbers of twenty digits came back with sixteen of them, moments without their nanoseconds.
    #[test]
    fn what_would_lose_digits_stays_text() {
        for (cells, edm) in [
            ("1\n99999999999999999999", "String"),
            ("1\n100000000000000000000", "Double"),
            ("-100000000000000000000\n-1.5", "Double"),
            ("9007199254740992\n1.5", "Double"),
            ("9007199254740993\n1.5", "String"),
            ("9007199254740993\n1", "Int64"),
            ("2013-01-01T10:00:00.1234567000Z", "DateTime"),
            ("2013-01-01T10:00:00.12345678Z", "String"),
            ("2013-01-01T10:00:00Z\n2013-01-01T10:00:00.000000001+02:00", "String"),
        ] {
            assert_eq!(columns(&format!("n\n{cells}\n"), &[]), [format!("n {edm}")], "{cells}");
        }
        let json = |number: &str| columns(&format!("{{\"n\":{number}}}\n"), &[]);
        assert_eq!(json("99999999999999999999"), ["n varies"], "each row is told");
        assert_eq!(json("1e20"), ["n Double"]);
    }

    #[test]
    fn a_null_marker_is_hinted_at_and_then_obeyed() {
        assert_eq!(columns("a\n1\nNA\n", &[]), ["a String (Int32 without NA)"]);
        assert_eq!(columns("a\n1\nNA\n", &["NA"]), ["a Int32"]);
        assert_eq!(columns("a\nx\nNA\n", &[]), ["a String"], "text stays text either way");
    }

    #[test]
    fn json_numbers_widen_and_other_mixtures_vary() {
        let text = "{\"a\":1,\"b\":1,\"c\":\"7\",\"d\":null}\n\
            {\"a\":2.5,\"b\":\"x\",\"c\":\"8\",\"c@odata.type\":\"Edm.Int64\"}\n";
        assert_eq!(columns(text, &[]), ["a Double", "b varies", "c varies", "d String"]);
    }

    /// `--null` counted for CSV only where types were found, though for both where rows were read.
    #[test]
    fn a_null_of_json_is_none_of_the_values() {
        let text = "{\"v\":1,\"k\":\"NA\"}\n{\"v\":\"NA\"}\n{\"v\":2.5}\n";
        assert_eq!(columns(text, &["NA"]), ["v Double", "k String"]);
        assert_eq!(columns(text, &[]), ["v varies", "k String"]);
    }

    /// One text among them, and no number was widened: rows with those beyond an Int32 were bad.
    #[test]
    fn numbers_widen_whatever_stands_between_them() {
        let of = |values: &[&str]| {
            let row = |value: &&str| format!("{{{value}}}\n");
            let column = surveyed(&values.iter().map(row).collect::<String>(), &[]).remove(0);
            (column.edm, column.number_type())
        };
        let text = r#""v":"x""#;
        assert_eq!(of(&[text, r#""v":3000000000"#]), (None, Some(EdmType::Int64)));
        assert_eq!(of(&[r#""v":1"#, text, r#""v":2.5"#]), (None, Some(EdmType::Double)));
        let long = r#""v@odata.type":"Edm.Int64","v":"5""#;
        assert_eq!(of(&[long, text, r#""v":7"#]), (None, Some(EdmType::Int64)));
        assert_eq!(of(&[long, r#""v":7"#, r#""v":1.5"#]), (None, Some(EdmType::Double)));
        let bad = r#""v":99999999999999999999"#;
        assert_eq!(of(&[bad, r#""v":3000000000"#]), (None, Some(EdmType::Int64)));
        // An export says the types of its numbers, also of those between texts.
        let entity = r#""v":"x","PartitionKey":"p","Timestamp":"2026-11-22T10:00:00Z""#;
        let exported = |value: &str| entity.replace("\"x\"", value);
        assert_eq!(of(&[&exported("7"), &exported("\"y\""), &exported("1.5")]), (None, None));
    }

    /// An Int32 came back as a Double where another row of the table had a Double in its place.
    #[test]
    fn numbers_of_exported_entities_keep_their_types() {
        let row = |number: &str| {
            let at = "2026-11-22T10:00:00.0000000Z";
            format!("{{\"PartitionKey\":\"p\",\"Timestamp\":\"{at}\",\"a\":{number}}}\n")
        };
        let of = |numbers: [&str; 2]| columns(&numbers.map(row).concat(), &[])[2].clone();
        assert_eq!(of(["7", "1.5"]), "a varies");
        assert_eq!(of(["7.0", "1.5"]), "a Double");
        assert_eq!(of(["7", "8"]), "a Int32");
    }

    /// A member that happened to be called so kept numbers from being widened, and rows were bad.
    #[test]
    fn a_timestamp_of_its_own_makes_no_exported_entity() {
        let of = |at: &str, numbers: [&str; 2]| {
            let row = |number: &str| format!("{{{at},\"a\":{number}}}\n");
            columns(&numbers.map(row).concat(), &[]).pop().unwrap()
        };
        assert_eq!(
            of("\"k\":\"x\",\"Timestamp\":\"2026-11-22T10:00:00Z\"", ["7", "1.5"]),
            "a Double"
        );
        assert_eq!(of("\"PartitionKey\":\"p\",\"Timestamp\":\"noon\"", ["7", "1.5"]), "a Double");
        // An export says of such a number that it is an Int64.
        let entity = "\"PartitionKey\":\"p\",\"Timestamp\":\"2026-11-22T10:00:00Z\"";
        assert_eq!(of(entity, ["7", "5000000000"]), "a Int64");
    }

    #[test]
    fn a_row_that_says_a_type_is_believed() {
        let of = |rows: &[&str]| {
            let row = |members: &&str| format!("{{\"PartitionKey\":\"p\",{members}}}\n");
            columns(&rows.iter().map(row).collect::<String>(), &[])[1].clone()
        };
        let long = r#""a@odata.type":"Edm.Int64","a":"5""#;
        let not_a_number = r#""a@odata.type":"Edm.Double","a":"NaN""#;
        assert_eq!(of(&[long]), "a Int64");
        assert_eq!(of(&[long, r#""a":7"#]), "a Int64");
        assert_eq!(of(&[long, r#""a":"7""#]), "a varies");
        assert_eq!(of(&[not_a_number, r#""a":7"#]), "a Double");
        assert_eq!(of(&[r#""a@odata.type":"Edm.Binary","a":"AQI=""#]), "a Binary");
        assert_eq!(of(&[r#""a@odata.type":"Edm.Guid","a":null"#, r#""a":1"#]), "a Int32");
    }
}
