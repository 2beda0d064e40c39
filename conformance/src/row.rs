//! A row of the list: one behaviour, the requests that show it and the answers that must come.

use std::fmt;

/// How a behaviour is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// Recorded traffic of the live service.
    R,
    /// Captured from a current SDK.
    C,
    /// Asserted by a suite that was written against the live service.
    T,
    /// Microsoft's reference text.
    D,
    /// Read in the source of an SDK.
    S,
    /// Azurite's source, tests or notes.
    A,
    /// A comparison with the live service in an issue.
    I,
    /// Common knowledge of the service.
    K,
    /// Ours, where the service is unknown or more liberal is safe.
    Decision,
}

impl Provenance {
    /// All of them, the most trusted first.
    pub const ALL: [Provenance; 9] = [
        Provenance::R,
        Provenance::T,
        Provenance::D,
        Provenance::C,
        Provenance::S,
        Provenance::A,
        Provenance::I,
        Provenance::K,
        Provenance::Decision,
    ];

    /// The mark as the list writes it.
    pub fn mark(self) -> &'static str {
        match self {
            Provenance::R => "R",
            Provenance::C => "C",
            Provenance::T => "T",
            Provenance::D => "D",
            Provenance::S => "S",
            Provenance::A => "A",
            Provenance::I => "I",
            Provenance::K => "K",
            Provenance::Decision => "DECISION",
        }
    }

    /// The provenance of a mark.
    pub fn of(mark: &str) -> Option<Provenance> {
        Provenance::ALL.into_iter().find(|known| known.mark().eq_ignore_ascii_case(mark.trim()))
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mark())
    }
}

/// What an endpoint must offer, or its owner allow, for a row to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The account's second key is known.
    SecondKey,
    /// The endpoint is addressed by path, so that other styles can be tried beside it.
    PathStyle,
    /// The endpoint speaks plain HTTP.
    PlainHttp,
    /// The row changes the properties of the whole service, and puts them back.
    ServiceChanges,
}

impl Need {
    /// The word as the list writes it, and what is missing where it is not met.
    const WORDS: [(&'static str, Need, &'static str); 4] = [
        ("second-key", Need::SecondKey, "the second key of the account"),
        ("path-style", Need::PathStyle, "an endpoint that is addressed by path"),
        ("plain-http", Need::PlainHttp, "an endpoint without TLS"),
        ("service-changes", Need::ServiceChanges, "leave to change the service's properties"),
    ];

    /// The need of a word.
    pub fn of(word: &str) -> Option<Need> {
        Need::WORDS.iter().find(|(known, ..)| *known == word.trim()).map(|(_, need, _)| *need)
    }

    /// What is missing where it is not met.
    pub fn missing(self) -> &'static str {
        Need::WORDS.iter().find(|(_, need, _)| *need == self).map_or("", |(.., text)| text)
    }
}

/// A section of the specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Such as `2.3`.
    pub number: String,
    /// Such as `Create Table`.
    pub title: String,
}

/// One behaviour.
#[derive(Clone, Debug)]
pub struct Row {
    /// Unique in the list, such as `create-table.name/too-short`.
    pub id: String,
    /// Where the specification says it.
    pub section: Section,
    /// How it is known.
    pub provenance: Provenance,
    /// What it says, in one line.
    pub about: String,
    /// What the endpoint must offer.
    pub needs: Vec<Need>,
    /// The test that runs it.
    pub test: String,
    /// File and line of its block.
    pub place: String,
    /// The values of its case: names and texts, which may use variables themselves.
    pub values: Vec<(String, String)>,
    /// What is asked, in order.
    pub steps: Vec<Step>,
}

/// One exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is sent.
    pub ask: Ask,
    /// What must come back; without it any answer of success.
    pub expect: Option<Expect>,
}

/// A request as the list writes it, variables not yet filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The verb.
    pub method: String,
    /// The target below the account; as it is after a `=`.
    pub target: String,
    /// What concerns the runner: `auth`, `endpoint`, `send`, `lines`, `batch`, `times`.
    pub orders: Vec<(String, String)>,
    /// Headers to send; a value of `None` leaves one out that the runner would send.
    pub headers: Vec<(String, Option<String>)>,
    /// The body; none where there is no blank line after the headers.
    pub body: Option<String>,
}

impl Ask {
    /// What the row tells the runner under this word.
    pub fn order(&self, word: &str) -> Option<&str> {
        self.orders.iter().find(|(name, _)| name == word).map(|(_, value)| value.as_str())
    }
}

/// An answer as the list writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The statuses that are right: usually one.
    pub status: Vec<String>,
    /// What else must hold, in the order of the list, so that captures come before their use.
    pub checks: Vec<Check>,
}

/// One thing that must hold of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The header is there, once, and its value fits the pattern.
    Header(String, String),
    /// The header is not there.
    NoHeader(String),
    /// The error's code fits.
    Code(String),
    /// The error's text, up to its request id, fits.
    Text(String),
    /// The body holds a text that fits.
    Has(String),
    /// The body holds no such text.
    Lacks(String),
    /// The body as a whole fits.
    Body(String),
    /// The RowKeys of the answered entities, in order, blanks between them.
    Rows(String),
    /// The names of the answered tables, in order, blanks between them.
    Names(String),
    /// How many items are answered.
    Count(String),
    /// The JSON value at a pointer, as compact JSON, fits; or is not there.
    Json(String, String),
    /// The statuses of the parts of a batch, in order, blanks between them.
    Parts(String),
    /// What follows is about the part at this place.
    Part(String),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Header(name, value) => write!(f, "{name}: {value}"),
            Check::NoHeader(name) => write!(f, "!{name}"),
            Check::Code(text) => write!(f, "code: {text}"),
            Check::Text(text) => write!(f, "text: {text}"),
            Check::Has(text) => write!(f, "has: {text}"),
            Check::Lacks(text) => write!(f, "lacks: {text}"),
            Check::Body(text) => write!(f, "body: {text}"),
            Check::Rows(text) => write!(f, "rows: {text}"),
            Check::Names(text) => write!(f, "names: {text}"),
            Check::Count(text) => write!(f, "count: {text}"),
            Check::Json(pointer, text) => write!(f, "json: {pointer} {text}"),
            Check::Parts(text) => write!(f, "parts: {text}"),
            Check::Part(text) => write!(f, "part: {text}"),
        }
    }
}
