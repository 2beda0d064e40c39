//! The text of a file of the list as blocks: a title, its cases, its steps.
//!
//! ```text
//! @ 2.3 Create Table
//! == create.twice | R | a name that is taken is refused
//! table
//! POST /Tables
//!
//! {"TableName":"${table}"}
//! ----
//! 409
//! code: TableAlreadyExists
//! ```
//!
//! Lines before a block's title that begin with `#` are comments. A block with a table of cases
//! (lines that begin with `|`) is a row for each line of it; [`crate::unfold`] makes them.

use crate::row::{Ask, Check, Expect, Need, Section, Step};

/// A text that is no list, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ListError {
    /// File and line.
    pub place: String,
    /// What is wrong.
    pub why: String,
}

/// A title with what stands below it.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// File and line of the title.
    pub place: String,
    /// The section that it stands in.
    pub section: Section,
    /// The id; the case is added after a slash.
    pub id: String,
    /// The mark of its provenance.
    pub mark: String,
    /// What it says.
    pub about: String,
    /// What the endpoint must offer.
    pub needs: Vec<Need>,
    /// The test that runs it, where it is not the list's own.
    pub test: Option<String>,
    /// Names of the columns of its cases; none where it is one row.
    pub columns: Vec<String>,
    /// Its cases.
    pub cases: Vec<Vec<String>>,
    /// Its exchanges.
    pub steps: Vec<Step>,
}

const ORDERS: [&str; 6] = ["auth", "endpoint", "send", "lines", "batch", "times"];

/// Reads a file of the list.
pub fn blocks(name: &str, text: &str) -> Result<Vec<Block>, ListError> {
    let mut lines = Lines { name, rest: text.lines().enumerate().collect(), at: 0 };
    let mut section = Section::default();
    let mut out = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("@ ") {
            let (number, title) = text.split_once(' ').unwrap_or((text, ""));
            section = Section { number: number.to_owned(), title: title.to_owned() };
        } else if let Some(title) = line.strip_prefix("== ") {
            out.push(block(&mut lines, title, section.clone())?);
        } else if !line.is_empty() && !line.starts_with('#') {
            return Err(lines.error("neither a section, a title nor a comment"));
        }
    }
    Ok(out)
}

struct Lines<'a> {
    name: &'a str,
    rest: Vec<(usize, &'a str)>,
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    fn peek(&self) -> Option<&'a str> {
        self.rest.get(self.at).map(|(_, line)| *line)
    }

    /// The next line of the block: none where another block begins.
    fn inside(&self) -> Option<&'a str> {
        self.peek().filter(|line| !line.starts_with("== ") && !line.starts_with("@ "))
    }

    fn place(&self) -> String {
        format!("{}:{}", self.name, self.at)
    }

    fn error(&self, why: impl Into<String>) -> ListError {
        ListError { place: self.place(), why: why.into() }
    }
}

fn block(lines: &mut Lines<'_>, title: &str, section: Section) -> Result<Block, ListError> {
    let mut parts = title.splitn(3, " | ").map(str::trim);
    let (Some(id), Some(mark), Some(about)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(lines.error("a title is: id | provenance | what it says"));
    };
    let mut block = Block {
        place: lines.place(),
        section,
        id: id.to_owned(),
        mark: mark.to_owned(),
        about: about.to_owned(),
        ..Block::default()
    };
    while let Some(line) = lines.inside() {
        if line.is_empty() || line.starts_with('#') {
            lines.next();
            continue;
        }
        if !setting(lines, &mut block, line)? {
            break;
        }
        lines.next();
    }
    while let Some(line) = lines.inside() {
        if line.is_empty() {
            lines.next();
        } else {
            block.steps.push(step(lines)?);
        }
    }
    if block.steps.is_empty() {
        return Err(lines.error(format!("{} asks nothing", block.id)));
    }
    Ok(block)
}

/// Reads a line that stands before the first request; false where it is the request.
fn setting(lines: &Lines<'_>, block: &mut Block, line: &str) -> Result<bool, ListError> {
    if let Some(case) = line.strip_prefix('|') {
        let cells = cells(case);
        if block.columns.is_empty() {
            block.columns = cells;
        } else if cells.len() == block.columns.len() {
            block.cases.push(cells);
        } else {
            return Err(lines.error(format!("{} cells under {:?}", cells.len(), block.columns)));
        }
    } else if let Some(words) = line.strip_prefix("need:") {
        for word in words.split_whitespace() {
            let need = Need::of(word).ok_or_else(|| lines.error(format!("no need is {word}")))?;
            block.needs.push(need);
        }
    } else if let Some(test) = line.strip_prefix("test:") {
        block.test = Some(test.trim().to_owned());
    } else if line == "table" || line.starts_with("table ") {
        let which = line.strip_prefix("table").unwrap_or_default().trim();
        let body = format!("{{\"TableName\":\"${{table{which}}}\"}}");
        block.steps.push(posted("/Tables", body));
    } else if let Some(entity) = line.strip_prefix("entity ") {
        block.steps.push(posted("/${table}", entity.to_owned()));
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The cells of a line `| a | b |`, without the first bar; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim_end().strip_suffix('|').unwrap_or(line);
    let mut out = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek(), out.last_mut()) {
            ('\\', Some('|'), Some(cell)) => {
                cell.push('|');
                chars.next();
            }
            ('|', ..) => out.push(String::new()),
            (_, _, Some(cell)) => cell.push(c),
            _ => {}
        }
    }
    out.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn posted(target: &str, body: String) -> Step {
    let headers = vec![("Prefer".to_owned(), Some("return-no-content".to_owned()))];
    let ask = Ask {
        method: "POST".to_owned(),
        target: target.to_owned(),
        orders: Vec::new(),
        headers,
        body: Some(body),
    };
    Step { ask, expect: None }
}

fn step(lines: &mut Lines<'_>) -> Result<Step, ListError> {
    let line = lines.next().unwrap_or_default();
    let (method, target) =
        line.split_once(' ').ok_or_else(|| lines.error("a request is: VERB target"))?;
    let mut ask = Ask { method: method.to_owned(), target: target.to_owned(), ..Ask::default() };
    while let Some(line) = lines.inside() {
        if line.is_empty() || line == "----" || line == "++" {
            break;
        }
        lines.next();
        if let Some(name) = line.strip_prefix('!') {
            ask.headers.push((name.to_owned(), None));
            continue;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| lines.error(format!("{line:?} is neither order nor header")))?;
        if ORDERS.contains(&name) {
            ask.orders.push((name.to_owned(), value.trim().to_owned()));
        } else {
            ask.headers.push((name.to_owned(), Some(value.trim().to_owned())));
        }
    }
    if lines.inside().is_some_and(str::is_empty) {
        lines.next();
        let body = text_until(lines, &["----", "++"]);
        ask.body = Some(body).filter(|body| !body.is_empty());
    }
    let mut expect = None;
    if lines.inside() == Some("----") {
        lines.next();
        expect = Some(expected(lines)?);
    }
    if lines.inside() == Some("++") {
        lines.next();
    }
    Ok(Step { ask, expect })
}

fn expected(lines: &mut Lines<'_>) -> Result<Expect, ListError> {
    let status = lines.next().unwrap_or_default();
    let mut expect = Expect::default();
    expect.status.extend(status.split_whitespace().map(str::to_owned));
    if expect.status.is_empty() {
        return Err(lines.error("an answer begins with its status"));
    }
    while let Some(line) = lines.inside() {
        if line == "++" {
            return Ok(expect);
        }
        lines.next();
        if line.is_empty() {
            let body = text_until(lines, &["++"]);
            if !body.is_empty() {
                expect.checks.push(Check::Body(body));
            }
            return Ok(expect);
        }
        expect.checks.push(check(lines, line)?);
    }
    Ok(expect)
}

fn check(lines: &Lines<'_>, line: &str) -> Result<Check, ListError> {
    if let Some(name) = line.strip_prefix('!') {
        return Ok(Check::NoHeader(name.to_owned()));
    }
    let (name, value) =
        line.split_once(':').ok_or_else(|| lines.error(format!("{line:?} is no check")))?;
    let value = value.trim().to_owned();
    Ok(match name {
        "code" => Check::Code(value),
        "text" => Check::Text(value),
        "has" => Check::Has(value),
        "lacks" => Check::Lacks(value),
        "rows" => Check::Rows(value),
        "names" => Check::Names(value),
        "count" => Check::Count(value),
        "parts" => Check::Parts(value),
        "part" => Check::Part(value),
        "json" => {
            let (pointer, text) = value
                .split_once(' ')
                .ok_or_else(|| lines.error("json: is followed by a pointer and a value"))?;
            Check::Json(pointer.to_owned(), text.trim().to_owned())
        }
        header => Check::Header(header.to_owned(), value),
    })
}

/// The lines up to one of `ends` or the end of the block, without the blank lines at their end.
fn text_until(lines: &mut Lines<'_>, ends: &[&str]) -> String {
    let mut out = String::new();
    while let Some(line) = lines.inside() {
        if ends.contains(&line) {
            break;
        }
        out.push_str(line);
        out.push('\n');
        lines.next();
    }
    out.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{blocks, cells};
    use crate::row::Check;

    #[test]
    fn a_block_is_read_as_it_is_written() {
        let text = "# list\n@ 2.3 Create Table\n\n== a.b | R | says: this | that\n| case | n |\n\
                    | x | 1 |\n| y | \\|2 |\nneed: second-key\ntable\nPOST /Tables\nauth: lite\n\
                    !Accept\nX: y: z\n\n{\n}\n----\n409 400\n!ETag\ncode: C\n\nb\n\nc\n\n++\n\
                    GET /\n== c | D | next\nGET /x\n";
        let found = blocks("f", text).expect("a list");
        assert_eq!(found.len(), 2);
        let first = &found[0];
        assert_eq!((first.place.as_str(), first.section.number.as_str()), ("f:4", "2.3"));
        assert_eq!(first.about, "says: this | that");
        assert_eq!(first.cases, [["x", "1"], ["y", "|2"]]);
        assert_eq!(first.steps.len(), 3);
        let ask = &first.steps[1].ask;
        assert_eq!(ask.order("auth"), Some("lite"));
        assert_eq!(ask.headers[0], ("Accept".to_owned(), None));
        assert_eq!(ask.headers[1], ("X".to_owned(), Some("y: z".to_owned())));
        assert_eq!(ask.body.as_deref(), Some("{\n}"));
        let expect = first.steps[1].expect.as_ref().expect("an answer");
        assert_eq!(expect.status, ["409", "400"]);
        assert_eq!(expect.checks[2], Check::Body("b\n\nc".to_owned()));
        assert!(first.steps[2].expect.is_none());
    }

    #[test]
    fn what_is_no_list_names_its_place() {
        for text in ["x", "== a | R", "== a | R | b\n", "== a | R | b\nneed: moon\nGET /\n"] {
            let error = blocks("f", text).expect_err(text);
            assert!(error.place.starts_with("f:"), "{error}");
        }
        assert_eq!(cells(" a | b\\|c |"), ["a", "b|c"]);
    }
}
