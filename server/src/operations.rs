//! The kinds of operations: how rules, metrics and logs name them, and where they are asked for.

/// What a request asks for, whatever it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tables of the account.
    ListTables,
    /// One table.
    GetTable,
    /// A new table.
    CreateTable,
    /// A table's end.
    DeleteTable,
    /// Entities of a table.
    Query,
    /// One entity.
    Get,
    /// A new entity.
    Insert,
    /// An entity in place of another, or a new one.
    InsertOrReplace,
    /// Properties over those of an entity, or a new one.
    InsertOrMerge,
    /// An entity in place of another.
    Update,
    /// Properties over those of an entity.
    Merge,
    /// An entity's end.
    Delete,
    /// Several of these at once.
    Batch,
    /// The collections that are there by themselves.
    Document,
    /// The tables as OData describes them.
    Metadata,
    /// The properties of the service.
    GetProperties,
    /// Other properties for the service.
    SetProperties,
    /// How far the second endpoint has come.
    GetStats,
    /// A table's stored policies.
    GetAcl,
    /// Other stored policies for a table.
    SetAcl,
}

const ENTITY: &str = "/{account}/{table}(PartitionKey='{partition}',RowKey='{row}')";

impl Kind {
    /// All of them, each at the place of its number.
    pub const ALL: [Kind; 20] = [
        Kind::ListTables,
        Kind::GetTable,
        Kind::CreateTable,
        Kind::DeleteTable,
        Kind::Query,
        Kind::Get,
        Kind::Insert,
        Kind::InsertOrReplace,
        Kind::InsertOrMerge,
        Kind::Update,
        Kind::Merge,
        Kind::Delete,
        Kind::Batch,
        Kind::Document,
        Kind::Metadata,
        Kind::GetProperties,
        Kind::SetProperties,
        Kind::GetStats,
        Kind::GetAcl,
        Kind::SetAcl,
    ];

    /// Its name, as rules of the fault lab have it.
    pub fn name(self) -> &'static str {
        self.name_and_route().0
    }

    /// The form of the path where it is asked for: names and keys are not told.
    pub fn route(self) -> &'static str {
        self.name_and_route().1
    }

    /// Whether such a request names its table in its address.
    pub fn names_table(self) -> bool {
        self.route().contains("{table}")
    }

    fn name_and_route(self) -> (&'static str, &'static str) {
        match self {
            Kind::ListTables => ("list-tables", "/{account}/Tables"),
            Kind::GetTable => ("get-table", "/{account}/Tables('{table}')"),
            Kind::CreateTable => ("create-table", "/{account}/Tables"),
            Kind::DeleteTable => ("delete-table", "/{account}/Tables('{table}')"),
            Kind::Query => ("query", "/{account}/{table}()"),
            Kind::Get => ("get", ENTITY),
            Kind::Insert => ("insert", "/{account}/{table}"),
            Kind::InsertOrReplace => ("insert-or-replace", ENTITY),
            Kind::InsertOrMerge => ("insert-or-merge", ENTITY),
            Kind::Update => ("update", ENTITY),
            Kind::Merge => ("merge", ENTITY),
            Kind::Delete => ("delete", ENTITY),
            Kind::Batch => ("batch", "/{account}/$batch"),
            Kind::Document => ("document", "/{account}"),
            Kind::Metadata => ("metadata", "/{account}/$metadata"),
            Kind::GetProperties => ("get-properties", "/{account}"),
            Kind::SetProperties => ("set-properties", "/{account}"),
            Kind::GetStats => ("get-stats", "/{account}"),
            Kind::GetAcl => ("get-acl", "/{account}/{table}"),
            Kind::SetAcl => ("set-acl", "/{account}/{table}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTITY, Kind};
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_a_name_and_a_number_of_its_own() {
        let names: BTreeSet<_> = Kind::ALL.into_iter().map(Kind::name).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        assert!(Kind::ALL.into_iter().enumerate().all(|(at, kind)| kind as usize == at));
        assert_eq!(Kind::Batch.route(), "/{account}/$batch");
        assert_eq!(Kind::SetAcl.route(), "/{account}/{table}");
        assert_eq!(Kind::ALL.into_iter().filter(|kind| kind.route() == ENTITY).count(), 6);
    }
}
