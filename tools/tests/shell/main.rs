//! `tabulith shell`: scripts through every command, on a server and in a folder; what fails and how
//! it ends; one connection for all lines; names and values of a hostile server; and a person at a
//! terminal.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod endpoint;
mod terminal;
mod person;

use common::{Place, Ran, Server};
use endpoint::{Endpoint, hostile};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// A place with tables: a server's, or a folder's.
struct Tables {
    place: Place,
    server: Option<Server>,
}

impl Tables {
    fn both() -> [Tables; 2] {
        let (served, alone) = (Place::new(), Place::new());
        let server = served.serve(0, "data");
        [Tables { place: served, server: Some(server) }, Tables { place: alone, server: None }]
    }

    fn target(&self) -> [&str; 2] {
        match &self.server {
            Some(server) => ["--connection-string", &server.connection],
            None => ["--data-dir", "data"],
        }
    }

    /// Runs a script with more flags.
    fn script(&self, script: &str, more: &[&str]) -> Ran {
        let args = [&["shell"], &self.target()[..], more].concat();
        script_of(&self.place, &args, script)
    }

    /// What a script prints of which no line fails.
    #[track_caller]
    fn out(&self, script: &str) -> String {
        let ran = self.script(script, &[]);
        assert_eq!(ran.code, 0, "{script}\n{}{}", ran.out, ran.err);
        ran.out
    }
}

/// Runs a command with a script as its stdin.
fn script_of(place: &Place, args: &[&str], script: &str) -> Ran {
    let mut command = place.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A script that ends early does not read the rest.
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

const ORDERS: &str = "table create orders
entity insert -t orders -e PartitionKey=p RowKey=1 Total=12.5 Paid=false
entity insert -t orders -e PartitionKey=p RowKey=2 Total=3.5 Note=\"a b\"
entity insert -t orders -e PartitionKey=q RowKey=3 N=7
";

#[test]
fn a_script_goes_through_every_command() {
    for tables in Tables::both() {
        let etags = tables.out(&format!("# what there is\n\n{ORDERS}"));
        assert_eq!(etags.matches("W/\"datetime'").count(), 3, "{etags}");
        let out = |script: &str| tables.out(script);
        assert_eq!(
            out("table create other\n.mode tsv\n.tables\n.tables OR\n"),
            "orders\nother\norders\n"
        );
        assert_eq!(out("table delete other\n.tables"), "name\n------\norders\n");
        let query = ".mode csv\nquery orders --filter \"Total gt 5\" --select Total\n.mode\n";
        assert_eq!(out(query), "PartitionKey,RowKey,Total\np,1,12.5\ncsv\n");
        let used =
            ".mode csv\n.use orders\n.use\nTotal gt 5 \\\n  and Paid eq false\nRowKey eq '3'\n";
        assert_eq!(
            out(used),
            "orders\nPartitionKey,RowKey,Total,Paid\np,1,12.5,false\nPartitionKey,RowKey,N\nq,3,7\n"
        );
        let schema = out(".mode csv\n.schema orders");
        assert_eq!(
            schema,
            "property,type,rows,percent\nPartitionKey,Edm.String,3,100.0\nRowKey,Edm.String,3,100.0\n\
             Timestamp,Edm.DateTime,3,100.0\nTotal,Edm.Double,2,66.6\nPaid,Edm.Boolean,1,33.3\n\
             Note,Edm.String,1,33.3\nN,Edm.Int32,1,33.3\n"
        );
        let told = tables.script(".use orders\n.schema\n", &[]);
        assert!(told.err.contains("all 3 rows of orders"), "{}", told.err);
        let show = "entity show -t orders --partition-key q --row-key 3 --select N\n";
        assert!(out(show).contains("\n  \"N\": 7\n}\n"), "{}", out(show));
        assert!(out(".help").contains("  .dump TABLE [FILE] "), "{}", out(".help"));
        assert_eq!(out("help"), out(".help"));
        assert!(
            out(".help dump").starts_with("Write a table as JSON lines"),
            "{}",
            out(".help dump")
        );
        assert!(out(".help entity show").starts_with("Example"), "{}", out(".help entity show"));
        assert!(out("query --help").starts_with("Example"));
        assert!(out(".dump --help").contains("Usage: .dump"), "{}", out(".dump --help"));
        assert_eq!(out("query orders --count\n.quit\nquery none\n"), "3\n");
    }
}

#[test]
fn a_line_says_more_than_the_session() {
    for tables in Tables::both() {
        tables.out(ORDERS);
        let more = ["-o", "csv", "-c", "query orders --top 1 --select N", "-c", ".mode"];
        let ran = tables.script("never read", &more);
        assert_eq!(ran.out, "PartitionKey,RowKey,N\np,1,\ncsv\n", "{}", ran.err);
        let ran = tables.script("query orders --top 1 --select N -o jsonl\n", &["-o", "csv"]);
        assert!(ran.out.starts_with("{\"PartitionKey\":\"p\""), "{}", ran.out);
        let elsewhere =
            tables.script("table create there --data-dir there\n.tables", &["-o", "tsv"]);
        assert_eq!(elsewhere.out, "orders\n");
        assert!(tables.place.path("there").is_dir());
    }
}

#[test]
fn plans_and_times_are_told_where_they_are_asked_for() {
    for tables in Tables::both() {
        tables.out(ORDERS);
        let told = |script: &str| {
            let ran = tables.script(script, &["-o", "tsv"]);
            assert_eq!(ran.code, 0, "{script}: {}", ran.err);
            (ran.out, ran.err)
        };
        let (out, err) =
            told(".explain on\nquery orders --select N --filter \"PartitionKey eq 'q'\"");
        assert_eq!(out, "q\t3\t7\n");
        assert!(err.starts_with("plan: partition") && err.contains("returned: 1"), "{err}");
        let (out, err) = told(".explain on\n.explain off\nquery orders --count\n.explain");
        assert_eq!((out.as_str(), err.as_str()), ("3\nexplain is off\n", ""));
        let (out, err) = told(".explain query orders --filter \"PartitionKey eq 'q'\"");
        assert!(out.is_empty() && err.contains("examined: 1, returned: 1"), "{out}{err}");
        let (out, err) = told(".use orders\n.explain\tRowKey eq 'it''s'");
        assert!(out.is_empty() && err.contains("RowKey='it''s'"), "{out}{err}");
        let (out, err) = told(".timer on\n.timer\n.timer off\n.timer");
        assert_eq!(out, "timer is on\ntimer is off\n");
        assert_eq!(err.lines().filter(|line| line.starts_with("time: ")).count(), 2, "{err}");
        let wrong = tables.script(".explain table list", &[]);
        assert!(
            wrong.code == 2 && wrong.err.contains(".explain takes a `query` line"),
            "{}",
            wrong.err
        );
    }
}

#[test]
fn the_first_line_that_fails_is_named_and_ends_it() {
    for tables in Tables::both() {
        tables.out(ORDERS);
        let script = "query orders --count\n\nquery none \\\n  --count\nquery orders --count\n";
        let ran = tables.script(script, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (3, "3\n"), "{}", ran.err);
        assert!(
            ran.err.starts_with("tabulith: line 3: ") && ran.err.contains("none"),
            "{}",
            ran.err
        );
        let ran = tables.script(script, &["--keep-going"]);
        assert_eq!((ran.code, ran.out.as_str()), (3, "3\n3\n"), "{}", ran.err);
        let again = "entity insert -t orders -e PartitionKey=p RowKey=1";
        let ran = tables.script("", &["-c", ".tables", "-c", again, "-c", ".tables"]);
        assert!(ran.code == 5 && ran.err.starts_with("tabulith: -c 2: "), "{}", ran.err);
        assert_eq!(ran.out, "name\n------\norders\n");
        for (line, code, why) in [
            ("query orders --nothing", 2, "unexpected argument '--nothing' found"),
            ("query 'orders", 2, "a quote is open"),
            ("entity", 2, "the command is not whole"),
            ("nothing at all", 2, "`nothing` is no command"),
            ("serve", 2, "`tabulith serve` is one outside"),
            ("shell", 2, "`tabulith shell` is one outside"),
            (".nothing", 2, "unrecognized subcommand '.nothing'"),
            (".mode xml", 2, "invalid value 'xml'"),
            (".schema", 2, "no table is in use"),
            (".use none", 3, "none"),
            (".use 1", 2, "the table name 1"),
            (".read none", 3, "none: No such file"),
            (".help nothing", 2, "no command is called `nothing`"),
            ("table truncate orders", 2, "--yes does it"),
        ] {
            let ran = tables.script(line, &[]);
            assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{line}: {}", ran.err);
            let named = ran.err.starts_with("tabulith: line 1: ") && ran.err.lines().count() == 1;
            assert!(named && ran.err.contains(why), "{line}: {}", ran.err);
        }
        let inner = tables.place.file("inner", ".mode tsv\n.tables\nquery none\n.tables\n");
        let ran = tables.script(&format!(".read '{inner}'\n.tables\n"), &[]);
        assert_eq!((ran.code, ran.out.as_str()), (3, "orders\n"));
        assert!(ran.err.starts_with(&format!("tabulith: {inner}:3: ")), "{}", ran.err);
    }
}

/// What there is of a table, but for Timestamps.
fn rows(tables: &Tables, table: &str) -> Vec<String> {
    let text = tables.out(&format!("export {table}"));
    let without = |line: &str| {
        let (before, rest) = line.split_once(",\"Timestamp\":").unwrap();
        format!("{before}{}", rest.find([',', '}']).map_or("", |at| &rest[at..]))
    };
    text.lines().map(without).collect()
}

const TYPES: &str = "table create types
table create empty
entity insert -t types -e PartitionKey=o\\'brien RowKey= s='a\"b' i=-7 d=1.5 yes=true \\
  w=1.0 w@odata.type=Edm.Double n=NaN n@odata.type=Edm.Double big=9223372036854775807 \\
  at=1601-01-01T00:00:00Z at@odata.type=Edm.DateTime raw=AQIDBAU= raw@odata.type=Edm.Binary \\
  id=0d391d16-97f1-4b9a-be68-4cc871f90001 id@odata.type=Edm.Guid
entity insert -t types -e PartitionKey=mixed RowKey=1 v=7 s=007 s@odata.type=Edm.String
entity insert -t types -e PartitionKey=mixed RowKey=2 v=1.5 s=true s@odata.type=Edm.String
entity insert -t types -e PartitionKey=mixed RowKey=3 v=text s=
entity insert -t types -e PartitionKey=mixed RowKey=4 w=8
";

#[test]
fn what_is_dumped_is_imported_as_what_it_was() {
    for tables in Tables::both() {
        tables.out(TYPES);
        let before = rows(&tables, "types");
        assert_eq!(before.len(), 5);
        let printed = tables.out("export types");
        assert_eq!(tables.out(".mode csv\n.dump types"), printed, "whatever the mode");
        let ran = tables.script(".dump types types.jsonl\n.dump empty empty.jsonl\n", &[]);
        assert!(ran.code == 0 && ran.err.contains("types.jsonl: 5 rows of types"), "{}", ran.err);
        assert_eq!(std::fs::read_to_string(tables.place.path("types.jsonl")).unwrap(), printed);
        tables.out(".import types.jsonl again\n.import empty.jsonl void");
        assert_eq!(rows(&tables, "again"), before);
        assert_eq!(tables.out("query void --count"), "0\n");
        // A dump that fails leaves the file of before, and nothing beside it.
        let failed = tables.script(".dump none types.jsonl", &[]);
        assert_eq!(failed.code, 3, "{}", failed.err);
        assert_eq!(std::fs::read_to_string(tables.place.path("types.jsonl")).unwrap(), printed);
        let parts = std::fs::read_dir(tables.place.path(".")).unwrap().flatten();
        let parts = parts.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
        assert_eq!(parts.count(), 0);
    }
}

/// A file took the place of the pipe, and of the link.
#[test]
fn a_dump_goes_where_its_name_leads() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    for tables in Tables::both() {
        tables.out(TYPES);
        let printed = tables.out("export types");
        let path = |name: &str| tables.place.path(name);
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        // For both, so that nobody waits for the other end; the rows fit in.
        let mut pipe = std::fs::File::options().read(true).write(true).open(path("pipe")).unwrap();
        symlink("behind.jsonl", path("link.jsonl")).unwrap();
        tables.out(".dump types pipe\n.dump types link.jsonl");
        assert!(std::fs::metadata(path("pipe")).unwrap().file_type().is_fifo());
        let mut read = vec![0; printed.len()];
        pipe.read_exact(&mut read).unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), printed);
        assert!(path("link.jsonl").is_symlink());
        assert_eq!(std::fs::read_to_string(path("behind.jsonl")).unwrap(), printed);
    }
}

/// It was taken for a stdout that nobody reads: exit code 0, and not a word.
#[test]
fn a_dump_into_a_pipe_whose_reader_is_gone_has_failed() {
    for tables in Tables::both() {
        // More than a pipe holds.
        let insert = |row: i32| {
            format!(
                "entity insert -t large -e PartitionKey=p RowKey={row} s={}\n",
                "x".repeat(30_000)
            )
        };
        tables.out(&format!("table create large\n{}", (0..10).map(insert).collect::<String>()));
        let pipe = tables.place.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn(move || drop(std::fs::File::open(pipe).unwrap()));
        let ran = tables.script(".dump large pipe", &[]);
        reader.join().unwrap();
        assert!(ran.code == 1 && ran.err.contains("roken pipe"), "{}: {}", ran.code, ran.err);
        // Stdout by its name is stdout.
        let mut args = [&["shell"][..], &tables.target()[..]].concat();
        args.extend(["-c", ".dump large /dev/stdout"]);
        let mut command = tables.place.command(&args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// The file that stdout went to was replaced: what had been printed was lost, and what came later.
#[test]
fn a_dump_to_stdout_is_a_part_of_what_is_printed() {
    for tables in Tables::both() {
        tables.out(TYPES);
        let printed = tables.out("export types");
        let path = tables.place.path("out");
        let names = "empty\ntypes\n";
        for to in ["/dev/stdout", "out"] {
            let script = format!(".tables\n.dump types {to}\n.tables\n");
            let mut args = [&["shell", "-o", "tsv"][..], &tables.target()[..]].concat();
            args.extend(script.lines().flat_map(|line| ["-c", line]));
            let mut command = tables.place.command(&args);
            let ran = command.stdout(std::fs::File::create(&path).unwrap()).output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            let out = std::fs::read_to_string(&path).unwrap();
            assert_eq!(out, format!("{names}{printed}{names}"), "{to}");
        }
    }
}

#[test]
fn flags_of_import_follow_its_table() {
    for tables in Tables::both() {
        tables.place.file("f.csv", "p,r,n\na,1,NA\nb,2,7\n");
        let keys = "--partition-key '{p}' --row-key '{r}'";
        tables.out(&format!(".import f.csv rows --null NA {keys}"));
        let out = tables.out(".mode csv\n.schema rows");
        assert!(out.contains("\nn,Edm.Int32,1,50.0\n"), "{out}");
        let wrong = tables.script(".import f.csv rows --partition-key '{none}'", &[]);
        assert!(wrong.code == 2 && wrong.err.contains("`none`"), "{}", wrong.err);
    }
}

/// The signal was caught for the import, and nobody listened any more once that had ended.
#[cfg(unix)]
#[test]
fn a_shell_that_has_imported_is_ended_as_any_other() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    let place = Place::new();
    place.file("f.csv", "p,r\na,1\n");
    let ended = |line: &str, said: &str| {
        let mut command = place.command(&["shell", "--data-dir", "data"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut stderr = BufReader::new(shell.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains(said) && stderr.read_line(&mut text).unwrap() > 0 {}
        assert!(text.contains(said), "{text}");
        let id = shell.id().to_string();
        assert!(
            std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success()
        );
        for _ in 0..200 {
            if let Some(status) = shell.try_wait().unwrap() {
                return (status.code(), status.signal());
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        panic!("it goes on");
    };
    let imported = ended(".import f.csv rows --partition-key {p} --row-key {r}", "imported 1 rows");
    assert_eq!(imported, ended(".timer on\n.tables", "time: "));
}

#[test]
fn a_folder_is_read_beside_its_server_and_not_written() {
    let place = Place::new();
    let _server = place.serve(0, "data");
    let args = ["shell", "--data-dir", "data", "--keep-going"];
    let ran = script_of(&place, &args, ".tables\ntable create there\n.tables\n");
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    assert!(ran.err.starts_with("tabulith: line 2: "), "{}", ran.err);
}

#[test]
fn a_schema_says_how_much_it_has_looked_at() {
    let tables = Tables { place: Place::new(), server: None };
    let rows: String = (0..1_500).map(|n| format!("p,{n:04},{n}\n")).collect();
    tables.place.file("f.csv", format!("p,r,n\n{rows}"));
    tables.out(".import f.csv rows --partition-key '{p}' --row-key '{r}'");
    let ran = tables.script(".schema rows", &["-o", "tsv"]);
    assert!(ran.out.ends_with("n\tEdm.Int32\t1000\t100.0\n"), "{}", ran.out);
    assert!(ran.err.contains("the first 1,000 rows of rows") && ran.err.contains("it has more"));
}

/// Whether text has a control character that is not of its own lines.
fn is_harmless(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
}

#[test]
fn all_lines_share_one_connection() {
    let place = Place::new();
    let endpoint = Endpoint::start(hostile);
    let args = ["shell", "--connection-string", &endpoint.connection, "-o", "none"];
    let script = ".tables\nquery things\n.use things\nplain eq 1\n.schema\n.dump things t.jsonl\n\
                  entity query -t things\nexport things\n";
    let ran = script_of(&place, &args, script);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(endpoint.asked.try_iter().count(), 8);
    // A connection is free again a moment after its answer: a line that is quicker opens a second
    // one.
    let connections = endpoint.connections();
    assert!(connections <= 3, "{connections} connections for eight requests");
}

#[test]
fn what_a_hostile_server_says_does_not_reach_stderr_raw() {
    let place = Place::new();
    let endpoint = Endpoint::start(hostile);
    let args = ["shell", "--connection-string", &endpoint.connection, "--keep-going"];
    let ran = script_of(
        &place,
        &args,
        "query none\n.use none\n.dump none\nentity show -t none \
        --partition-key p --row-key r\n.tables\n.schema things\nquery things\n",
    );
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("owned") && is_harmless(&ran.err), "{:?}", ran.err);
    assert!(
        ran.out.contains("owned") && is_harmless(&ran.out),
        "a table shows marks: {:?}",
        ran.out
    );
    // A file gets what there is.
    let ran = script_of(&place, &args, ".mode csv\nquery things\n");
    assert!(ran.out.contains("\u{1b}]0;owned\u{7}"), "{:?}", ran.out);
}

/// The session of the document, its lines and what they print.
#[test]
fn the_session_of_the_document_runs_as_it_stands_there() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/shell.md");
    let document = std::fs::read_to_string(document).unwrap();
    let session = document.split("```text\n").find(|block| block.contains("> .tables")).unwrap();
    let session = session.split("```").next().unwrap();
    let (first, rest) = session.split_once('\n').unwrap();
    let command = first.strip_prefix("$ tabulith ").unwrap();
    let command: Vec<&str> = command.split(' ').collect();
    let mut script = String::new();
    let mut printed = String::new();
    for line in rest.lines() {
        match line.strip_prefix("tabulith> ").or_else(|| line.strip_prefix("board> ")) {
            Some(line) => script.push_str(&format!("{line}\n")),
            None => printed.push_str(&format!("{line}\n")),
        }
    }
    assert!(script.lines().count() >= 8, "{script}");
    let place = Place::new();
    place.file(
        "board.csv",
        "origin,carrier,flight,delay\nLGA,DL,461,-6\nLGA,DL,1743,11\nLGA,AA,301,-2\n",
    );
    // Both streams go to one file, as they go to one screen.
    let path = place.path("screen");
    let screen = std::fs::File::create(&path).unwrap();
    let mut child = place
        .command(&command)
        .stdin(Stdio::piped())
        .stdout(screen.try_clone().unwrap())
        .stderr(screen)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let ended = child.wait().unwrap();
    let seen = std::fs::read_to_string(&path).unwrap();
    // A time is never the same again.
    let plain = |text: &str| -> Vec<String> {
        let timeless = |line: &str| match line.split_once(" rows in ") {
            Some((before, rest)) => {
                format!("{before} rows{}", rest.split_once("rows/s").map_or("", |(_, after)| after))
            }
            None => line.to_owned(),
        };
        text.lines().map(timeless).collect()
    };
    assert_eq!(plain(&seen), plain(&printed), "{script}");
    assert!(ended.success());
}
