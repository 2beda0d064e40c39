//! Where commands are shown: the help of each command, the man pages, the documents.

use crate::stage::Stage;
use std::path::Path;

/// Commands that share a folder and follow one another.
pub(crate) struct Page {
    /// Such as `import`, `sas-create`, `README.md`.
    pub(crate) name: String,
    pub(crate) scripts: Vec<Script>,
}

/// What somebody pastes at once.
pub(crate) struct Script {
    /// Where it stands.
    pub(crate) place: String,
    /// As they stand there, lines that go on included.
    pub(crate) commands: Vec<String>,
}

impl Script {
    /// Whether it starts a server, which does not end by itself.
    pub(crate) fn is_server(&self) -> bool {
        self.commands.iter().any(|command| {
            let mut words = command.split_whitespace();
            let after = if words.next() == Some("tabulith") { words.next() } else { Some("") };
            match after {
                None => true,
                Some("serve") => !command.contains("--help"),
                Some(word) => word.starts_with('-') && word != "--help" && word != "--version",
            }
        })
    }
}

impl Page {
    /// All of its commands.
    pub(crate) fn text(&self) -> String {
        let commands = self.scripts.iter().flat_map(|script| &script.commands);
        commands.map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// The documents whose commands are run; those that are not there yet have none.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "docs/cookbook.md",
    "docs/backup.md",
    "docs/operations.md",
    "docs/bench.md",
    "docs/formats.md",
    "docs/shell.md",
];

/// Whether a command is one of this program.
pub(crate) fn is_ours(command: &str) -> bool {
    command == "tabulith" || command.starts_with("tabulith ") || command.contains(" tabulith ")
}

/// The commands in lines: one that ends in a backslash goes on in the next.
fn commands<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        match all.last_mut().filter(|_| goes_on) {
            Some(last) => *last += &format!("\n{line}"),
            None => all.push(line.trim_start().to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    all
}

/// Examples of one page of help: a script each, for nobody pastes all of them.
fn page(name: &str, place: &str, examples: Vec<String>) -> Page {
    for example in &examples {
        assert!(example.starts_with("tabulith "), "{place}: no command, or cut in two: {example}");
    }
    let script = |command| Script { place: place.to_owned(), commands: vec![command] };
    Page { name: name.to_owned(), scripts: examples.into_iter().map(script).collect() }
}

/// The examples that the help of each command begins with.
pub(crate) fn of_help(stage: &Stage) -> Vec<Page> {
    let mut found = Vec::new();
    collect(stage, &[], &mut found);
    found
}

fn collect(stage: &Stage, path: &[&str], found: &mut Vec<Page>) {
    let text = stage.ask(&[path, &["--help"]].concat());
    if let Some((head, rest)) = text.split_once('\n').filter(|_| text.starts_with("Example")) {
        assert!(matches!(head, "Example:" | "Examples:"), "{path:?}: {head}");
        let place = format!("tabulith {} --help", path.join(" "));
        let examples = commands(rest.lines().take_while(|line| !line.trim().is_empty()));
        found.push(page(&path.join("-"), &place, examples));
    }
    let below = text.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let below = below.lines().take_while(|line| !line.is_empty());
    let below = below.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in below.filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            collect(stage, &[path, &[name]].concat(), found);
        }
    }
}

/// The examples of the man pages.
pub(crate) fn of_man(stage: &Stage) -> Vec<Page> {
    stage.ask(&["man", "pages"]);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(stage.folder().join("pages")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let Some((_, rest)) = text.split_once("\n.SH EXAMPLES\n.nf\n") else { continue };
        let (block, _) = rest.split_once("\n.fi\n").expect("the end of the examples");
        let name = path.file_stem().unwrap().to_str().unwrap();
        let lines: Vec<String> = block.lines().map(unescaped).collect();
        let examples = commands(lines.iter().map(String::as_str));
        found.push(page(name.trim_start_matches("tabulith-"), name, examples));
    }
    found
}

/// A line of a man page as it is shown.
fn unescaped(line: &str) -> String {
    let mut text = line.strip_prefix("\\&").unwrap_or(line).to_owned();
    for (escape, shown) in
        [("\\-", "-"), ("\\(aq", "'"), ("\\(ti", "~"), ("\\(ha", "^"), ("\\(ga", "`")]
    {
        text = text.replace(escape, shown);
    }
    assert_eq!(text.matches('\\').count(), text.matches("\\e").count(), "an escape in {line}");
    text.replace("\\e", "\\")
}

/// The commands of the documents: blocks of shell, and what stands between backticks in the text.
pub(crate) fn of_documents() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |name| Some(document(name, &std::fs::read_to_string(root.join(name)).ok()?));
    let found: Vec<Page> = DOCUMENTS.into_iter().filter_map(read).collect();
    assert!(found.len() >= 5, "documents are missing");
    found
}

fn document(name: &str, text: &str) -> Page {
    let mut scripts = Vec::new();
    // The block that is open: its language, where it begins, its lines.
    let mut block: Option<(&str, usize, Vec<&str>)> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = match block.take() {
                None => Some((language, at + 1, Vec::new())),
                Some((language, at, lines)) => {
                    scripts.extend(of_block(language, format!("{name}:{at}"), &lines));
                    None
                }
            };
        } else if let Some((_, _, lines)) = &mut block {
            lines.push(line);
        } else {
            let spans = line.split('`').skip(1).step_by(2).filter_map(of_span);
            let place = format!("{name}:{}", at + 1);
            scripts.extend(spans.map(|span| Script { place: place.clone(), commands: vec![span] }));
        }
    }
    Page { name: name.to_owned(), scripts }
}

/// A command of a document as one that an installed program is called with.
fn installed(command: &str) -> String {
    let command = command.replace("cargo run --release -- ", "tabulith ");
    if command == "cargo run --release" { "tabulith".to_owned() } else { command }
}

/// A command in the text; the name of the program alone is none.
fn of_span(span: &str) -> Option<String> {
    let command = installed(span);
    command.starts_with("tabulith ").then_some(command)
}

fn of_block(language: &str, place: String, lines: &[&str]) -> Option<Script> {
    let said = |line: &&&str| !line.trim().is_empty() && !line.starts_with('#');
    let all = commands(lines.iter().filter(said).copied());
    let all: Vec<String> = all.iter().map(|command| installed(command)).collect();
    let has_ours = all.iter().any(|command| is_ours(command));
    let is_shell = matches!(language, "bash" | "sh");
    // Output that quotes a command begins otherwise.
    let looks_so = all.first().is_some_and(|command| command.starts_with("tabulith "));
    assert!(is_shell || !looks_so, "{place}: a block of commands is one of bash, to be run");
    (is_shell && has_ours).then_some(Script { place, commands: all })
}
