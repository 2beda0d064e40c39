//! Shared access signatures as rows ask for them: right, or bent after they were signed.

use crate::expand::{Scope, percent};
use crate::sign::signature;
use crate::target::{Key, Target};

/// The parameters in the order in which they are sent.
const ORDER: [&str; 18] = [
    "sv",
    "ss",
    "srt",
    "tn",
    "sp",
    "st",
    "se",
    "si",
    "sip",
    "spr",
    "spk",
    "srk",
    "epk",
    "erk",
    "ses",
    "skoid",
    "sktid",
    "api-version",
];

/// The query of a signature.
///
/// `kind` is `sas` for a table's and `account` for an account's; `words` set its fields
/// (`sp=r`, nothing after `=` leaves a default out), change them once it is signed (`~sp=raud`,
/// `~sp` takes it away) or add one more (`+sp=raud`). `key=second` and `key=wrong` sign with
/// another key, `name=other` for another account. Values may be percent-encoded.
pub fn query(kind: &str, words: &str, target: &Target, scope: &Scope) -> Result<String, String> {
    let mut fields = Fields::default();
    let words: Vec<&str> = words.split_whitespace().collect();
    let named = |name: &str| words.iter().any(|word| word.starts_with(&format!("{name}=")));
    fields.set("sv", "2019-02-02".to_owned());
    if kind == "sas" {
        fields.set("tn", scope.fill("${table}")?);
    } else {
        fields.set("ss", "t".to_owned());
        fields.set("srt", "sco".to_owned());
    }
    if !named("si") {
        fields.set("sp", if kind == "sas" { "raud" } else { "rwdlacu" }.to_owned());
        fields.set("se", scope.fill("${iso +1h}")?);
    }
    let (mut key, mut account) = (target.key.clone(), target.account.as_str());
    for word in words.iter().filter(|word| !word.starts_with(['~', '+'])) {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} sets nothing"))?;
        match (name, value) {
            ("key", "second") => key = target.second_key.clone().unwrap_or(key),
            ("key", _) => key = Key::of_bytes(vec![7; 64]),
            ("name", name) => account = name,
            (name, value) => fields.set(name, decoded(value)),
        }
    }
    let text =
        if kind == "sas" { fields.table_text(account) } else { fields.account_text(account) };
    fields.set("sig", signature(&key, &text));
    let mut extra = String::new();
    for word in &words {
        if let Some(added) = word.strip_prefix('+') {
            let (name, value) = added.split_once('=').unwrap_or((added, ""));
            extra.push_str(&format!("&{name}={}", percent(&decoded(value))));
        } else if let Some(changed) = word.strip_prefix('~') {
            let (name, value) = changed.split_once('=').unwrap_or((changed, ""));
            if (name, value) == ("sig", "bent") {
                fields.bend();
            } else {
                fields.set(name, decoded(value));
            }
        }
    }
    Ok(format!("{}{extra}", fields.query()))
}

#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Changes the first character of the signature.
    fn bend(&mut self) {
        let sig = self.get("sig");
        let first = if sig.starts_with('A') { "B" } else { "A" };
        let bent = format!("{first}{}", sig.get(1..).unwrap_or_default());
        self.set("sig", bent);
    }

    fn table_text(&self, account: &str) -> String {
        let version = self.get("sv");
        let table = self.get("tn").to_lowercase();
        let service = if version >= "2015-02-21" { "/table" } else { "" };
        let resource = format!("{service}/{account}/{table}");
        let mut lines = vec![self.get("sp"), self.get("st"), self.get("se"), &resource];
        lines.push(self.get("si"));
        if version >= "2015-04-05" {
            lines.extend([self.get("sip"), self.get("spr")]);
        }
        lines.push(version);
        lines.extend(["spk", "srk", "epk", "erk"].map(|name| self.get(name)));
        lines.join("\n")
    }

    fn account_text(&self, account: &str) -> String {
        let version = self.get("sv");
        let mut lines = vec![account];
        lines.extend(["sp", "ss", "srt", "st", "se", "sip", "spr"].map(|name| self.get(name)));
        lines.push(version);
        if version >= "2020-12-06" {
            lines.push(self.get("ses"));
        }
        format!("{}\n", lines.join("\n"))
    }

    fn query(&self) -> String {
        let rank = |name: &str| ORDER.iter().position(|known| *known == name);
        let mut fields: Vec<_> = self.0.iter().collect();
        fields.sort_by_key(|(name, _)| rank(name).unwrap_or(ORDER.len()));
        let pairs = fields.iter().map(|(name, value)| format!("{name}={}", percent(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// `text` with its percent-encoding undone; what is no encoding stays.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::query;
    use crate::expand::Scope;
    use crate::target::{Key, Target};

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    fn made(kind: &str, words: &str) -> String {
        let key = Key::of_base64(KEY).expect("a key");
        let target = Target::new("http://127.0.0.1:1/devstoreaccount1", None, key);
        let mut scope = Scope::default();
        scope.set("table", "MyTable");
        query(kind, words, &target.expect("a target"), &scope).expect("a query")
    }

    #[track_caller]
    fn check(kind: &str, words: &str, signature: &str) {
        let made = made(kind, words);
        let end = format!("&sig={}", crate::expand::percent(signature));
        assert!(made.ends_with(&end), "{made}");
    }

    #[test]
    fn signatures_that_sdks_make() {
        let range = "spk=pk1 srk=rk1 epk=pk1 erk=rk9 se=2040-01-01T01:01:00Z";
        check("sas", range, "ct6GLhXjszdW9zSHZcYyExvLNsZe5zVvUr70ntCi1O4=");
        check("sas", "si=policy1", "7fk7F8vYktbK9ITerPezirtr6NZNSL8zDLE5ET8adv8=");
        let python = "sp=rwdlacu srt=soc se=2040-01-01T01:01:00Z";
        check("account", python, "ZZoTxC+nWGyOQC9vQG/pKWZwfmuhBUGLb/J34m3USxg=");
        let newer = "sv=2021-06-08 spr=https sp=rwdlacu srt=sco se=2040-01-01T01:01:00Z";
        check("account", newer, "+LCGB4jNmkivbPOMvQmvHv6LoiC3zIKAE4HmsBO0zBQ=");
    }

    #[test]
    fn what_is_bent_is_bent_after_signing() {
        let words = "se=2040-01-01";
        let plain = made("sas", words);
        assert_eq!(made("sas", &format!("{words} ~sp=r")), plain.replace("sp=raud", "sp=r"));
        assert!(made("sas", &format!("{words} ~sp")).find("sp=").is_none());
        assert_eq!(made("sas", &format!("{words} +sp=r")), format!("{plain}&sp=r"));
        assert_ne!(made("sas", &format!("{words} ~sig=bent")), plain);
    }
}
