//! XML bodies: any bytes are stored policies or settings of the service, or refused; what is
//! written reads the same; and rules for browsers allow no origin that they do not name.
//!
//! Input: a document; what follows a line `===` is an origin, a verb and names of headers, each on
//! its line.

use crate::input::text;
use tabulith_server::auth::policy;
use tabulith_server::http::message::Response;
use tabulith_server::properties::cors::{Cors, Question};
use tabulith_server::properties::document;
use tabulith_server::properties::model::{CorsRule, Properties};
use tabulith_server::xml::{self, Element};

/// The bounds that docs/azure.md tells.
const POLICIES_MAX: usize = 5;
const POLICY_ID_CHARS_MAX: usize = 64;
const RULES_MAX: usize = 5;
const DEPTH_MAX: usize = 8;

/// Reads the input as each of the documents that there are.
pub fn documents(data: &[u8]) {
    let given = text(data);
    let (body, question) = given.split_once("\n===\n").unwrap_or((&given, ""));
    if let Ok(root) = xml::read(body.as_bytes()) {
        assert!(depth(&root) <= DEPTH_MAX, "a tree of {} floors", depth(&root));
    }
    if let Ok(policies) = policy::read(body.as_bytes()) {
        assert!(policies.len() <= POLICIES_MAX);
        let long = |id: &str| !(1..=POLICY_ID_CHARS_MAX).contains(&id.chars().count());
        assert!(!policies.iter().any(|policy| long(&policy.id)));
        let written = policy::written(&policies);
        let again = policy::read(&written);
        assert_eq!(again.as_ref(), Ok(&policies), "{}", text(&written));
    }
    let Ok(given) = document::read(body.as_bytes()) else { return };
    let properties = Properties::default().with(given);
    assert!(properties.cors.len() <= RULES_MAX);
    let written = document::write(&properties);
    let again = document::read(&written).map(|given| Properties::default().with(given));
    assert_eq!(again.as_ref(), Ok(&properties), "{}", text(&written));
    let mut lines = question.lines();
    let (origin, method) = (lines.next().unwrap_or_default(), lines.next().unwrap_or("GET"));
    let headers = lines.next();
    let asked = Question { origin, method, headers };
    if let Some(answer) = asked.answer(&properties.cors) {
        check(&properties.cors, origin, method, &answer);
    }
    let mut answer = Response::new(200);
    Cors::of(&properties.cors, method, Some(origin)).add_to(&mut answer);
    check(&properties.cors, origin, method, &answer);
}

fn depth(element: &Element) -> usize {
    1 + element.children.iter().map(depth).max().unwrap_or(0)
}

/// What the answer allows, some rule names.
fn check(rules: &[CorsRule], origin: &str, method: &str, answer: &Response) {
    let told = || format!("{origin:?} {method:?} under {rules:?}\n{answer}");
    let Some(allowed) = answer.get("Access-Control-Allow-Origin") else {
        assert!(answer.get("Access-Control-Allow-Credentials").is_none(), "{}", told());
        return;
    };
    let for_all = allowed == "*";
    assert!(for_all || allowed == origin && origin != "null", "{}", told());
    let named = rules.iter().any(|rule| {
        rule.allowed_methods.iter().any(|own| own == method)
            && rule.allowed_origins.iter().any(|own| own == allowed || names(own, allowed))
    });
    assert!(named, "{}", told());
    let credentials = answer.get("Access-Control-Allow-Credentials").is_some();
    assert!(!(for_all && credentials), "{}", told());
}

/// `http://*.example.com` names each host below that one.
fn names(own: &str, origin: &str) -> bool {
    let Some((start, end)) = own.split_once('*') else { return false };
    let (start, end) = (start.to_ascii_lowercase(), end.to_ascii_lowercase());
    let origin = origin.to_ascii_lowercase();
    origin.len() >= start.len() + end.len() && origin.starts_with(&start) && origin.ends_with(&end)
}
