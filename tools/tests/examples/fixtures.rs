//! What commands find: the tables, files and folders that they name.

use crate::pages::Page;
use crate::stage::Scene;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// A result as `bench run --out` writes it.
const RESULT: &str = include_str!("../bench/result.jsonl");

/// Makes what the commands of a page name.
pub(crate) fn prepare(scene: &Scene<'_>, page: &Page) {
    let (name, text) = (page.name.as_str(), page.text());
    let names = |what: &str| text.contains(what);
    scene.roots(&text);
    scene.file("flights.csv.gz", flights());
    scene.file("orders.jsonl", orders());
    scene
        .file("order.json", "{\"PartitionKey\":\"tenant-7\",\"RowKey\":\"0042\",\"Total\":99.5}\n");
    if scene.has_server() {
        tables(scene, name, &names);
    }
    if names("tabulith-data") && !matches!(name, "copy" | "restore" | "serve") {
        folder(scene, "tabulith-data");
    }
    if names("/mnt/backups") && name != "backup-create" && name != "docs/backup.md" {
        backups(scene, if names("--backup 12") { 12 } else { 2 });
    }
    results(scene, page);
    others(scene, &names);
}

/// Tables of the server.
fn tables(scene: &Scene<'_>, page: &str, names: &dyn Fn(&str) -> bool) {
    if names("orders") && page != "entity-insert" {
        scene.prepare(&["import", "orders.jsonl", "-t", "orders", "--restart"]);
    } else if names("orders") {
        scene.prepare(&["table", "create", "orders"]);
    }
    if names("customers") {
        scene.prepare(&["import", "orders.jsonl", "-t", "customers", "--restart"]);
    }
    if names("flights") {
        scene.prepare(
            &[&["import", "flights.csv.gz", "-t", "flights", "--restart"], &KEYS[..]].concat(),
        );
    }
    if names("$ETAG") {
        let row = ["-e", "PartitionKey=tenant-7", "RowKey=0042", "Total=1.5"];
        let etag = scene.prepare(&[&["entity", "upsert", "-t", "orders"], &row[..]].concat());
        scene.set("ETAG", etag.trim().to_owned());
    }
}

const KEYS: [&str; 4] = [
    "--partition-key",
    "{origin}-{carrier}",
    "--row-key",
    "{month:02}{day:02}-{sched_dep_time:04}-{flight:05}",
];

/// A data folder with both tables and a table file.
fn folder(scene: &Scene<'_>, dir: &str) {
    let of = ["--restart", "--data-dir", dir];
    scene.prepare(&[&["import", "flights.csv.gz", "-t", "flights"], &KEYS[..], &of].concat());
    scene.prepare(&[&["import", "orders.jsonl", "-t", "orders"], &of[..]].concat());
    scene.prepare(&["compact", dir]);
}

/// Backups of a folder, so many.
fn backups(scene: &Scene<'_>, how_many: u32) {
    folder(scene, "source");
    let dest = scene.folder.join("mnt/backups");
    for _ in 0..how_many {
        scene.prepare(&["backup", "create", "source", dest.to_str().unwrap()]);
    }
}

/// The results that reports are made of.
fn results(scene: &Scene<'_>, page: &Page) {
    let commands = page.scripts.iter().flat_map(|script| &script.commands);
    for command in commands.filter(|c| c.contains("bench report") || c.contains("bench compare")) {
        for file in command.split_whitespace().filter(|word| word.ends_with(".jsonl")) {
            scene.file(file, RESULT);
        }
    }
}

fn others(scene: &Scene<'_>, names: &dyn Fn(&str) -> bool) {
    if names("profile:azure") {
        let profile = format!("[azure]\nconnection-string = \"{}\"\n", scene.connection());
        scene.file("home/.config/tabulith/profiles.toml", profile);
    }
    if names("azurite:azurite/") {
        let row = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"properties\":{\"N\":7}}";
        let table = format!("{{\"name\":\"devstoreaccount1$carts\",\"data\":[{row}]}}");
        let database = format!("{{\"collections\":[{table}]}}");
        scene.file("azurite/__azurite_db_table__.json", database);
    }
    if names("$TOKEN") {
        let sas = ["sas", "create", "-t", "orders", "--permissions", "r", "--expiry", "8h"];
        scene.set("TOKEN", scene.prepare(&sas).trim().to_owned());
    }
    if names("--accounts-file accounts") {
        scene.file("accounts", "shop:c2VjcmV0\n");
    }
    if names("report.txt") {
        scene.file("report.txt", "query flights --filter \"dep_delay gt 60\"\n");
    }
    if names("tabulith.toml") {
        scene.file("tabulith.toml", "data-dir = \"configured\"\nconnections = 100\n");
    }
    if names("written-keys.tsv") {
        let keys: String = (0..2_000).map(|n| format!("tenant{}\t{n:06}\n", n % 40)).collect();
        scene.file("written-keys.tsv", keys);
    }
    if names(":10003/_/live") {
        scene.second_server();
    }
    for folder in [".local/share/bash-completion/completions", ".local/share/man"] {
        if names(&format!("~/{folder}")) {
            std::fs::create_dir_all(scene.folder.join("home").join(folder)).unwrap();
        }
    }
}

fn flights() -> Vec<u8> {
    let mut text = "origin,carrier,month,day,sched_dep_time,flight,dep_delay\n".to_owned();
    for n in 0..200 {
        let (origin, carrier) = (["EWR", "JFK", "LGA"][n % 3], ["UA", "B6"][n % 2]);
        let delay = if n % 9 == 0 { "NA".to_owned() } else { (n as i32 - 40).to_string() };
        text += &format!("{origin},{carrier},1,{},{},{n},{delay}\n", 1 + n % 28, 500 + n);
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn orders() -> String {
    let row = |n: u32| {
        let (tenant, paid) = (7 + n % 3, n.is_multiple_of(2));
        format!(
            "{{\"PartitionKey\":\"tenant-{tenant}\",\"RowKey\":\"{n:04}\",\"Total\":{n}.5,\"Paid\":{paid}}}\n"
        )
    };
    (0..60).map(row).collect()
}
