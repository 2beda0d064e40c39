//! The fields of shared access signatures in words.

/// A field of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value, without the signature itself.
    pub value: String,
    /// What it says.
    pub meaning: String,
}

/// The fields, and what each is about.
pub(crate) const NAMES: [(&str, &str); 16] = [
    ("sv", "version of the rules"),
    ("st", "holds from then on"),
    ("se", "expires then"),
    ("sp", "permissions"),
    ("sip", "addresses that it may come from"),
    ("spr", "protocols"),
    ("sig", "the signature"),
    ("tn", "table"),
    ("si", "stored policy"),
    ("spk", "first PartitionKey"),
    ("srk", "first RowKey in it"),
    ("epk", "last PartitionKey"),
    ("erk", "last RowKey in it"),
    ("ss", "services"),
    ("srt", "kinds of resources"),
    ("ses", "encryption scope"),
];

/// The field in words.
pub(crate) fn field(name: &str, value: &str) -> Field {
    let known = NAMES.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
    let about = known.map_or("not a field of signatures", |(_, about)| about);
    let words = |letters: &[(char, &str)]| {
        let word = |letter: char| letters.iter().find(|(own, _)| *own == letter);
        let words: Vec<String> = value
            .chars()
            .map(|letter| word(letter).map_or(format!("{letter}?"), |(_, word)| (*word).to_owned()))
            .collect();
        format!("{about}: {}", words.join(", "))
    };
    let meaning = match known.map(|(own, _)| *own) {
        Some("sp") => words(&[
            ('r', "read"),
            ('a', "add"),
            ('u', "update"),
            ('d', "delete"),
            ('w', "write"),
            ('l', "list"),
            ('c', "create"),
        ]),
        Some("ss") => words(&[('t', "tables"), ('b', "blobs"), ('q', "queues"), ('f', "files")]),
        Some("srt") => words(&[('s', "service"), ('c', "tables"), ('o', "entities")]),
        _ => about.to_owned(),
    };
    let is_signature = known.is_some_and(|(own, _)| *own == "sig");
    let value = if is_signature { "…".to_owned() } else { value.to_owned() };
    Field { name: name.to_owned(), value, meaning }
}
