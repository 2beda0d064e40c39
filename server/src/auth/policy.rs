//! Stored access policies of a table: up to five named sets of start, expiry and permissions that
//! a shared access signature may refer to, and their XML.

use crate::auth::moment;
use crate::auth::permissions::{ENTITY_LETTERS, Letters};
use crate::error::{INVALID_XML_DOCUMENT, INVALID_XML_NODE_VALUE, WireError};
use crate::limits::{POLICIES_MAX, POLICY_ID_CHARS_MAX};
use crate::xml::{self, Element, Writer};
use tabulith::ids::TableId;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::value::DateTime;

/// A stored policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub id: String,
    /// What it says; none where that is nothing.
    pub terms: Option<Terms>,
}

/// What a policy says. A field that it leaves open is the signature's to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// From when on.
    pub start: Option<DateTime>,
    /// Until when.
    pub expiry: Option<DateTime>,
    /// What may be done.
    pub permissions: Option<Letters>,
}

/// A policy as a signature found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The table that has it: that table, not another one of its name.
    pub table: TableId,
    /// The policy.
    pub policy: Policy,
}

/// Whom to ask for stored policies.
pub trait Policies {
    /// The table's policy of that name as of now, if there are both.
    fn policy(
        &self,
        account: &AccountName,
        table: &TableName,
        id: &str,
    ) -> Result<Option<Stored>, WireError>;
}

/// For whoever has no tables: there are none.
#[derive(Clone, Copy, Debug)]
pub struct NoPolicies;

impl Policies for NoPolicies {
    fn policy(&self, _: &AccountName, _: &TableName, _: &str) -> Result<Option<Stored>, WireError> {
        Ok(None)
    }
}

/// Reads `SignedIdentifiers`. An empty body is none.
pub fn read(document: &[u8]) -> Result<Vec<Policy>, WireError> {
    if document.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let root = xml::read(document)?;
    let known = root.name == "SignedIdentifiers"
        && root.children.iter().all(|child| child.name == "SignedIdentifier");
    if !known || root.children.len() > POLICIES_MAX {
        return Err(INVALID_XML_DOCUMENT);
    }
    let policies: Vec<Policy> = root.children.iter().map(policy).collect::<Result<_, _>>()?;
    let twice = |(at, policy): (usize, &Policy)| policies[..at].iter().any(|p| p.id == policy.id);
    if policies.iter().enumerate().any(twice) {
        return Err(INVALID_XML_DOCUMENT);
    }
    Ok(policies)
}

fn policy(element: &Element) -> Result<Policy, WireError> {
    let id = element.child("Id").ok_or(INVALID_XML_DOCUMENT)?.text.clone();
    if !(1..=POLICY_ID_CHARS_MAX).contains(&id.chars().count()) {
        return Err(INVALID_XML_NODE_VALUE);
    }
    let terms = element.child("AccessPolicy").map(terms).transpose()?;
    Ok(Policy { id, terms: terms.filter(|terms| *terms != Terms::default()) })
}

fn terms(element: &Element) -> Result<Terms, WireError> {
    let text = |name| element.child_text(name).filter(|text| !text.is_empty());
    let moment =
        |name| text(name).map(|text| moment::parse(text).ok_or(INVALID_XML_NODE_VALUE)).transpose();
    let letters = |text| Letters::parse(text, ENTITY_LETTERS).ok_or(INVALID_XML_NODE_VALUE);
    Ok(Terms {
        start: moment("Start")?,
        expiry: moment("Expiry")?,
        permissions: text("Permission").map(letters).transpose()?,
    })
}

/// Writes `SignedIdentifiers`; this is also how policies are kept.
pub fn written(policies: &[Policy]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.element("SignedIdentifiers", |writer| {
        for policy in policies {
            writer.element("SignedIdentifier", |writer| {
                writer.leaf("Id", &policy.id);
                if let Some(terms) = &policy.terms {
                    writer.element("AccessPolicy", |writer| write_terms(writer, terms));
                }
            });
        }
    });
    writer.finish()
}

fn write_terms(writer: &mut Writer, terms: &Terms) {
    let moments = [("Start", terms.start), ("Expiry", terms.expiry)];
    for (name, moment) in moments {
        if let Some(moment) = moment {
            writer.leaf(name, &moment::text(moment));
        }
    }
    if let Some(permissions) = terms.permissions {
        writer.leaf("Permission", &permissions.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(identifiers: &str) -> String {
        format!("<?xml version='1.0'?>\n<SignedIdentifiers>{identifiers}</SignedIdentifiers>")
    }

    fn back(identifiers: &str) -> Result<String, WireError> {
        let text = written(&read(document(identifiers).as_bytes())?);
        let text = String::from_utf8(text).expect("text");
        assert_eq!(written(&read(text.as_bytes()).expect("what was written")), text.as_bytes());
        let (_, inner) = text.split_once("?>").expect("a declaration");
        Ok(inner.to_owned())
    }

    fn one(inner: &str) -> String {
        format!("<SignedIdentifier>{inner}</SignedIdentifier>")
    }

    #[test]
    fn policies_as_the_service_writes_them() {
        assert_eq!(read(b""), Ok(vec![]));
        assert_eq!(read(b" \n"), Ok(vec![]));
        assert_eq!(back("").as_deref(), Ok("<SignedIdentifiers />"));
        let given = one("<Id>policy1</Id><AccessPolicy><Start>2011-10-11</Start>\
             <Expiry>2020-10-12T00:00Z</Expiry><Permission>dura</Permission></AccessPolicy>");
        assert_eq!(
            back(&given).as_deref(),
            Ok("<SignedIdentifiers><SignedIdentifier><Id>policy1</Id><AccessPolicy>\
                <Start>2011-10-11T00:00:00.0000000Z</Start>\
                <Expiry>2020-10-12T00:00:00.0000000Z</Expiry><Permission>raud</Permission>\
                </AccessPolicy></SignedIdentifier></SignedIdentifiers>")
        );
        // What says nothing is as if it were left out.
        for (given, kept) in [
            ("<Id>a</Id>", "<Id>a</Id>"),
            ("<Id>a</Id><AccessPolicy/>", "<Id>a</Id>"),
            (
                "<Id>ü&amp;&lt;</Id><AccessPolicy><Start/><Expiry></Expiry><Permission/></AccessPolicy>",
                "<Id>ü&amp;&lt;</Id>",
            ),
        ] {
            let kept = format!("<SignedIdentifiers>{}</SignedIdentifiers>", one(kept));
            assert_eq!(back(&one(given)), Ok(kept));
        }
    }

    #[test]
    fn what_cannot_be_kept() {
        let many = |count: usize| -> String {
            (0..count).map(|at| one(&format!("<Id>{at}</Id>"))).collect()
        };
        let id = |chars: usize| one(&format!("<Id>{}</Id>", "ü".repeat(chars)));
        let terms = |text: &str| one(&format!("<Id>a</Id><AccessPolicy>{text}</AccessPolicy>"));
        assert!(back(&many(5)).is_ok() && back(&id(64)).is_ok());
        for (identifiers, error) in [
            (many(6), INVALID_XML_DOCUMENT),
            (many(1) + &many(1), INVALID_XML_DOCUMENT),
            (one(""), INVALID_XML_DOCUMENT),
            ("<Other/>".to_owned(), INVALID_XML_DOCUMENT),
            (id(0), INVALID_XML_NODE_VALUE),
            (id(65), INVALID_XML_NODE_VALUE),
            (terms("<Start>soon</Start>"), INVALID_XML_NODE_VALUE),
            (terms("<Expiry>2020-10-12T00:00</Expiry>"), INVALID_XML_NODE_VALUE),
            (terms("<Permission>rw</Permission>"), INVALID_XML_NODE_VALUE),
        ] {
            assert_eq!(back(&identifiers), Err(error), "{identifiers}");
        }
        assert_eq!(read(b"<Other/>"), Err(INVALID_XML_DOCUMENT));
        assert_eq!(read(b"<SignedIdentifiers>"), Err(INVALID_XML_DOCUMENT));
    }
}
