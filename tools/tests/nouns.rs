//! `table` and `entity`, through a server and in a folder alike: what they print, what they refuse
//! and with which exit code.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Place, Ran, Server};

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

    fn run(&self, args: &[&str]) -> Ran {
        let target = match &self.server {
            Some(server) => ["--connection-string", &server.connection],
            None => ["--data-dir", "data"],
        };
        self.place.run(&[args, &target].concat())
    }

    /// What a command prints that succeeds.
    #[track_caller]
    fn out(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}\n{}{}", ran.out, ran.err);
        ran.out
    }

    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, because: &str) {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{args:?}\n{}", ran.err);
        assert!(ran.err.contains(because), "`{because}` is missing in: {}", ran.err);
    }
}

#[test]
fn tables_are_made_listed_emptied_and_deleted() {
    for tables in Tables::both() {
        assert_eq!(tables.run(&["table", "create", "Flights"]).err, "made Flights\n");
        assert_eq!(tables.run(&["table", "create", "flights"]).err, "flights exists\n");
        tables.refused(&["table", "create", "flights", "--fail-on-exist"], 5, "flights exists");
        tables.out(&["table", "create", "airports"]);
        assert_eq!(tables.out(&["table", "list", "-o", "tsv"]), "airports\nFlights\n");
        assert_eq!(tables.out(&["table", "list", "--prefix", "FL", "-o", "tsv"]), "Flights\n");
        let file = tables.place.file("f.csv", "p,r\na,1\nb,2\n");
        let keys = ["--partition-key", "{p}", "--row-key", "{r}"];
        tables.out(&[&["import", &file, "-t", "flights"], &keys[..]].concat());
        let counted = tables.out(&["table", "list", "--count", "-o", "csv"]);
        assert_eq!(counted, "name,rows\nairports,0\nFlights,2\n");
        tables.refused(&["table", "truncate", "flights"], 2, "--yes does it");
        tables.out(&["table", "truncate", "flights", "--yes"]);
        assert_eq!(tables.out(&["query", "flights", "--count"]), "0\n");
        tables.refused(&["table", "truncate", "none", "--yes"], 3, "none");
        assert_eq!(tables.run(&["table", "delete", "flights"]).err, "deleted flights\n");
        assert_eq!(tables.run(&["table", "delete", "flights"]).err, "there is no flights\n");
        tables.refused(&["table", "delete", "flights", "--fail-not-exist"], 3, "no flights");
        tables.refused(&["table", "create", "1"], if tables.server.is_some() { 1 } else { 2 }, "1");
    }
}

#[test]
fn entities_are_written_shown_and_deleted_under_their_etags() {
    for tables in Tables::both() {
        tables.out(&["table", "create", "orders"]);
        let of = |what: &'static str| ["entity", what, "-t", "orders"];
        let words = ["-e", "PartitionKey=p", "RowKey=r", "Total=12.5", "Paid=false"];
        let keys = ["--partition-key", "p", "--row-key", "r"];
        let first = tables.out(&[&of("insert")[..], &words].concat());
        assert!(first.starts_with("W/\"datetime'"), "{first}");
        tables.refused(&[&of("insert")[..], &words].concat(), 5, "");
        let more =
            ["-e", "PartitionKey=p", "RowKey=r", "Note=late", "N=7", "N@odata.type=Edm.Int64"];
        let second = tables.out(&[&of("insert")[..], &more, &["--if-exists", "merge"]].concat());
        let shown = tables.out(&[&of("show")[..], &keys].concat());
        let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(json["odata.etag"], second.trim());
        assert_eq!(
            (&json["Total"], &json["N"], &json["Note"]),
            (&12.5.into(), &"7".into(), &"late".into())
        );
        let stale = ["--if-match", first.trim()];
        tables.refused(&[&of("merge")[..], &words, &stale].concat(), 4, "");
        let third =
            tables.out(&[&of("replace")[..], &words, &["--if-match", second.trim()]].concat());
        let select = ["--select", "Total,Note", "-o", "yaml"];
        let shown = tables.out(&[&of("show")[..], &keys, &select].concat());
        assert!(shown.contains("\n  Total: 12.5\n") && !shown.contains("Note"), "{shown}");
        tables.refused(&[&of("delete")[..], &keys, &stale].concat(), 4, "");
        tables.out(&[&of("delete")[..], &keys, &["--if-match", third.trim()]].concat());
        tables.refused(&[&of("delete")[..], &keys].concat(), 3, "");
        tables.refused(&[&of("show")[..], &keys].concat(), 3, "no entity 'p', 'r'");
        tables.refused(&[&of("merge")[..], &words].concat(), 3, "");
    }
}

#[test]
fn no_folder_is_made_by_changing_what_is_in_it() {
    let place = Place::new();
    let keys = ["-t", "orders", "--partition-key", "p", "--row-key", "r"];
    for args in [
        &["table", "delete", "orders"][..],
        &["table", "truncate", "orders", "--yes"],
        &["entity", "upsert", "-t", "orders", "-e", "PartitionKey=p", "RowKey=r"],
        &[&["entity", "delete"], &keys[..]].concat(),
        &["entity", "delete-where", "-t", "orders", "--filter", "N eq 1", "--yes"],
    ] {
        let ran = place.run(&[args, &["--data-dir", "none"]].concat());
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.err);
        assert!(!place.path("none").exists(), "{args:?}");
    }
}

#[test]
fn what_is_shown_can_be_put_back() {
    for tables in Tables::both() {
        tables.out(&["table", "create", "orders"]);
        let words = [
            "PartitionKey=a b",
            "RowKey=-1",
            "At=2013-01-01T10:00:00Z",
            "At@odata.type=Edm.DateTime",
            "Big=4294967296",
            "Text=00",
        ];
        tables.out(&[&["entity", "upsert", "-t", "orders", "-e"], &words[..]].concat());
        let keys = ["--partition-key", "a b", "--row-key", "-1"];
        let show = [&["entity", "show", "-t", "orders"], &keys[..]].concat();
        let shown = tables.out(&show);
        let file = tables.place.file("order.json", &shown);
        tables.out(&[&["entity", "delete", "-t", "orders"], &keys[..]].concat());
        tables.out(&["entity", "insert", "-t", "orders", "--json", &file]);
        let lines = |text: &str| -> Vec<String> {
            let all = text
                .lines()
                .filter(|line| !line.contains("etag") && !line.contains("\"Timestamp\""));
            all.map(str::to_owned).collect()
        };
        assert_eq!(lines(&tables.out(&show)), lines(&shown));
        tables.refused(&["entity", "insert", "-t", "orders", "--json", "none"], 3, "--json none");
        let both = ["entity", "insert", "-t", "orders", "--json", &file, "-e", "PartitionKey=p"];
        tables.refused(&both, 2, "cannot be used with");
    }
}

#[test]
fn all_rows_that_match_go_and_no_other() {
    for tables in Tables::both() {
        let rows: String = (0..2_500).map(|n| format!("p{},{n:04},{}\n", n % 3, n % 2)).collect();
        let file = tables.place.file("f.csv", format!("p,r,odd\n{rows}"));
        let keys = ["--partition-key", "{p}", "--row-key", "{r}"];
        tables.out(&[&["import", &file, "-t", "rows"], &keys[..]].concat());
        let sweep =
            |filter: &'static str| ["entity", "delete-where", "-t", "rows", "--filter", filter];
        let odd = sweep("odd eq 1");
        assert_eq!(tables.out(&[&odd[..], &["--dry-run"]].concat()), "1250\n");
        assert_eq!(
            tables.out(&["query", "rows", "--count"]),
            "2500\n",
            "a dry run deletes nothing"
        );
        tables.refused(&odd, 2, "--yes does it");
        assert_eq!(tables.out(&[&odd[..], &["--yes"]].concat()), "1250\n");
        assert_eq!(tables.out(&["query", "rows", "--count", "--filter", "odd eq 0"]), "1250\n");
        assert_eq!(tables.out(&[&odd[..], &["--yes"]].concat()), "0\n");
        tables.refused(&[&sweep("")[..], &["--yes"]].concat(), 2, "every row");
        let bad = [&sweep("odd eq")[..], &["--yes"]].concat();
        assert_ne!(tables.run(&bad).code, 0);
    }
}

#[test]
fn tokens_that_are_signed_here_do_what_they_say_and_no_more() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let by_key = ["--connection-string", &server.connection];
    place.ok(&[&["table", "create", "orders"], &by_key[..]].concat());
    let create = ["sas", "create", "-t", "orders", "--expiry", "8h", "--uri"];
    let only = ["--permissions", "ra", "--start-pk", "p", "--end-pk", "p"];
    let address = place.ok(&[&create[..], &only, &by_key].concat()).out;
    let by_token = ["--connection-string", address.trim()];
    let insert = |key: &str| {
        let words = [format!("PartitionKey={key}"), "RowKey=r".to_owned(), "N=1".to_owned()];
        let mut args = vec!["entity", "insert", "-t", "orders", "-e"];
        args.extend(words.iter().map(String::as_str));
        args.extend(by_token);
        place.run(&args)
    };
    assert_eq!(insert("p").code, 0, "{}", insert("p").err);
    assert_eq!(insert("q").code, 6, "outside of its keys");
    let keys = ["--partition-key", "p", "--row-key", "r"];
    let gone = place.run(&[&["entity", "delete", "-t", "orders"], &keys[..], &by_token].concat());
    assert_eq!(gone.code, 6, "not among its permissions");
    // The decoder says the same beforehand, and of which field it is.
    let decode = |more: &[&str]| {
        let of = ["sas", "decode", address.trim(), "-t", "orders", "-o", "csv"];
        place.run(&[&of[..], more, &by_key].concat())
    };
    let good = decode(&[&["--operation", "insert"], &keys[..]].concat());
    assert_eq!(good.code, 0, "{}", good.err);
    assert!(good.out.contains("sp,ra,\"permissions: read, add\"\n"), "{}", good.out);
    assert!(good.out.contains("\nsig,…,") && !good.out.contains("sig,A"), "{}", good.out);
    let outside = ["--operation", "insert", "--partition-key", "q", "--row-key", "r"];
    let refused = decode(&outside);
    assert_eq!(refused.code, 6);
    assert!(refused.err.contains("it fails: spk, srk, epk, erk: the entity 'q', 'r' lies outside"));
    let refused = decode(&["--operation", "delete"]);
    assert!(refused.code == 6 && refused.err.contains("do not allow"), "{}", refused.err);
    // Also where nobody reads the fields.
    let unread = ["sas", "decode", address.trim(), "--operation", "delete", "-o", "csv"];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = place.command(&[&unread[..], &by_key].concat()).stdout(writer).status().unwrap();
    assert_eq!(ended.code(), Some(6));
    // Whoever has another key learns what should have been signed, and not the signature.
    let other = ["--account-name", "devstoreaccount1", "--account-key", "c2VjcmV0"];
    let refused = place.run(&[&["sas", "decode", address.trim()], &other[..]].concat());
    assert!(
        refused.err.contains("has signed it") && refused.err.contains("/table/devstoreaccount1")
    );
    assert!(!refused.err.contains("c2VjcmV0"));
    let account = ["sas", "create", "--permissions", "l", "--expiry", "90m", "--uri"];
    let listing = place.ok(&[&account[..], &by_key].concat()).out;
    let tables = place.ok(&["table", "list", "-o", "tsv", "--connection-string", listing.trim()]);
    assert_eq!(tables.out, "orders\n");
    let good = ["sas", "create", "-t", "orders", "--expiry", "8h", "--permissions", "r"];
    for (args, because) in [
        (&["sas", "create", "-t", "orders", "--expiry", "8h"][..], "--permissions"),
        (&["sas", "create", "-t", "orders", "--expiry", "8w", "--permissions", "r"], "--expiry 8w"),
        (&["sas", "create", "-t", "orders", "--expiry", "8h", "--permissions", "rx"], "x is none"),
        // It was passed over: a token for an account has no such permission.
        (&["sas", "create", "--expiry", "8h", "--permissions", "rlp"], "p is none of rwdlacu"),
        // As of a variable that is not set: it would be no limit.
        (&[&good[..], &["--start-pk", ""]].concat(), "--start-pk"),
        (&[&good[..], &["--end-pk", "p", "--end-rk", ""]].concat(), "--end-rk"),
        (&[&good[..], &["--ip", ""]].concat(), "--ip"),
        (&[&good[..], &["--policy-name", ""]].concat(), "--policy-name"),
    ] {
        let ran = place.run(&[args, &by_key].concat());
        assert!(ran.code == 2 && ran.err.contains(because), "{}", ran.err);
    }
}

/// They were left out without a word.
#[test]
fn properties_that_a_table_has_no_columns_for_are_named() {
    let place = Place::new();
    let row = |n: usize| {
        let name = if n < 1_000 { "n" } else { "late" };
        format!("{{\"k\":\"{n:04}\",\"{name}\":1}}\n")
    };
    let file = place.file("f.jsonl", (0..1_001).map(row).collect::<String>());
    let keys = ["--partition-key", "p", "--row-key", "{k}", "--data-dir", "data"];
    place.ok(&[&["import", &file, "-t", "rows"], &keys[..]].concat());
    let query = ["query", "rows", "--data-dir", "data"];
    let ran = place.ok(&query);
    assert!(ran.err.contains("property: late;") && !ran.out.contains("late"), "{}", ran.err);
    let ran = place.ok(&[&query[..], &["--select", "n,late"]].concat());
    assert!(ran.err.is_empty() && ran.out.contains("late"), "{}", ran.err);
}

#[test]
fn completions_and_man_pages_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]).out;
        for word in ["delete-where", "salvage", "--if-match", "truncate"] {
            // zsh and fish write a flag without its dashes.
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
    assert!(place.ok(&["man"]).out.starts_with(".ie"), "roff");
    place.ok(&["man", "pages"]);
    for page in ["tabulith.1", "tabulith-serve.1", "tabulith-entity-delete-where.1"] {
        assert!(place.path("pages").join(page).exists(), "{page}");
    }
}
