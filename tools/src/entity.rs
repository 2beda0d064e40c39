//! `tabulith entity`: single entities written, printed, deleted, and all that match a filter
//! deleted.

use crate::args::entity::{
    ChangeArgs, DeleteArgs, DeleteWhereArgs, EntityArgs, EntityCommand, IfExists, InsertArgs,
    KeyArgs, QueryEntitiesArgs, ShowArgs, UpsertArgs,
};
use crate::args::output::Output;
use crate::args::rows::QueryArgs;
use crate::args::target::TargetArgs;
use crate::ask::{Ask, Change, Condition, Key};
use crate::confirm;
use crate::exit::{Exit, Failure};
use crate::folder::Access;
use crate::given;
use crate::json;
use crate::list;
use crate::print;
use crate::query;
use crate::sweep;
use crate::target::Target;
use anyhow::Result;
use serde_json::{Map, Value as Json};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tabulith::table::entity::Entity;

/// Does it.
pub(crate) async fn run(args: EntityArgs) -> Result<Exit> {
    match args.what {
        EntityCommand::Insert(args) => insert(args).await,
        EntityCommand::Merge(args) => update(args, Change::Merge).await,
        EntityCommand::Replace(args) => update(args, Change::Replace).await,
        EntityCommand::Upsert(args) => upsert(args).await,
        EntityCommand::Show(args) => show(args).await,
        EntityCommand::Query(args) => query::run(rows_of(args)).await,
        EntityCommand::Delete(args) => delete(args).await,
        EntityCommand::DeleteWhere(args) => delete_where(args).await,
    }
}

async fn insert(args: InsertArgs) -> Result<Exit> {
    let entity = given::entity(&args.given)?;
    let change = match args.if_exists {
        IfExists::Fail => Change::Insert(entity),
        IfExists::Merge => Change::UpsertMerge(entity),
        IfExists::Replace => Change::Upsert(entity),
    };
    write(&args.target, &args.table_name, change, args.output).await
}

async fn update(args: ChangeArgs, how: fn(Entity, Condition) -> Change) -> Result<Exit> {
    let change = how(given::entity(&args.given)?, condition(args.if_match));
    write(&args.target, &args.table_name, change, args.output).await
}

async fn upsert(args: UpsertArgs) -> Result<Exit> {
    let entity = given::entity(&args.given)?;
    let change = if args.merge { Change::UpsertMerge(entity) } else { Change::Upsert(entity) };
    write(&args.target, &args.table_name, change, args.output).await
}

/// Does a change and prints the entity's ETag.
async fn write(place: &TargetArgs, table: &str, change: Change, form: Output) -> Result<Exit> {
    let target = Target::open(place, Access::Change, Duration::ZERO)?;
    let etag = target.change(table, change).await?.unwrap_or_default();
    target.close()?;
    let item = Map::from_iter([("etag".to_owned(), Json::from(etag))]);
    list::print(&mut print::out(), form, &[item])?;
    Ok(Exit::Ok)
}

async fn show(args: ShowArgs) -> Result<Exit> {
    let KeyArgs { table_name, partition_key, row_key } = args.key;
    let target = Target::open(&args.target, Access::Read, Duration::ZERO)?;
    let key = Key { partition: partition_key, row: row_key };
    let Some((mut entity, etag)) = target.show(&table_name, &key).await? else {
        let Key { partition, row } = key;
        let why = format!("{table_name} has no entity '{partition}', '{row}'");
        return Err(Failure::new(Exit::NotFound, why).into());
    };
    if let Some(select) = &args.select {
        entity.properties.retain(|(name, _)| select.contains(name));
    }
    let mut text = Vec::new();
    json::write_entity(&mut text, &entity);
    let members: Map<String, Json> = serde_json::from_slice(&text)?;
    let mut item = Map::from_iter([("odata.etag".to_owned(), Json::from(etag))]);
    item.extend(members);
    let mut out = print::out();
    if args.output == Output::Json {
        writeln!(out, "{:#}", Json::Object(item))?;
    } else {
        list::print(&mut out, args.output, &[item])?;
    }
    Ok(Exit::Ok)
}

/// What `tabulith query` is asked for the same.
fn rows_of(args: QueryEntitiesArgs) -> QueryArgs {
    QueryArgs {
        table: args.table_name,
        filter: args.filter,
        select: args.select,
        top: args.num_results,
        count: false,
        explain: false,
        output: args.output,
        target: args.target,
    }
}

async fn delete(args: DeleteArgs) -> Result<Exit> {
    let KeyArgs { table_name, partition_key, row_key } = args.key;
    let target = Target::open(&args.target, Access::Change, Duration::ZERO)?;
    let key = Key { partition: partition_key, row: row_key };
    target.change(&table_name, Change::Delete(key, condition(args.if_match))).await?;
    target.close()?;
    Ok(Exit::Ok)
}

async fn delete_where(args: DeleteWhereArgs) -> Result<Exit> {
    let table = &args.table_name;
    if args.dry_run {
        let target = Target::open(&args.target, Access::Read, Duration::ZERO)?;
        let rows = query::count(&target, table, Some(args.filter), None).await?;
        writeln!(print::out(), "{rows}")?;
        return Ok(Exit::Ok);
    }
    if args.filter.trim().is_empty() {
        let why =
            "an empty filter is true of every row; `tabulith table truncate` deletes them all";
        return Err(Failure::usage(why).into());
    }
    confirm::or_end(&format!("Delete the rows of {table} where {}?", args.filter), args.yes)?;
    let target = Arc::new(Target::open(&args.target, Access::Change, sweep::PATIENCE)?);
    let rows = sweep::delete(&target, table, &Ask::rows(Some(args.filter), None)).await?;
    target.close()?;
    writeln!(print::out(), "{rows}")?;
    Ok(Exit::Ok)
}

fn condition(if_match: String) -> Condition {
    if if_match == "*" { Condition::Any } else { Condition::Is(if_match) }
}
