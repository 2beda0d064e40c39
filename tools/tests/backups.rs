//! `backup` and `restore`, beside a server and at rest: what they print, how they end.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod common;

use common::Place;

fn insert(place: &Place, connection: &str, row: &str, n: u32) {
    let n = format!("n={n}");
    let words = ["entity", "upsert", "-t", "rows", "--connection-string", connection];
    place.ok(&[&words[..], &["-e", "PartitionKey=p", &format!("RowKey={row}"), &n]].concat());
}

fn rows(place: &Place, dir: &str) -> String {
    place.ok(&["export", "rows", "--data-dir", dir]).out
}

#[test]
fn a_served_folder_is_backed_up_and_restored_to_any_moment() {
    let place = Place::new();
    let server = place.serve_with(0, "data", &["--history", "1h"]);
    let at = server.connection.clone();
    place.ok(&["table", "create", "rows", "--connection-string", &at]);
    insert(&place, &at, "a", 1);
    let made = place.ok(&["backup", "create", "data", "kept", "-o", "jsonl"]);
    assert!(made.out.starts_with("{\"backup\":1,\"made\":\""), "{}", made.out);
    assert!(
        made.err.contains("backup 1 in kept: ") && made.err.contains("hard links"),
        "{}",
        made.err
    );
    insert(&place, &at, "a", 2);
    let page = place.ok(&["query", "rows", "--connection-string", &at, "-o", "jsonl"]).out;
    let stamp = page.split("\"Timestamp\":\"").nth(1).map(|rest| rest.split('"').next().unwrap());
    insert(&place, &at, "b", 3);
    let copied = place.ok(&["backup", "create", "data", "kept", "--copy"]);
    assert!(copied.err.contains("backup 2 in kept: "), "{}", copied.err);
    assert_eq!(server.terminate().0, 0);

    let listed = place.ok(&["backup", "list", "kept", "-o", "csv"]).out;
    assert!(
        listed.starts_with("backup,made,from,to,quiet,files,bytes,own_bytes,database\n1,"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 3);
    assert!(place.ok(&["backup", "verify", "kept"]).err.contains("kept is clean: 2 backups"));
    let now = rows(&place, "data");
    let done = place.ok(&["restore", "kept", "new"]);
    assert!(done.err.contains("new holds backup 2 as of 20"), "{}", done.err);
    assert_eq!(rows(&place, "new"), now);
    place.ok(&["restore", "kept", "first", "--backup", "1", "--copy"]);
    let first = rows(&place, "first");
    assert!(first.contains("\"n\":1") && first.lines().count() == 1, "{first}");
    let stamp = stamp.expect("a Timestamp in the output");
    place.ok(&["restore", "kept", "middle", "--at", stamp]);
    let middle = rows(&place, "middle");
    assert!(middle.contains("\"n\":2") && middle.lines().count() == 1, "{middle}");
    assert!(place.ok(&["check", "middle"]).err.contains("is clean"));
    // A manifest that does not read keeps nobody from what another backup shows.
    let manifest = place.path("kept/000001.backup");
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    place.ok(&["restore", "kept", "beside", "--at", stamp]);
    assert_eq!(rows(&place, "beside"), middle);
    std::fs::write(&manifest, whole).unwrap();

    assert!(
        place.ok(&["backup", "prune", "kept", "--keep", "1"]).err.starts_with("1 backups are gone")
    );
    assert_eq!(place.ok(&["backup", "list", "kept", "-o", "tsv"]).out.lines().count(), 1);
    place.ok(&["restore", "kept", "again"]);
    assert_eq!(rows(&place, "again"), now);
    // What is restored is a data folder like any other.
    let server = place.serve(0, "again");
    insert(&place, &server.connection, "c", 4);
    assert_eq!(server.terminate().0, 0);
}

/// Other commands, and a start that says nothing of the history, leave it as it is.
#[test]
fn the_past_stays_whoever_opens_the_folder() {
    let place = Place::new();
    let mut server = place.serve_with(0, "data", &["--history", "1h"]);
    place.ok(&["table", "create", "rows", "--connection-string", &server.connection]);
    insert(&place, &server.connection, "a", 1);
    let query = ["query", "rows", "-o", "jsonl", "--connection-string", &server.connection];
    let page = place.ok(&query).out;
    let stamp = page.split("\"Timestamp\":\"").nth(1).unwrap().split('"').next().unwrap();
    insert(&place, &server.connection, "a", 2);
    for _ in 0..2 {
        assert_eq!(server.terminate().0, 0);
        place.ok(&["table", "create", "other", "--data-dir", "data"]);
        place.ok(&["table", "delete", "other", "--data-dir", "data"]);
        server = place.serve(0, "data");
    }
    assert_eq!(server.terminate().0, 0);
    place.ok(&["compact", "data"]);
    place.ok(&["backup", "create", "data", "kept"]);
    place.ok(&["restore", "kept", "past", "--at", stamp]);
    assert!(rows(&place, "past").contains("\"n\":1"));
}

#[test]
fn what_cannot_be_done_is_said_with_an_exit_code() {
    let place = Place::new();
    let keys = ["-e", "PartitionKey=p", "RowKey=r"];
    place.ok(&["table", "create", "rows", "--data-dir", "data"]);
    place.ok(&[&["entity", "insert", "-t", "rows", "--data-dir", "data"], &keys[..]].concat());
    place.ok(&["backup", "create", "data", "kept"]);
    std::fs::create_dir(place.path("empty")).unwrap(); // Where nothing is mounted.
    // And where the manifests are lost, and the files are all that there is.
    std::fs::create_dir_all(place.path("lost/files")).unwrap();
    let orphan = place.path("lost/files").join("0".repeat(64));
    std::fs::write(&orphan, "rows").unwrap();
    for (args, code, said) in [
        (&["backup", "create", "none", "other"][..], 3, "no database"),
        (&["backup", "list", "none"], 3, "no folder"),
        (&["backup", "verify", "none"], 3, "no folder"),
        (&["backup", "prune", "kept", "--keep", "0"], 2, "--keep"),
        (&["backup", "prune", "none", "--keep", "1"], 3, "no folder"),
        (&["restore", "kept", "data"], 5, "not empty"),
        (&["restore", "kept", "new", "--backup", "7"], 3, "no backup 7; the newest is 1"),
        (&["restore", "kept", "new", "--at", "yesterday"], 2, "--at yesterday"),
        (
            &["restore", "kept", "new", "--at", "2099-01-01T00:00:00Z"],
            3,
            "those that there are show",
        ),
        (&["restore", "none", "new"], 3, "no folder"),
        (&["backup", "list", "empty"], 3, "there is no backup in empty"),
        (&["backup", "verify", "empty"], 3, "there is no backup in empty"),
        (&["backup", "verify", "data"], 3, "there is no backup in data"),
        (&["backup", "prune", "empty", "--keep", "1"], 3, "there is no backup in empty"),
        (&["backup", "prune", "lost", "--keep", "1"], 3, "there is no backup in lost"),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    assert!(!place.path("new").exists() && !place.path("other").exists());
    assert_eq!(
        std::fs::read_dir(place.path("empty")).unwrap().count(),
        0,
        "nothing was made there"
    );
    assert_eq!(std::fs::read(&orphan).unwrap(), b"rows", "nothing was swept away");
    // A byte that changes.
    let file = std::fs::read_dir(place.path("kept/files")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[50] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let found = place.run(&["backup", "verify", "kept"]);
    assert_eq!(found.code, 8, "{}", found.err);
    assert!(
        found.out.contains(".sst of backup 1") && found.out.contains("kept/files/"),
        "{}",
        found.out
    );
    assert!(found.err.contains("kept is damaged in 1 places"), "{}", found.err);
    assert_eq!(place.run(&["restore", "kept", "bad"]).code, 8);
    assert_ne!(place.run(&["table", "list", "--data-dir", "bad"]).out, "rows\n");
}

/// A loss of the folder was a loss of its backups then.
#[test]
fn backups_do_not_lie_in_the_folder_that_they_protect() {
    let place = Place::new();
    place.ok(&["table", "create", "rows", "--data-dir", "data"]);
    std::os::unix::fs::symlink(place.path("data"), place.path("link")).unwrap();
    std::fs::create_dir(place.path("data/real")).unwrap();
    std::os::unix::fs::symlink(place.path("data/real"), place.path("way")).unwrap();
    for (dir, dest) in [
        ("data", "data/kept"),
        ("data", "data/a/../kept"),
        ("data", "./data/a/b"),
        ("link", "data/kept"),
        ("data", "link/kept"),
        ("data", "way"),
        ("data", "way/kept"),
        ("data", "data"),
    ] {
        let ran = place.run(&["backup", "create", dir, dest]);
        assert_eq!(ran.code, 2, "{dest}: {}", ran.err);
        assert!(ran.err.contains(&format!("{dest} is or lies in {dir}")), "{}", ran.err);
        assert!(!place.path("data/kept").exists() && !place.path("data/a").exists(), "{dest}");
    }
    place.ok(&["backup", "create", "link", "data-kept"]);
}

#[test]
fn a_file_that_a_backup_misses_is_damage() {
    let place = Place::new();
    place.ok(&["table", "create", "rows", "--data-dir", "data"]);
    place.ok(&["backup", "create", "data", "kept"]);
    for file in std::fs::read_dir(place.path("kept/files")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(place.run(&["backup", "verify", "kept"]).code, 8);
    let ran = place.run(&["restore", "kept", "new"]);
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("kept/files/") && ran.err.contains("missing"), "{}", ran.err);
}

/// It was done, and the next backup removed the files of the folder as what a run had left.
#[test]
fn nothing_is_restored_into_the_folder_of_backups() {
    let place = Place::new();
    place.ok(&["table", "create", "rows", "--data-dir", "data"]);
    place.ok(&["backup", "create", "data", "kept"]);
    std::os::unix::fs::symlink(place.path("kept"), place.path("link")).unwrap();
    for new in ["kept/staging", "kept/new", "kept/a/../new", "link/staging", "kept"] {
        let ran = place.run(&["restore", "kept", new]);
        assert_eq!(ran.code, 2, "{new}: {}", ran.err);
        assert!(ran.err.contains(&format!("{new} is or lies in kept")), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(place.path("kept/staging")).unwrap().count(), 0);
    assert!(!place.path("kept/new").exists() && !place.path("kept/a").exists());
    place.ok(&["restore", "link", "kept-new"]);
}

/// It was told that the folder is not empty, and nothing of how to go on.
#[test]
fn an_unfinished_restore_is_told_from_other_files() {
    let place = Place::new();
    place.ok(&["table", "create", "rows", "--data-dir", "data"]);
    place.ok(&["backup", "create", "data", "kept"]);
    place.ok(&["restore", "kept", "new"]);
    let remove = |is_it: fn(&str) -> bool| {
        for file in std::fs::read_dir(place.path("new")).unwrap().map(Result::unwrap) {
            if is_it(file.file_name().to_str().unwrap()) {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
        let ran = place.run(&["restore", "kept", "new"]);
        assert_eq!(ran.code, 5, "{}", ran.err);
        ran.err
    };
    // A database that has lost its root can be salvaged.
    let said = remove(|name| name.starts_with("ROOT-"));
    assert!(said.contains("new is not empty"), "{said}");
    let said = remove(|name| !name.ends_with(".sst"));
    let told = "new holds table files without a manifest, as a restore that was cut leaves";
    assert!(said.contains(told), "{said}");
    std::fs::remove_dir_all(place.path("new")).unwrap();
    place.ok(&["restore", "kept", "new"]);
}

#[test]
fn a_moment_before_the_first_commit_is_told() {
    let place = Place::new();
    let server = place.serve_with(0, "data", &["--history", "1h"]);
    let at = server.connection.clone();
    place.ok(&["table", "create", "rows", "--connection-string", &at]);
    insert(&place, &at, "a", 1);
    assert_eq!(server.terminate().0, 0);
    place.ok(&["backup", "create", "data", "kept"]);
    let early = place.ok(&["backup", "list", "kept", "-o", "jsonl"]).out;
    let from = early.split("\"from\":\"").nth(1).unwrap().split('"').next().unwrap();
    let ran = place.ok(&["restore", "kept", "before", "--at", from]);
    assert!(ran.err.contains("nothing existed then"), "{from}: {}", ran.err);
    let ran = place.ok(&["restore", "kept", "now"]);
    assert!(!ran.err.contains("nothing existed"), "{}", ran.err);
}
