//! What commands connect to: the place that flags, a profile or the variables of `az` name, and
//! whose certificates are believed.
//!
//! Nothing here echoes a connection string or a key.

#![allow(
    clippy::disallowed_methods,
    reason = "certificates, keys and profiles are the user's files"
)]

use crate::args::target::TargetArgs;
use crate::exit::{Exit, Failure};
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tabulith_client::connection::DEVELOPMENT_ACCOUNT;
use tabulith_client::{Connection, Trust};

/// Names a profile for commands whose flags name no place.
const PROFILE_VARIABLE: &str = "TABULITH_PROFILE";

const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";

/// Where the tables of a command are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Behind a server, whose certificate may be one of a file.
    Server(Box<Connection>, Option<PathBuf>),
    /// In a folder, under an account.
    Folder(PathBuf, String),
}

/// The place that flags and this process's environment and files name.
pub(crate) fn of_process(flags: &TargetArgs) -> Result<Place> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    find(flags, variable, |path| std::fs::read_to_string(path))
}

/// Whether anything names a place, so that it is not the development account for want of another.
pub(crate) fn is_named(flags: &TargetArgs) -> bool {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Words::of_flags(flags).name_a_place()
        || flags.profile.is_some()
        || variable(PROFILE_VARIABLE).is_some()
        || Words::of_environment(&variable).is_some()
}

/// The place that flags name, together with a profile where they name one; or else the profile of
/// the variable, or the environment, or the profile `default`; the development account on this
/// machine where nothing does. `read` gives the text of a file.
fn find(
    flags: &TargetArgs,
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&Path) -> std::io::Result<String>,
) -> Result<Place> {
    let words = Words::of_flags(flags);
    let profile = |name: &str| -> Result<Words> {
        let homeless = || format!("--profile {name}: neither XDG_CONFIG_HOME nor HOME is set");
        let (path, text) = profiles(&variable, &read).ok_or_else(|| Failure::usage(homeless()))?;
        let text = text.with_context(|| format!("--profile {name}: {}", path.display()))?;
        Words::of_profile(&text, name, &path)?.ok_or_else(|| {
            let path = path.display();
            Failure::new(Exit::NotFound, format!("{path} has no profile [{name}]")).into()
        })
    };
    if let Some(name) = &flags.profile {
        return words.beside(profile(name)?, name)?.place(&|_| None, &read);
    }
    if words.name_a_place() {
        return words.place(&variable, &read);
    }
    let ca = words.ca;
    let place = match variable(PROFILE_VARIABLE) {
        Some(name) => profile(&name)?.place(&|_| None, &read)?,
        None => match Words::of_environment(&variable) {
            Some(words) => words.place(&variable, &read)?,
            None => match profiles(&variable, &read) {
                Some((path, Ok(text))) => match Words::of_profile(&text, "default", &path)? {
                    Some(words) => words.place(&|_| None, &read)?,
                    None => development()?,
                },
                // One that cannot be read may name another place: nothing is written elsewhere.
                Some((path, Err(error))) if !is_absence(&error) => {
                    return Err(error).with_context(|| format!("reading {}", path.display()));
                }
                Some((_, Err(_))) | None => development()?,
            },
        },
    };
    Ok(match (place, ca) {
        (Place::Server(connection, _), Some(ca)) => Place::Server(connection, Some(ca)),
        (place, _) => place,
    })
}

/// Parses a connection string, or an address with a shared access signature.
pub(crate) fn parse(text: &str) -> Result<Connection> {
    Ok(Connection::parse(text).map_err(|error| Failure::usage(error.to_string()))?)
}

/// Those whom the machine trusts, and the certificates of a file.
pub(crate) fn trust(ca: Option<&Path>) -> Result<Trust> {
    let Some(path) = ca else { return Ok(Trust::machine()) };
    let named = || format!("--ca {}", path.display());
    let pem = std::fs::read(path).with_context(named)?;
    let trust = Trust::machine().with_pem(&pem);
    Ok(trust.map_err(|error| Failure::usage(format!("{}: {error}", named())))?)
}

fn development() -> Result<Place> {
    Ok(Place::Server(Box::new(parse("UseDevelopmentStorage=true")?), None))
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The file of profiles, and its text. None where nothing says where it would be.
fn profiles(
    variable: &impl Fn(&str) -> Option<String>,
    read: &impl Fn(&Path) -> std::io::Result<String>,
) -> Option<(PathBuf, std::io::Result<String>)> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    let path = folder.join("tabulith").join("profiles.toml");
    let text = read(&path);
    Some((path, text))
}

/// What flags, a profile or the environment say of a place.
#[derive(Clone, Default)]
struct Words {
    connection_string: Option<String>,
    account_name: Option<String>,
    account_key: Option<String>,
    key_file: Option<PathBuf>,
    sas_token: Option<String>,
    table_endpoint: Option<String>,
    ca: Option<PathBuf>,
    data_dir: Option<PathBuf>,
}

impl Words {
    fn of_flags(flags: &TargetArgs) -> Words {
        let flags = flags.clone();
        Words {
            connection_string: flags.connection_string,
            account_name: flags.account_name,
            account_key: flags.account_key,
            key_file: flags.key_file,
            sas_token: flags.sas_token,
            table_endpoint: flags.table_endpoint,
            ca: flags.ca,
            data_dir: flags.data_dir,
        }
    }

    fn of_environment(variable: &impl Fn(&str) -> Option<String>) -> Option<Words> {
        let words = Words {
            connection_string: variable("AZURE_STORAGE_CONNECTION_STRING"),
            account_name: variable("AZURE_STORAGE_ACCOUNT"),
            ..Words::default()
        };
        words.name_a_place().then_some(words)
    }

    /// The profile of that name, if there is one.
    fn of_profile(text: &str, name: &str, path: &Path) -> Result<Option<Words>> {
        let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        // The parser's own message would show the line, and with it what may be a key.
        let all: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error
                .span()
                .map_or(0, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            wrong(format!("line {line}: {}", error.message()))
        })?;
        let Some(profile) = all.get(name) else { return Ok(None) };
        let profile = profile.as_table().ok_or_else(|| {
            wrong(format!("`{name}` is no section: a profile begins with [{name}]"))
        })?;
        let mut words = Words::default();
        let folder = path.parent().unwrap_or(Path::new(""));
        for (key, value) in profile {
            let value = value.as_str();
            let value = value.ok_or_else(|| wrong(format!("[{name}] {key}: a text is needed")))?;
            let text = || Some(value.to_owned());
            // Files are named from where the profile lies, since it is read from anywhere.
            let file = || Some(folder.join(value));
            match key.as_str() {
                "connection-string" => words.connection_string = text(),
                "account-name" => words.account_name = text(),
                "account-key" => words.account_key = text(),
                "sas-token" => words.sas_token = text(),
                "table-endpoint" => words.table_endpoint = text(),
                "key-file" => words.key_file = file(),
                "ca" => words.ca = file(),
                "data-dir" => words.data_dir = file(),
                _ => return Err(wrong(format!("[{name}] {key}: no such setting")).into()),
            }
        }
        Ok(Some(words))
    }

    /// What flags say, and what they do not say as the profile they name has it. What proves who
    /// asks is taken from one of the two.
    fn beside(mut self, mut profile: Words, name: &str) -> Result<Words> {
        let ca = self.ca.take().or(profile.ca.take());
        if !self.name_a_place() {
            return Ok(Words { ca, ..profile });
        }
        if self.connection_string.is_some() {
            return Ok(Words { ca, ..self });
        }
        let account_name = self.account_name.take().or(profile.account_name.take());
        if self.data_dir.is_some() {
            return Ok(Words { account_name, ..self });
        }
        if profile.connection_string.is_some() {
            return Err(Failure::usage(format!(
                "--profile {name} is a connection string, which says all: no flag says a part of it"
            ))
            .into());
        }
        let has_key = self.key_file.is_some() || self.account_key.is_some();
        let proves = has_key || self.sas_token.is_some();
        let is_server = proves || self.table_endpoint.is_some();
        let table_endpoint = self.table_endpoint.take().or(profile.table_endpoint.take());
        let data_dir = profile.data_dir.take().filter(|_| !is_server);
        let rest = if proves { self } else { profile };
        Ok(Words { account_name, table_endpoint, ca, data_dir, ..rest })
    }

    fn name_a_place(&self) -> bool {
        let texts = [
            &self.connection_string,
            &self.account_name,
            &self.account_key,
            &self.sas_token,
            &self.table_endpoint,
        ];
        texts.into_iter().any(Option::is_some) || self.key_file.is_some() || self.data_dir.is_some()
    }

    /// The place; what is not said of an account is looked for in the environment.
    fn place(
        self,
        variable: &impl Fn(&str) -> Option<String>,
        read: &impl Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Place> {
        if let Some(text) = &self.connection_string {
            return Ok(Place::Server(Box::new(parse(text)?), self.ca));
        }
        if let Some(dir) = self.data_dir {
            let account = self.account_name.unwrap_or_else(|| DEVELOPMENT_ACCOUNT.to_owned());
            return Ok(Place::Folder(dir, account));
        }
        let account = self.account_name.or_else(|| variable("AZURE_STORAGE_ACCOUNT"));
        let account = account.unwrap_or_else(|| DEVELOPMENT_ACCOUNT.to_owned());
        let key = match (&self.key_file, self.account_key) {
            (Some(path), _) => {
                let named = || format!("--key-file {}", path.display());
                Some(read(path).with_context(named)?.trim().to_owned())
            }
            (None, key) => key,
        };
        let (key, token) = match (key, self.sas_token) {
            (None, None) => (variable("AZURE_STORAGE_KEY"), variable("AZURE_STORAGE_SAS_TOKEN")),
            given => given,
        };
        let endpoint = self.table_endpoint.or_else(|| variable("AZURE_STORAGE_SERVICE_ENDPOINT"));
        let is_development = account == DEVELOPMENT_ACCOUNT;
        let endpoint = endpoint.or_else(|| is_development.then(|| DEVELOPMENT_ENDPOINT.to_owned()));
        let mut text = match (key, token) {
            (Some(key), _) => format!("AccountName={account};AccountKey={key}"),
            (None, Some(token)) => format!("AccountName={account};SharedAccessSignature={token}"),
            (None, None) if is_development => {
                let key = tabulith_client::connection::DEVELOPMENT_KEY;
                format!("AccountName={account};AccountKey={key}")
            }
            (None, None) => {
                return Err(Failure::usage(format!(
                    "the account {account} needs a key or a signature: --key-file, --sas-token, \
                     AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN"
                ))
                .into());
            }
        };
        if let Some(endpoint) = endpoint {
            text.push_str(&format!(";TableEndpoint={endpoint}"));
        }
        Ok(Place::Server(Box::new(parse(&text)?), self.ca))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::exit::of;

    const PROFILES: &str = "[default]\ntable-endpoint = 'http://d/devstoreaccount1'\n\
        [shop]\naccount-name = 'shop'\nkey-file = 'shop.key'\nca = '/pem'\n\
        [files]\ndata-dir = 'data'\n\
        [odd]\ncolour = 'red'\n[number]\naccount-name = 7\n";

    /// The place, of a command with those flags and variables, where that file of profiles is.
    fn found(flags: TargetArgs, set: &[(&str, &str)], profiles: Option<&str>) -> Result<Place> {
        let variable = |name: &str| {
            let home = (name == "HOME").then(|| "/home".to_owned());
            let of_set = set.iter().find(|(key, _)| *key == name);
            of_set.map(|(_, value)| (*value).to_owned()).or(home)
        };
        let read = |path: &Path| match path.to_str() {
            Some("/home/.config/tabulith/profiles.toml") => {
                profiles.map(str::to_owned).ok_or(ErrorKind::NotFound.into())
            }
            Some("/home/.config/tabulith/shop.key") => Ok("aGk=\n".to_owned()),
            _ => Err(ErrorKind::NotFound.into()),
        };
        find(&flags, variable, read)
    }

    fn server(place: Result<Place>) -> Connection {
        match place.unwrap() {
            Place::Server(connection, _) => *connection,
            Place::Folder(..) => panic!("a folder"),
        }
    }

    #[test]
    fn the_environment_is_read_in_the_order_of_az() {
        let find = |set: &[(&str, &str)]| found(TargetArgs::default(), set, None);
        assert_eq!(server(find(&[])).account, DEVELOPMENT_ACCOUNT);
        let string = "AccountName=abc;AccountKey=aGk=;TableEndpoint=http://h/abc";
        let both =
            [("AZURE_STORAGE_CONNECTION_STRING", string), ("AZURE_STORAGE_ACCOUNT", "other")];
        assert_eq!(server(find(&both)).account, "abc");
        let parts = [("AZURE_STORAGE_ACCOUNT", DEVELOPMENT_ACCOUNT), ("AZURE_STORAGE_KEY", "aGk=")];
        assert_eq!(server(find(&parts)).endpoint, DEVELOPMENT_ENDPOINT);
        let azure = [("AZURE_STORAGE_ACCOUNT", "abc"), ("AZURE_STORAGE_SAS_TOKEN", "?sig=x")];
        assert_eq!(server(find(&azure)).endpoint, "https://abc.table.core.windows.net");
        let keyless = find(&[("AZURE_STORAGE_ACCOUNT", "abc")]).unwrap_err().to_string();
        assert!(keyless.contains("AZURE_STORAGE_KEY"), "{keyless}");
    }

    #[test]
    fn flags_win_and_take_what_they_do_not_say_from_the_environment() {
        let set = [
            ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"),
            ("AZURE_STORAGE_KEY", "aGk="),
        ];
        let named =
            |name: &str| TargetArgs { account_name: Some(name.into()), ..Default::default() };
        assert_eq!(server(found(named("abc"), &set, None)).account, "abc");
        let endpoint = TargetArgs { table_endpoint: Some("http://h/abc".into()), ..named("abc") };
        assert_eq!(server(found(endpoint, &set, None)).endpoint, "http://h/abc");
        let folder = TargetArgs { data_dir: Some("d".into()), ..named("abc") };
        let Place::Folder(dir, account) = found(folder, &set, None).unwrap() else {
            panic!("a server")
        };
        assert_eq!((dir, account.as_str()), (PathBuf::from("d"), "abc"));
    }

    #[test]
    fn profiles_come_after_flags_and_the_default_one_after_the_environment() {
        let profile = |name: &str| TargetArgs { profile: Some(name.into()), ..Default::default() };
        let of = |name: &str| found(profile(name), &[], Some(PROFILES));
        let Place::Server(shop, Some(ca)) = of("shop").unwrap() else { panic!("no certificates") };
        assert_eq!((shop.account.as_str(), ca), ("shop", PathBuf::from("/pem")));
        let Place::Folder(dir, _) = of("files").unwrap() else { panic!("a server") };
        assert_eq!(dir, PathBuf::from("/home/.config/tabulith/data"));
        let none = TargetArgs::default();
        assert_eq!(
            server(found(none.clone(), &[], Some(PROFILES))).endpoint,
            "http://d/devstoreaccount1"
        );
        let set = [("AZURE_STORAGE_ACCOUNT", "abc"), ("AZURE_STORAGE_KEY", "aGk=")];
        assert_eq!(server(found(none, &set, Some(PROFILES))).account, "abc");
        assert_eq!(server(found(profile("shop"), &set, Some(PROFILES))).account, "shop");
        let flag = TargetArgs { account_name: Some("abc".into()), ..profile("shop") };
        assert_eq!(server(found(flag, &set, Some(PROFILES))).account, "abc");
        let variable = [&set[..], &[(PROFILE_VARIABLE, "shop")]].concat();
        let of = |flags: TargetArgs| server(found(flags, &variable, Some(PROFILES))).account;
        assert_eq!(of(TargetArgs::default()), "shop");
        let flag = TargetArgs { account_name: Some("abc".into()), ..Default::default() };
        assert_eq!(of(flag), "abc");
    }

    /// Then commands that wrote without naming a place went to the development account.
    #[test]
    fn profiles_that_cannot_be_read_are_no_missing_ones() {
        let variable = |name: &str| (name == "HOME").then(|| "/home".to_owned());
        let of = |kind: ErrorKind| {
            find(&TargetArgs::default(), variable, |_| Err(std::io::Error::from(kind)))
        };
        for kind in [ErrorKind::PermissionDenied, ErrorKind::InvalidData] {
            let why = format!("{:#}", of(kind).unwrap_err());
            assert!(why.contains("/home/.config/tabulith/profiles.toml"), "{why}");
        }
        for kind in [ErrorKind::NotFound, ErrorKind::NotADirectory] {
            assert_eq!(server(of(kind)).account, DEVELOPMENT_ACCOUNT);
        }
        let nowhere = |path: &Path| panic!("{} is nobody's", path.display());
        let none = find(&TargetArgs::default(), |_| None, nowhere);
        assert_eq!(server(none).account, DEVELOPMENT_ACCOUNT);
        let flags = TargetArgs { profile: Some("shop".to_owned()), ..Default::default() };
        let why = find(&flags, |_| None, nowhere).unwrap_err();
        assert_eq!(crate::exit::of(&why), Exit::Usage);
    }

    /// It was not looked at as soon as a flag beside it said anything of the place, so that keys
    /// and addresses were those of the environment.
    #[test]
    fn a_profile_says_what_flags_beside_it_do_not() {
        let profile = |name: &str| TargetArgs { profile: Some(name.into()), ..Default::default() };
        let of = |flags: TargetArgs| {
            let text = "[text]\nconnection-string = 'UseDevelopmentStorage=true'\n";
            let set = [("AZURE_STORAGE_ACCOUNT", "abc"), ("AZURE_STORAGE_KEY", "bm8=")];
            found(flags, &set, Some(&format!("{PROFILES}{text}")))
        };
        let endpoint = Some("http://h/shop".to_owned());
        let flags = TargetArgs { table_endpoint: endpoint, ..profile("shop") };
        let Place::Server(shop, ca) = of(flags).unwrap() else { panic!("a folder") };
        assert_eq!((shop.account.as_str(), shop.endpoint.as_str()), ("shop", "http://h/shop"));
        assert_eq!(shop.key().map(|key| key.bytes()), Some(&b"hi"[..]));
        assert_eq!(ca, Some(PathBuf::from("/pem")));
        let flags = TargetArgs { sas_token: Some("sig=x".into()), ..profile("shop") };
        assert!(server(of(flags.clone())).key().is_none());
        let files = Some("files".to_owned());
        let flags = TargetArgs { account_name: Some("abc".into()), profile: files, ..flags };
        assert_eq!(server(of(flags)).account, "abc", "a folder takes no signature");
        let folder = |flags: TargetArgs| match of(flags).unwrap() {
            Place::Folder(dir, account) => (dir, account),
            Place::Server(..) => panic!("a server"),
        };
        let flags = TargetArgs { account_name: Some("abc".into()), ..profile("files") };
        let data = PathBuf::from("/home/.config/tabulith/data");
        assert_eq!(folder(flags), (data, "abc".to_owned()));
        let flags = TargetArgs { data_dir: Some("d".into()), ..profile("shop") };
        assert_eq!(folder(flags), (PathBuf::from("d"), "shop".to_owned()));
        let refused = |flags: TargetArgs| crate::exit::of(&of(flags).unwrap_err());
        let flags = TargetArgs { account_name: Some("abc".into()), ..profile("text") };
        assert_eq!(refused(flags), Exit::Usage, "a part of a whole");
        let flags = TargetArgs { data_dir: Some("d".into()), ..profile("none") };
        assert_eq!(refused(flags), Exit::NotFound);
    }

    #[test]
    fn a_profile_that_says_nothing_known_is_named() {
        let of = |name: &str, text: Option<&str>| {
            let flags = TargetArgs { profile: Some(name.into()), ..Default::default() };
            let error = found(flags, &[], text).unwrap_err();
            (of(&error), crate::exit::told(&error))
        };
        for (name, text, exit, because) in [
            ("shop", None, Exit::NotFound, "--profile shop"),
            ("none", Some(PROFILES), Exit::NotFound, "no profile [none]"),
            ("odd", Some(PROFILES), Exit::Usage, "[odd] colour"),
            ("number", Some(PROFILES), Exit::Usage, "[number] account-name"),
            ("shop", Some("[shop]\naccount-key = c2VjcmV0"), Exit::Usage, "line 2"),
        ] {
            let (code, told) = of(name, text);
            assert_eq!(code, exit, "{told}");
            assert!(told.contains(because) && !told.contains("c2VjcmV0"), "{told}");
        }
    }

    #[test]
    fn errors_show_no_secret_and_are_usage() {
        let secret = "c2VjcmV0";
        for bad in [
            format!("AccountName=abc;{secret}"),
            format!("AccountName=abc;AccountKey={secret}%;TableEndpoint=http://h/abc"),
            format!("TableEndpoint=ftp://h/abc?sig={secret};SharedAccessSignature=sig={secret}"),
            format!("https://h/?sig={secret}"),
        ] {
            let error = parse(&bad).unwrap_err();
            assert_eq!(of(&error), Exit::Usage, "{error}");
            assert!(!error.to_string().contains(secret), "{error}");
        }
    }
}
