//! `tabulith inspect`: the files of a data folder, listed or printed.

use crate::args::folder::{InspectArgs, Part};
use crate::args::output::Output;
use crate::exit::{Exit, Failure};
use crate::list;
use crate::print;
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use tabulith::inspect::{self, Depth, FileInfo, Kind};

/// Lists or prints.
pub(crate) fn run(args: &InspectArgs) -> Result<Exit> {
    let depth = match (args.what, args.offset) {
        (Part::Block, Some(offset)) => Depth::Block(offset),
        (Part::Filter, _) => Depth::Filters,
        _ if args.rows => Depth::Rows,
        _ if args.blocks => Depth::Blocks,
        _ => Depth::Sections,
    };
    if !args.path.exists() {
        let why = format!("there is no {}", args.path.display());
        return Err(Failure::new(Exit::NotFound, why).into());
    }
    check_flags(args)?;
    if !args.path.is_dir() {
        check_kind(&args.path, args.what)?;
        return print_file(&args.path, depth);
    }
    let files = inspect::files(&args.path)
        .with_context(|| format!("inspecting {}", args.path.display()))?;
    if files.iter().all(|file| file.kind == Kind::Lock) {
        let why = format!("there is no database in {}", args.path.display());
        return Err(Failure::new(Exit::NotFound, why).into());
    }
    let files: Vec<FileInfo> =
        files.into_iter().filter(|file| is_of(args.what, file.kind)).collect();
    match args.what {
        // The manifest is one thing, in several files.
        Part::Manifest => match files.iter().find(|file| file.kind == Kind::Root) {
            Some(root) => print_file(&args.path.join(&root.name), depth),
            None => Err(Failure::new(Exit::NotFound, "the folder has no manifest").into()),
        },
        Part::Filter => {
            for file in files.iter().filter(|file| file.is_live) {
                print_file(&args.path.join(&file.name), depth)?;
            }
            Ok(Exit::Ok)
        }
        Part::Block => {
            Err(Failure::usage("a block is one of a table file: PATH/000012.sst").into())
        }
        _ => {
            let items: Vec<Map<String, Json>> = files.iter().map(item).collect();
            let form = args.output.unwrap_or(Output::Table);
            list::print(&mut print::out(), form, &items)?;
            Ok(Exit::Ok)
        }
    }
}

/// A flag that would mean nothing is a mistake.
fn check_flags(args: &InspectArgs) -> Result<()> {
    if args.offset.is_some() && args.what != Part::Block {
        let why = "--offset is where a block begins: tabulith inspect block PATH --offset BYTES";
        return Err(Failure::usage(why).into());
    }
    let lists = args.path.is_dir() && !matches!(args.what, Part::Manifest | Part::Filter);
    if args.output.is_some() && !lists {
        let why = "--output is the form of a list of files; what is in them is text";
        return Err(Failure::usage(why).into());
    }
    Ok(())
}

fn is_of(part: Part, kind: Kind) -> bool {
    match part {
        Part::All => true,
        Part::Wal => kind == Kind::Log,
        Part::Manifest => matches!(kind, Kind::Root | Kind::Manifest),
        Part::Sst | Part::Block | Part::Filter => kind == Kind::Table,
        Part::Blob => kind == Kind::Blob,
    }
}

/// A file of another kind than the one that is asked for is a mistake.
fn check_kind(path: &Path, part: Part) -> Result<()> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let fits = match part {
        Part::All => true,
        Part::Wal => ending == "wal",
        Part::Manifest => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("ROOT-") || ending.starts_with("manifest-")
        }
        Part::Sst | Part::Block | Part::Filter => ending == "sst",
        Part::Blob => ending == "blob",
    };
    match fits {
        true => Ok(()),
        false => Err(Failure::usage(format!("{} is of another kind", path.display())).into()),
    }
}

fn print_file(path: &Path, depth: Depth) -> Result<Exit> {
    let mut out = BufWriter::new(print::out());
    let mut written = Ok(());
    inspect::dump(path, depth, &mut |line| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    })
    .with_context(|| format!("inspecting {}", path.display()))?;
    written?;
    out.flush()?;
    Ok(Exit::Ok)
}

fn item(file: &FileInfo) -> Map<String, Json> {
    let kind = match file.kind {
        Kind::Root => "root",
        Kind::Manifest => "manifest",
        Kind::Log => "log",
        Kind::Table => "table",
        Kind::Blob => "blob",
        Kind::Lock => "lock",
        Kind::Leftover => "leftover",
    };
    Map::from_iter([
        ("name".to_owned(), Json::from(file.name.as_str())),
        ("kind".to_owned(), Json::from(kind)),
        ("bytes".to_owned(), Json::from(file.bytes)),
        ("level".to_owned(), Json::from(file.level)),
        ("needed".to_owned(), Json::from(file.is_live)),
    ])
}
