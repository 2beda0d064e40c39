//! Rules for browsers: what a question of one is answered, and what other answers say to one.
//!
//! The first rule that fits origin and verb decides. A rule for `*` is for every origin and never
//! for credentials; an origin that a rule spells out is compared letter for letter, and one such as
//! `https://*.contoso.com` is for those of all subdomains, not for that of the host itself.

use crate::http::message::Response;
use crate::properties::model::CorsRule;

/// The word for every origin, header or the like.
const ANY: &str = "*";

/// What a page of no origin sends. No rule can name it: it is that of many pages at once.
const NO_ORIGIN: &str = "null";

/// Headers of an answer that the connection adds.
const OF_THE_CONNECTION: [&str; 2] = ["Content-Length", "Date"];

/// A rule that fits, and whether by name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fit<'a> {
    rule: &'a CorsRule,
    origin: &'a str,
}

impl Fit<'_> {
    fn write(&self, response: &mut Response) {
        response.header("Access-Control-Allow-Origin", self.origin.to_owned());
        if self.origin != ANY {
            response.header("Access-Control-Allow-Credentials", "true");
        }
    }
}

/// The first rule for `method` and `origin`. A request without an origin is fitted by rules for
/// every one.
fn fitting<'a>(rules: &'a [CorsRule], method: &str, origin: Option<&'a str>) -> Option<Fit<'a>> {
    let rules = rules.iter().filter(|rule| rule.allowed_methods.iter().any(|own| own == method));
    rules.into_iter().find_map(|rule| {
        let is_for_all = rule.allowed_origins.iter().any(|own| own == ANY);
        let names = |name: &str| {
            rule.allowed_origins.iter().any(|own| own == name || has_subdomain(own, name))
        };
        let named = || origin.filter(|origin| *origin != NO_ORIGIN && names(origin));
        let origin = if is_for_all { Some(ANY) } else { named() };
        origin.map(|origin| Fit { rule, origin })
    })
}

/// Whether `entry` is for the subdomains of a host, and `origin` is that of one: in the place of
/// the star it has labels, and nothing that could be more of an address.
fn has_subdomain(entry: &str, origin: &str) -> bool {
    let Some((scheme, host)) = entry.split_once("://*.") else { return false };
    let labels = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    let labels = labels.and_then(|rest| rest.strip_suffix(host)?.strip_suffix('.'));
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.bytes().all(is_plain)
    };
    !host.is_empty() && labels.is_some_and(|labels| labels.split('.').all(is_label))
}

/// What a browser asks before it sends a request for a page.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Where the page is from.
    pub origin: &'a str,
    /// The verb of the request to come.
    pub method: &'a str,
    /// The names of headers that it will have, between commas.
    pub headers: Option<&'a str>,
}

impl Question<'_> {
    /// The answer, if a rule allows the request. The first rule that fits decides: where it lacks a
    /// header, later rules are not asked.
    pub fn answer(&self, rules: &[CorsRule]) -> Option<Response> {
        let fit = fitting(rules, self.method, Some(self.origin))?;
        let headers = self.headers.unwrap_or_default().split(',').map(str::trim);
        let mut headers = headers.filter(|name| !name.is_empty());
        if !headers.all(|name| matches(&fit.rule.allowed_headers, name)) {
            return None;
        }
        let mut response = Response::new(200);
        fit.write(&mut response);
        response.header("Access-Control-Allow-Methods", self.method.to_owned());
        if let Some(headers) = self.headers {
            response.header("Access-Control-Allow-Headers", headers.to_owned());
        }
        response.header("Access-Control-Max-Age", fit.rule.max_age_seconds.to_string());
        Some(response)
    }
}

/// Whether a list of headers has `name`: as it is, by its start, or by `*`.
fn matches(list: &[String], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start)),
        None => entry.eq_ignore_ascii_case(name),
    })
}

/// What the answer to a request says to browsers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    varies: bool,
    allowed: Option<(String, Vec<String>)>,
}

impl Cors {
    /// Of a request of `method`, sent for a page of `origin` if for one.
    pub fn of(rules: &[CorsRule], method: &str, origin: Option<&str>) -> Cors {
        let fit = fitting(rules, method, origin);
        let for_all = fit.as_ref().is_some_and(|fit| fit.origin == ANY);
        let is_cached = matches!(method, "GET" | "HEAD");
        Cors {
            // Another origin would get another answer.
            varies: is_cached && !rules.is_empty() && !for_all,
            allowed: fit.map(|fit| (fit.origin.to_owned(), fit.rule.exposed_headers.clone())),
        }
    }

    /// Adds it to the answer, which has its other headers already: of those a rule exposes, the
    /// names are listed.
    pub fn add_to(&self, response: &mut Response) {
        if let Some((origin, exposed)) = &self.allowed {
            let own = response.headers.iter().map(|(name, _)| *name);
            let names: Vec<&str> =
                own.chain(OF_THE_CONNECTION).filter(|name| matches(exposed, name)).collect();
            let names = names.join(",");
            response.header("Access-Control-Allow-Origin", origin.clone());
            if !names.is_empty() {
                response.header("Access-Control-Expose-Headers", names);
            }
            if origin != ANY {
                response.header("Access-Control-Allow-Credentials", "true");
            }
        }
        if self.varies {
            response.header("Vary", "Origin");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }

    fn rule(origins: &str, methods: &str, headers: &str, exposed: &str, age: u32) -> CorsRule {
        CorsRule {
            allowed_origins: list(origins),
            allowed_methods: list(methods),
            allowed_headers: list(headers),
            exposed_headers: list(exposed),
            max_age_seconds: age,
        }
    }

    fn answer(
        rules: &[CorsRule],
        origin: &str,
        method: &str,
        headers: Option<&str>,
    ) -> Option<String> {
        let response = Question { origin, method, headers }.answer(rules)?;
        Some(response.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect())
    }

    #[test]
    fn questions() {
        let rules = [
            rule("http://a,http://b", "GET,PUT", "x-ms-*,accept", "", 5),
            rule("*", "GET", "*", "", 7),
        ];
        assert_eq!(
            answer(&rules, "http://b", "PUT", Some("X-MS-Date, Accept")).as_deref(),
            Some(
                "Access-Control-Allow-Origin: http://b\nAccess-Control-Allow-Credentials: true\n\
                 Access-Control-Allow-Methods: PUT\n\
                 Access-Control-Allow-Headers: X-MS-Date, Accept\nAccess-Control-Max-Age: 5\n"
            )
        );
        assert_eq!(
            answer(&rules, "http://c", "GET", None).as_deref(),
            Some(
                "Access-Control-Allow-Origin: *\nAccess-Control-Allow-Methods: GET\n\
                 Access-Control-Max-Age: 7\n"
            )
        );
        assert!(answer(&rules, "http://c", "GET", Some("any,thing")).is_some());
        // The first rule that fits decides, though the second would do.
        assert_eq!(answer(&rules, "http://a", "GET", Some("any")), None);
        for (origin, method) in [
            ("http://c", "PUT"),
            ("HTTP://a", "PUT"),
            ("http://a/", "PUT"),
            ("http://a", "put"),
            ("", "PUT"),
        ] {
            assert_eq!(answer(&rules, origin, method, None), None, "{origin} {method}");
        }
        assert_eq!(answer(&[rule("null", "GET", "*", "", 1)], "null", "GET", None), None);
        assert_eq!(answer(&[], "http://a", "GET", None), None);
    }

    /// Azurite #1762: such an entry was kept, and fitted no origin.
    #[test]
    fn origins_of_subdomains() {
        let rules = [rule("https://*.contoso.com,http://*.b:81", "GET", "", "", 5)];
        for origin in [
            "https://app.contoso.com",
            "https://a-1.b_2.contoso.com",
            "https://www.contoso.com.contoso.com",
            "http://a.b:81",
        ] {
            let expected = (true, Some(origin.to_owned()), false);
            assert_eq!(said(&rules, "GET", Some(origin)), expected);
            let text = answer(&rules, origin, "GET", None).expect(origin);
            let own = format!(
                "Access-Control-Allow-Origin: {origin}\nAccess-Control-Allow-Credentials: true\n"
            );
            assert!(text.starts_with(&own), "{text}");
        }
        for origin in [
            "https://contoso.com",
            "https://.contoso.com",
            "https://evilcontoso.com",
            "https://a..contoso.com",
            "http://app.contoso.com",
            "https://app.contoso.com:444",
            "https://app.contoso.com.evil.com",
            "https://APP.CONTOSO.COM",
            "https://evil.com/.contoso.com",
            "https://evil.com:1@a.contoso.com",
            "https://evil.com#.contoso.com",
            "xhttps://app.contoso.com",
            "app.contoso.com",
            "http://a.b",
            "null",
            "",
        ] {
            assert_eq!(answer(&rules, origin, "GET", None), None, "{origin}");
            assert_eq!(said(&rules, "GET", Some(origin)), (true, None, false), "{origin}");
        }
        // A star elsewhere is no more than a letter.
        for entry in ["https://*", "https://*.", "*.contoso.com", "https://a*.contoso.com"] {
            let rules = [rule(entry, "GET", "", "", 5)];
            for origin in ["https://app.contoso.com", "https://app.", "app.contoso.com"] {
                assert_eq!(answer(&rules, origin, "GET", None), None, "{entry} {origin}");
            }
        }
    }

    fn said(
        rules: &[CorsRule],
        method: &str,
        origin: Option<&str>,
    ) -> (bool, Option<String>, bool) {
        let mut response = Response::new(200);
        response.header("ETag", "x");
        Cors::of(rules, method, origin).add_to(&mut response);
        let get = |name: &str| response.get(name).map(str::to_owned);
        let (vary, exposed) = (get("Vary"), get("Access-Control-Expose-Headers"));
        assert!(vary.as_deref().is_none_or(|vary| vary == "Origin"));
        assert!(exposed.as_deref().is_none_or(|exposed| exposed == "ETag"));
        (vary.is_some(), get("Access-Control-Allow-Origin"), exposed.is_some())
    }

    /// The service's own table of what varies.
    #[test]
    fn answers_to_other_requests() {
        let own = || rule("http://a", "GET,PUT", "", "etag", 1);
        let all = || rule("*", "GET,PUT", "", "etag", 1);
        let star = || Some("*".to_owned());
        let (a, b) = (Some("http://a"), Some("http://b"));
        assert_eq!(said(&[], "GET", None), (false, None, false));
        assert_eq!(said(&[own()], "GET", None), (true, None, false));
        assert_eq!(said(&[all()], "GET", None), (false, star(), true));
        assert_eq!(said(&[], "GET", a), (false, None, false));
        assert_eq!(said(&[own()], "GET", a), (true, a.map(str::to_owned), true));
        assert_eq!(said(&[own()], "GET", b), (true, None, false));
        assert_eq!(said(&[all()], "GET", a), (false, star(), true));
        assert_eq!(said(&[own(), all()], "GET", a), (true, a.map(str::to_owned), true));
        assert_eq!(said(&[own(), all()], "GET", b), (false, star(), true));
        // Only answers that may be cached say that they vary.
        assert_eq!(said(&[own()], "PUT", b), (false, None, false));
        assert_eq!(said(&[own()], "PUT", a), (false, a.map(str::to_owned), true));
        assert_eq!(said(&[own()], "DELETE", a), (false, None, false));
    }

    #[test]
    fn what_is_exposed_is_there() {
        let exposed = |list: &str| {
            let mut response = Response::new(200);
            response.header("x-ms-version", "1");
            response.header("ETag", "x");
            Cors::of(&[rule("*", "GET", "", list, 1)], "GET", None).add_to(&mut response);
            response.get("Access-Control-Expose-Headers").map(str::to_owned)
        };
        assert_eq!(exposed("X-MS-*").as_deref(), Some("x-ms-version"));
        assert_eq!(exposed("*").as_deref(), Some("x-ms-version,ETag,Content-Length,Date"));
        assert_eq!(exposed("date,none,etag").as_deref(), Some("ETag,Date"));
        assert_eq!(exposed(""), None);
        let mut named = Response::new(200);
        Cors::of(&[rule("http://a", "GET", "", "", 1)], "GET", Some("http://a")).add_to(&mut named);
        assert_eq!(named.get("Access-Control-Allow-Credentials"), Some("true"));
    }

    /// Every way of 2,000 to combine rules, verbs and origins, against the words of the service.
    #[test]
    #[allow(clippy::print_stdout, reason = "how many cases there were")]
    fn the_matrix() {
        let lists = ["", "*", "http://a", "http://b", "http://a,http://b", "http://b,*", "null"];
        let methods = ["", "GET", "GET,PUT"];
        let mut cases = 0;
        for (first, second) in lists.iter().flat_map(|a| lists.iter().map(move |b| (*a, *b))) {
            for (one, two) in methods.iter().flat_map(|a| methods.iter().map(move |b| (*a, *b))) {
                let rules = [rule(first, one, "", "etag", 1), rule(second, two, "", "etag", 1)];
                for origin in [None, Some("http://a"), Some("http://c"), Some("null")] {
                    for method in ["GET", "PUT"] {
                        let mut expected = None;
                        for rule in &rules {
                            let has = |name: &str| rule.allowed_origins.contains(&name.to_owned());
                            if expected.is_some()
                                || !rule.allowed_methods.contains(&method.to_owned())
                            {
                                continue;
                            }
                            if has("*") {
                                expected = Some("*".to_owned());
                            } else if let Some(own) =
                                origin.filter(|own| *own != "null" && has(own))
                            {
                                expected = Some(own.to_owned());
                            }
                        }
                        let varies = method == "GET" && expected.as_deref() != Some("*");
                        let exposed = expected.is_some();
                        assert_eq!(said(&rules, method, origin), (varies, expected, exposed));
                        cases += 1;
                    }
                }
            }
        }
        println!("{cases} combinations of rules, verbs and origins");
        assert!(cases >= 2000);
    }
}
