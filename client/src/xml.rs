//! XML of the service's settings: small documents as a tree, and texts escaped in them.

use quick_xml::Reader;
use quick_xml::escape::partial_escape;
use quick_xml::events::{BytesRef, Event};

/// Most elements inside one another.
const DEPTH_MAX: usize = 16;

/// An element. Names come without their prefix; attributes and comments are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    /// Its name.
    pub(crate) name: String,
    /// The text directly in it.
    pub(crate) text: String,
    /// The elements in it, in order.
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The first child of that name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child of that name, without blanks around it; `None` where it is
    /// empty.
    pub(crate) fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim()).filter(|text| !text.is_empty())
    }
}

/// The root element of a document; `None` where it is no such document.
pub(crate) fn read(document: &[u8]) -> Option<Element> {
    let text = std::str::from_utf8(document).ok()?;
    let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) if open.len() < DEPTH_MAX => {
                let name = start.local_name().as_ref().to_owned();
                open.push(Element { name, ..Element::default() });
            }
            Event::End(_) => {
                let element = open.pop()?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => return Some(element),
                }
            }
            Event::Text(text) => add(&mut open, text.as_ref()),
            Event::CData(text) => add(&mut open, text.as_ref()),
            Event::GeneralRef(reference) => add(&mut open, &resolved(&reference)?),
            Event::Comment(_) | Event::Decl(_) => {}
            Event::Start(_) | Event::Empty(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => {
                return None;
            }
        }
    }
}

fn add(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// A character by its number, or one of the five that XML names.
fn resolved(reference: &BytesRef<'_>) -> Option<String> {
    if let Some(character) = reference.resolve_char_ref().ok()? {
        return Some(character.to_string());
    }
    let character = match reference.as_ref() {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => return None,
    };
    Some(character.to_owned())
}

/// Appends an element with a text in it.
pub(crate) fn leaf(out: &mut String, name: &str, text: &str) {
    out.extend(["<", name, ">", &partial_escape(text), "</", name, ">"]);
}

/// Appends an element with what `inner` writes in it.
pub(crate) fn element(out: &mut String, name: &str, inner: impl FnOnce(&mut String)) {
    out.extend(["<", name, ">"]);
    inner(out);
    out.extend(["</", name, ">"]);
}

/// The beginning of a document.
pub(crate) const DECLARATION: &str = r#"<?xml version="1.0" encoding="utf-8"?>"#;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_a_tree() {
        let text = "\u{feff}<?xml version='1.0'?><m:a xmlns:m='x'><b>1 &lt; 2&#33;</b><c/></m:a>";
        let root = read(text.as_bytes()).unwrap();
        assert_eq!((root.name.as_str(), root.child_text("b")), ("a", Some("1 < 2!")));
        assert_eq!((root.child("c").is_some(), root.child_text("c")), (true, None));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = DECLARATION.to_owned();
        element(&mut out, "a", |out| leaf(out, "b", "<&>'\""));
        assert_eq!(read(out.as_bytes()).unwrap().child_text("b"), Some("<&>'\""));
    }

    #[test]
    fn bombs_and_broken_texts_are_refused() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        for text in ["", "<a>", "<a></b>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", &deep] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
