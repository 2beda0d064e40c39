//! A person at a terminal: completion, a history without secrets, a way to stop what runs, and a
//! server that means harm.

use crate::common::Place;
use crate::endpoint::{Answer, Endpoint, hostile};
use crate::terminal::Terminal;

#[test]
fn a_hostile_server_does_no_harm_to_a_terminal() {
    let place = Place::new();
    let endpoint = Endpoint::start(hostile);
    let words = ["shell", "--connection-string", &endpoint.connection];
    let Some(mut terminal) = Terminal::start(&place, &words) else { return };
    for mode in ["table", "json", "jsonl", "csv", "tsv", "yaml"] {
        terminal.prompt("tabulith");
        terminal.press(&format!(".mode {mode}\r"));
        for line in [".tables", "query things", ".dump things", ".schema things", "query none"] {
            terminal.prompt("tabulith");
            terminal.press(&format!("{line}\r"));
        }
    }
    terminal.prompt("tabulith");
    // Only the name that shows as what it is is offered.
    terminal.press("query thi\t");
    terminal.wait("query things");
    terminal.press(" --filter \"pl\t");
    terminal.wait("plain");
    terminal.press("\u{3}");
    terminal.prompt("tabulith");
    terminal.press("\u{4}");
    let (code, seen) = terminal.end();
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("owned"), "{seen}");
    for raw in ["\u{1b}]0;owned", "\u{9b}", "\u{7f}", "owned\u{7}"] {
        assert!(!seen.contains(raw), "{raw:?} in {seen:?}");
    }
}

#[test]
fn a_person_has_completion_a_history_and_a_way_to_stop() {
    let place = Place::new();
    let endpoint = Endpoint::start(|path| match path {
        "Tables" => Answer::Json(200, r#"{"value":[{"TableName":"orders"}]}"#.to_owned()),
        "orders()" => Answer::Json(
            200,
            r#"{"value":[{"PartitionKey":"p","RowKey":"r","Total":12.5}]}"#.to_owned(),
        ),
        "slow()" => Answer::Never,
        _ => Answer::Json(404, String::new()),
    });
    let words = ["shell", "--connection-string", &endpoint.connection];
    let Some(mut terminal) = Terminal::start(&place, &words) else { return };
    terminal.prompt("tabulith");
    // Names of tables are asked for once.
    terminal.press(".use o\t");
    terminal.wait("orders");
    assert_eq!(endpoint.next_path(), "Tables");
    terminal.press("\r");
    terminal.prompt("orders");
    assert_eq!(endpoint.next_path(), "orders()");
    terminal.press("Tot\t gt 5\r");
    terminal.prompt("orders");
    assert_eq!(endpoint.next_path(), "orders()");
    terminal.press(".schema or\t\r");
    terminal.prompt("orders");
    assert_eq!(endpoint.next_path(), "orders()");
    // What runs is stopped; the shell stays, and goes on with what comes.
    terminal.press("query slow\r");
    assert_eq!(endpoint.next_path(), "slow()");
    terminal.press("\u{3}");
    terminal.wait("tabulith: interrupted");
    terminal.prompt("orders");
    terminal.press("query none\r");
    terminal.wait("tabulith: reading none");
    let secret = format!("query orders --connection-string '{}'", endpoint.connection);
    for line in ["sas decode 'sv=2019-02-02&sig=c2VjcmV0'", &secret, " .mode json"] {
        terminal.prompt("orders");
        terminal.press(&format!("{line}\r"));
    }
    terminal.prompt("orders");
    terminal.press("\u{4}");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&seen));
    let history = place.path("state").join("tabulith").join("shell").join("history");
    let text = std::fs::read_to_string(&history).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, [".use orders", "Total gt 5", ".schema orders", "query slow", "query none"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(history.as_path()), 0o600);
        assert_eq!(mode(history.parent().unwrap()), 0o700);
    }
    // The next shell has the lines of the first one.
    let Some(mut terminal) = Terminal::start(&place, &words) else { return };
    terminal.prompt("tabulith");
    terminal.press("\u{1b}[A");
    terminal.wait("query none");
    terminal.press("\u{3}");
    terminal.prompt("tabulith");
    terminal.press(".quit\r");
    assert_eq!(terminal.end().0, 0);
}
