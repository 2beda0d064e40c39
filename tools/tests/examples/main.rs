//! Every command that the help, the man pages and the documents show, run as it stands there, by
//! `sh`.
//!
//! A page of help, and a document, has a folder of its own in which its commands follow one
//! another, and finds there what they name. A server answers at the documented port; where that
//! port is taken, another one stands in the text. `/mnt/…` and `/var/lib/…` lie below the page's
//! folder.
//!
//! Absent are the commands of `exceptions`, each with its reason.
#![cfg(unix)]
#![allow(clippy::print_stderr, reason = "what is left out must be seen")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "drives processes and their files"
)]

mod exceptions;
mod stage;
mod pages;
mod fixtures;

use exceptions::{Exceptions, Fate};
use pages::{Page, Script};
use stage::Stage;
use std::collections::BTreeMap;
use tabulith_testkit::counts::{self, count};

/// Runs the scripts of pages that have some of a kind; adds up the commands that ran, and what went
/// wrong.
fn play(
    stage: &Stage,
    pages: &[Page],
    servers: bool,
    exceptions: &mut Exceptions,
    wrong: &mut Vec<String>,
) -> u64 {
    let mut ran = 0;
    for page in pages {
        let of_kind = |script: &&Script| script.is_server() == servers;
        let scripts: Vec<&Script> = page.scripts.iter().filter(of_kind).collect();
        if scripts.is_empty() {
            continue;
        }
        let scene = stage.scene(&page.name);
        fixtures::prepare(&scene, page);
        for script in scripts {
            let mut lines = Vec::new();
            for command in &script.commands {
                match exceptions.fate(command) {
                    Fate::LeftOut(why) => eprintln!("left out: {command}: {why}"),
                    Fate::Ends(code) => lines.push((command.as_str(), code)),
                }
            }
            ran += lines.iter().filter(|(command, _)| pages::is_ours(command)).count() as u64;
            if servers {
                lines.iter().for_each(|(command, _)| scene.serve_once(&script.place, command));
            } else {
                wrong.extend(scene.run(&script.place, &lines));
            }
        }
    }
    ran
}

#[test]
fn every_example_does_what_it_says() {
    let mut stage = Stage::new();
    let help = pages::of_help(&stage);
    let documents = pages::of_documents();
    let mut exceptions = Exceptions::default();
    let (mut ran, mut wrong) = ([0; 2], Vec::new());
    for servers in [false, true] {
        if servers {
            stage.end_server();
        }
        for (ran, pages) in ran.iter_mut().zip([&help, &documents]) {
            *ran += play(&stage, pages, servers, &mut exceptions, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} commands went wrong:\n{}", wrong.len(), wrong.join("\n"));
    exceptions.all_are_needed();
    counts::tell("examples", &[count("of_help", ran[0], 75), count("of_documents", ran[1], 20)]);
}

#[test]
fn man_pages_show_the_examples_of_the_help() {
    let stage = Stage::without_server();
    let examples = |pages: Vec<Page>| -> BTreeMap<String, Vec<String>> {
        let commands = |page: Page| page.scripts.into_iter().flat_map(|script| script.commands);
        pages.into_iter().map(|page| (page.name.clone(), commands(page).collect())).collect()
    };
    let of_help = examples(pages::of_help(&stage));
    assert!(of_help.len() > 30, "{} pages", of_help.len());
    assert_eq!(examples(pages::of_man(&stage)), of_help);
}
