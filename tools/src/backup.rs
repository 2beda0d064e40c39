//! `tabulith backup` and `tabulith restore`: backups made, listed, proved, pruned, restored.

use crate::apart;
use crate::args::backup::{
    BackupArgs, BackupCommand, CreateBackupArgs, ListBackupsArgs, PruneBackupsArgs, RestoreArgs,
    VerifyBackupsArgs,
};
use crate::exit::{self, Exit, Failure};
use crate::import::report::grouped;
use crate::list;
use crate::print::{self, note};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};
use std::io::Write as _;
use std::path::Path;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backup, Backups, Created, Which};
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;
use tabulith_server::auth::moment;

/// Does it.
pub(crate) fn run(args: &BackupArgs) -> Result<Exit> {
    match &args.what {
        BackupCommand::Create(args) => create(args),
        BackupCommand::List(args) => print_list(args),
        BackupCommand::Verify(args) => verify(args),
        BackupCommand::Prune(args) => prune(args),
    }
}

fn sharing(copy: bool) -> Sharing {
    if copy { Sharing::Copy } else { Sharing::Link }
}

fn create(args: &CreateBackupArgs) -> Result<Exit> {
    let (dir, dest) = (args.data_dir.display(), args.dest.display());
    apart::check(&args.data_dir, &args.dest)?;
    let created = Backups::at(&args.dest).create(&args.data_dir, sharing(args.copy));
    let Created { backup, brought, .. } =
        created.with_context(|| format!("a backup of {dir} in {dest}"))?;
    list::print(&mut print::out(), args.output, &[item(&backup)])?;
    let how = match (brought.files, brought.linked) {
        (0, _) => "",
        (files, linked) if files == linked => ", shared by hard links",
        (_, 0) => ", copied",
        _ => ", some of them shared by hard links",
    };
    note(&format!(
        "backup {} in {dest}: {} files of {} bytes; new are {} of {} bytes{how}",
        backup.number,
        grouped(backup.files),
        grouped(backup.bytes),
        grouped(brought.files),
        grouped(brought.bytes)
    ));
    Ok(Exit::Ok)
}

fn print_list(args: &ListBackupsArgs) -> Result<Exit> {
    let backups = Backups::at(&args.dest).list();
    let backups = backups.with_context(|| format!("the backups in {}", args.dest.display()))?;
    check_any(backups.len() as u64, &args.dest)?;
    let items: Vec<Map<String, Json>> = backups.iter().map(item).collect();
    list::print(&mut print::out(), args.output, &items)?;
    Ok(Exit::Ok)
}

/// Fails where there is no backup: the folder may be the wrong one, or nothing is mounted there.
fn check_any(backups: u64, dest: &Path) -> Result<()> {
    if backups > 0 {
        return Ok(());
    }
    let what = format!("there is no backup in {}", dest.display());
    Err(Failure::new(Exit::NotFound, what).into())
}

fn item(backup: &Backup) -> Map<String, Json> {
    let time = |at: CommitTs| Json::from(DateTime::from(at).to_string());
    Map::from_iter([
        ("backup".to_owned(), Json::from(backup.number)),
        ("made".to_owned(), time(backup.made)),
        ("from".to_owned(), time(backup.from)),
        ("to".to_owned(), time(backup.to)),
        ("quiet".to_owned(), time(backup.quiet)),
        ("files".to_owned(), Json::from(backup.files)),
        ("bytes".to_owned(), Json::from(backup.bytes)),
        ("own_bytes".to_owned(), Json::from(backup.own_bytes)),
        ("database".to_owned(), Json::from(format!("{:032x}", backup.database))),
    ])
}

fn verify(args: &VerifyBackupsArgs) -> Result<Exit> {
    let dest = args.dest.display();
    let report = Backups::at(&args.dest).verify();
    let report = report.with_context(|| format!("the backups in {dest}"))?;
    let mut out = print::out();
    let told = report.damage.iter().try_for_each(|damage| writeln!(out, "{damage}"));
    if report.damage.is_empty() {
        check_any(report.backups, &args.dest)?;
    }
    if report.unused > 0 {
        let files = grouped(report.unused);
        note(&format!("{files} files are of no backup: a run was cut, and the next one uses them"));
    }
    let read = format!(
        "{} backups, {} files of {} bytes",
        grouped(report.backups),
        grouped(report.files),
        grouped(report.bytes)
    );
    match report.damage.len() {
        0 => {
            note(&format!("{dest} is clean: {read}"));
            exit::verdict(told, Exit::Ok)
        }
        places => {
            note(&format!("{dest} is damaged in {places} places: {read}"));
            exit::verdict(told, Exit::Corrupt)
        }
    }
}

fn prune(args: &PruneBackupsArgs) -> Result<Exit> {
    let pruned = Backups::at(&args.dest).prune(args.keep.get());
    let pruned = pruned.with_context(|| format!("pruning {}", args.dest.display()))?;
    note(&format!(
        "{} backups are gone, and {} files of {} bytes",
        pruned.backups.len(),
        grouped(pruned.files),
        grouped(pruned.bytes)
    ));
    Ok(Exit::Ok)
}

/// Makes a data folder out of a backup.
pub(crate) fn restore(args: &RestoreArgs) -> Result<Exit> {
    let (dest, new) = (args.dest.display(), args.new_dir.display());
    // A run clears away files of such names there.
    apart::check(&args.dest, &args.new_dir)?;
    let backups = Backups::at(&args.dest);
    let which = match (&args.at, args.backup) {
        (Some(text), None) => Which::At(moment_of(text)?),
        (Some(text), Some(number)) => Which::NumberAt(number, moment_of(text)?),
        (None, Some(number)) => Which::Number(number),
        (None, None) => Which::Newest,
    };
    if let Which::At(at) = which {
        check_moment(&backups, at)?;
    }
    let restored = backups.restore(which, &args.new_dir, sharing(args.copy));
    let restored = restored.with_context(|| format!("restoring {dest} to {new}"))?;
    note(&format!(
        "{new} holds backup {} as of {}: {} files of {} bytes",
        restored.number,
        DateTime::from(restored.at),
        grouped(restored.files),
        grouped(restored.bytes)
    ));
    if restored.files == 0 && args.at.is_some() {
        note("nothing existed then: the folder is a database without tables");
    }
    Ok(Exit::Ok)
}

fn moment_of(text: &str) -> Result<CommitTs> {
    let read = moment::parse(text).filter(|_| text.contains('T')).and_then(DateTime::commit);
    let what = || Failure::usage(format!("--at {text}: a time such as 2026-11-22T14:05:00Z"));
    Ok(read.ok_or_else(what)?)
}

/// Says in people's times which moments there are, where the one that is asked for is none of them.
fn check_moment(backups: &Backups, at: CommitTs) -> Result<()> {
    // A manifest that does not read stands in the way of the list, not of a restore from others.
    let Ok(all) = backups.list() else { return Ok(()) };
    let shows = |backup: &Backup| (backup.from..=backup.quiet).contains(&at);
    if all.is_empty() || all.iter().any(shows) {
        return Ok(());
    }
    let spans = all.iter().map(|backup| {
        format!("{} to {}", DateTime::from(backup.from), DateTime::from(backup.quiet))
    });
    let spans: Vec<String> = spans.collect();
    let what = format!(
        "no backup shows {}; those that there are show {}",
        DateTime::from(at),
        spans.join(", ")
    );
    Err(Failure::new(Exit::NotFound, what).into())
}
