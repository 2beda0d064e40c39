//! XML of the service's settings: small documents read whole into a tree, and written in the
//! service's spelling.
//!
//! Promise: any bytes are a tree of bounded size and depth, or refused. A document type and
//! entities other than the five that XML itself has are refused, so that nothing is expanded or
//! fetched.

use crate::error::{INVALID_XML_DOCUMENT, WireError};
use crate::limits::{XML_ATTRIBUTES_MAX, XML_BYTES_MAX, XML_DEPTH_MAX};
use quick_xml::Reader;
use quick_xml::escape::partial_escape;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// An element. Names come without their prefix; attributes and comments are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// The text directly in it, entities resolved.
    pub text: String,
    /// The elements in it, in order.
    pub children: Vec<Element>,
}

impl Element {
    /// The first child of that name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child of that name, without blanks around it.
    pub fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim())
    }
}

/// Reads a document and returns its root element.
///
/// Errors: `InvalidXmlDocument` for whatever is wrong with it.
pub fn read(document: &[u8]) -> Result<Element, WireError> {
    if document.len() > XML_BYTES_MAX {
        return Err(INVALID_XML_DOCUMENT);
    }
    let text = std::str::from_utf8(document).map_err(|_| INVALID_XML_DOCUMENT)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.chars().all(is_allowed) {
        return Err(INVALID_XML_DOCUMENT);
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    reader.config_mut().check_comments = true;
    let mut tree = Tree::default();
    loop {
        match reader.read_event().map_err(|_| INVALID_XML_DOCUMENT)? {
            Event::Start(start) => tree.open(&start)?,
            Event::End(_) => tree.close()?,
            Event::Text(text) => tree.text(text.as_ref())?,
            Event::CData(text) => tree.text(text.as_ref())?,
            Event::GeneralRef(reference) => tree.text(&resolved(&reference)?)?,
            Event::Comment(_) => {}
            Event::Decl(_) if tree.is_untouched() => tree.declared = true,
            Event::Eof => return tree.finish(),
            Event::Decl(_) | Event::Empty(_) | Event::PI(_) | Event::DocType(_) => {
                return Err(INVALID_XML_DOCUMENT);
            }
        }
    }
}

/// Elements that are open, the innermost last, and the root once it is closed.
#[derive(Default)]
struct Tree {
    open: Vec<Element>,
    root: Option<Element>,
    declared: bool,
}

impl Tree {
    fn is_untouched(&self) -> bool {
        self.open.is_empty() && self.root.is_none() && !self.declared
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), WireError> {
        let mut attributes = start.attributes();
        let sound = attributes.by_ref().take(XML_ATTRIBUTES_MAX).all(|attribute| attribute.is_ok());
        let second_root = self.open.is_empty() && self.root.is_some();
        if !sound || attributes.next().is_some() || second_root || self.open.len() == XML_DEPTH_MAX
        {
            return Err(INVALID_XML_DOCUMENT);
        }
        let name = start.local_name().as_ref().to_owned();
        self.open.push(Element { name, ..Element::default() });
        Ok(())
    }

    /// The reader has checked that the name is that of the innermost element.
    fn close(&mut self) -> Result<(), WireError> {
        let element = self.open.pop().ok_or(INVALID_XML_DOCUMENT)?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), WireError> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(INVALID_XML_DOCUMENT),
        }
        Ok(())
    }

    fn finish(self) -> Result<Element, WireError> {
        let root = self.root.filter(|_| self.open.is_empty());
        root.ok_or(INVALID_XML_DOCUMENT)
    }
}

/// A character by its number, or one of the five that XML names.
fn resolved(reference: &BytesRef<'_>) -> Result<String, WireError> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| INVALID_XML_DOCUMENT)? {
        let allowed = is_allowed(character);
        return if allowed { Ok(character.to_string()) } else { Err(INVALID_XML_DOCUMENT) };
    }
    let character = match reference.as_ref() {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => return Err(INVALID_XML_DOCUMENT),
    };
    Ok(character.to_owned())
}

/// Whether XML 1.0 may hold the character.
fn is_allowed(character: char) -> bool {
    let control = character < ' ' && !matches!(character, '\t' | '\n' | '\r');
    !control && !matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// Writes a document in the service's spelling: no blanks between elements, `<Name />` for an
/// empty one.
#[derive(Debug)]
pub struct Writer(String);

impl Default for Writer {
    fn default() -> Writer {
        Writer(r#"<?xml version="1.0" encoding="utf-8"?>"#.to_owned())
    }
}

impl Writer {
    /// A document with its declaration and nothing else.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An element with what `inner` writes in it.
    pub fn element(&mut self, name: &str, inner: impl FnOnce(&mut Writer)) {
        let start = self.0.len();
        self.0.extend(["<", name, ">"]);
        let before = self.0.len();
        inner(self);
        if self.0.len() == before {
            self.0.truncate(start);
            self.0.extend(["<", name, " />"]);
        } else {
            self.0.extend(["</", name, ">"]);
        }
    }

    /// An element with a text in it.
    pub fn leaf(&mut self, name: &str, text: &str) {
        self.element(name, |writer| writer.text(text));
    }

    fn text(&mut self, text: &str) {
        let plain: String = text.chars().filter(|character| is_allowed(*character)).collect();
        self.0.push_str(&partial_escape(&plain));
    }

    /// The document.
    pub fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &str, text: &str) -> Element {
        Element { name: name.to_owned(), text: text.to_owned(), children: Vec::new() }
    }

    #[test]
    fn documents_as_clients_write_them() {
        let cors = |children| Element { children, ..leaf("Cors", "") };
        for text in [
            "<Cors />",
            "<Cors></Cors>",
            "\u{feff}<?xml version='1.0' encoding='utf-8'?>\n<Cors/>\n",
            "<!-- none --><Cors xmlns=\"urn:x\" xmlns:a='urn:y'/>",
            "<s:Cors xmlns:s='urn:x'></s:Cors>",
        ] {
            assert_eq!(read(text.as_bytes()), Ok(cors(vec![])), "{text}");
        }
        let rule = read(b"<Cors><A>1 &amp; &#x41;&#66;<![CDATA[<&]]></A><B/></Cors>");
        assert_eq!(rule, Ok(cors(vec![leaf("A", "1 & AB<&"), leaf("B", "")])));
        let rule = rule.expect("a document");
        assert_eq!(rule.child_text("B"), Some(""));
        assert_eq!(rule.child("C"), None);
    }

    #[test]
    fn documents_that_are_refused() {
        let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(read(deep(XML_DEPTH_MAX).as_bytes()).is_ok());
        let laughs = "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><l>&b;</l>";
        let file = "<!DOCTYPE l [<!ENTITY f SYSTEM \"file:///etc/passwd\">]><l>&f;</l>";
        let attributes = |count: usize| {
            let all: String = (0..count).map(|at| format!(" a{at}=''")).collect();
            format!("<a{all}/>")
        };
        assert!(read(attributes(XML_ATTRIBUTES_MAX).as_bytes()).is_ok());
        for text in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a/>text",
            "<a>&b;</a>",
            "<a>&#0;</a>",
            "<a>&#xd800;</a>",
            "<a>\u{1}</a>",
            "<a b='1' b='2'/>",
            "<a b/>",
            "<a b=1/>",
            "<a><?php ?></a>",
            "<a/><?xml version='1.0'?>",
            "<?xml version='1.0'?><?xml version='1.0'?><a/>",
            "<a>& b</a>",
            "<!-- -- --><a/>",
            laughs,
            file,
            "<!DOCTYPE a><a/>",
            &deep(XML_DEPTH_MAX + 1),
            &deep(9_000),
            &attributes(XML_ATTRIBUTES_MAX + 1),
            &attributes(100_000),
            &format!("<a>{}</a>", "x".repeat(XML_BYTES_MAX)),
        ] {
            let shown = text.get(..80).unwrap_or(text);
            assert_eq!(read(text.as_bytes()), Err(INVALID_XML_DOCUMENT), "{shown}");
        }
        assert_eq!(read(b"<a>\xff</a>"), Err(INVALID_XML_DOCUMENT));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::new();
        writer.element("Root", |writer| {
            writer.leaf("Text", "a < b & c > \u{1}d");
            writer.element("Inner", |_| {});
        });
        let text = writer.finish();
        assert_eq!(
            String::from_utf8_lossy(&text),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><Root><Text>a &lt; b &amp; c &gt; \
             d</Text><Inner /></Root>"
        );
        let root = read(&text).expect("a document");
        assert_eq!(root.children, [leaf("Text", "a < b & c > d"), leaf("Inner", "")]);
    }
}
