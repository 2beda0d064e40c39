//! `tabulith table`: tables made, listed, deleted, emptied.

use crate::args::table::{
    CreateTableArgs, DeleteTableArgs, ListTablesArgs, TableArgs, TableCommand, TruncateArgs,
};
use crate::ask::Ask;
use crate::confirm;
use crate::exit::{Exit, Failure};
use crate::folder::Access;
use crate::import::report::grouped;
use crate::list;
use crate::print::{self, note};
use crate::query;
use crate::sweep;
use crate::target::Target;
use anyhow::Result;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::time::Duration;

/// Does it.
pub(crate) async fn run(args: TableArgs) -> Result<Exit> {
    match args.what {
        TableCommand::Create(args) => create(args).await,
        TableCommand::List(args) => print_names(args).await,
        TableCommand::Delete(args) => delete(args).await,
        TableCommand::Truncate(args) => truncate(args).await,
    }
}

async fn create(args: CreateTableArgs) -> Result<Exit> {
    let table = args.table;
    let target = Target::open(&args.target, Access::Write, Duration::ZERO)?;
    let made = target.create_table(&table).await?;
    target.close()?;
    match (made, args.fail_on_exist) {
        (true, _) => note(&format!("made {table}")),
        (false, false) => note(&format!("{table} exists")),
        (false, true) => {
            return Err(Failure::new(Exit::Conflict, format!("{table} exists")).into());
        }
    }
    Ok(Exit::Ok)
}

async fn print_names(args: ListTablesArgs) -> Result<Exit> {
    let target = Target::open(&args.target, Access::Read, Duration::ZERO)?;
    let prefix = args.prefix.to_lowercase();
    let mut items = Vec::new();
    for name in target.tables().await? {
        if !name.to_lowercase().starts_with(&prefix) {
            continue;
        }
        let mut item = Map::from_iter([("name".to_owned(), Json::from(name.as_str()))]);
        if args.count {
            let rows = query::count(&target, &name, None, None).await?;
            item.insert("rows".to_owned(), Json::from(rows));
        }
        items.push(item);
    }
    list::print(&mut print::out(), args.output, &items)?;
    Ok(Exit::Ok)
}

async fn delete(args: DeleteTableArgs) -> Result<Exit> {
    let table = args.table;
    let target = Target::open(&args.target, Access::Change, Duration::ZERO)?;
    let gone = target.delete_table(&table).await?;
    target.close()?;
    match (gone, args.fail_not_exist) {
        (true, _) => note(&format!("deleted {table}")),
        (false, false) => note(&format!("there is no {table}")),
        (false, true) => {
            return Err(Failure::new(Exit::NotFound, format!("there is no {table}")).into());
        }
    }
    Ok(Exit::Ok)
}

async fn truncate(args: TruncateArgs) -> Result<Exit> {
    let table = args.table;
    confirm::or_end(&format!("Delete all rows of {table}?"), args.yes)?;
    let target = Target::open(&args.target, Access::Change, sweep::PATIENCE)?;
    if let Target::Folder(folder) = &target {
        folder.truncate(&table).await?;
        target.close()?;
        note(&format!("emptied {table}"));
    } else {
        let rows = sweep::delete(&Arc::new(target), &table, &Ask::rows(None, None)).await?;
        note(&format!("emptied {table}, {} rows", grouped(rows)));
    }
    Ok(Exit::Ok)
}
