//! What operations do, as far as permission for them goes.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Shows the settings of the service.
    ReadService,
    /// Changes the settings of the service.
    WriteService,
    /// Shows how far the second endpoint has come.
    ReadStats,
    /// Shows the names of tables.
    ListTables,
    /// Shows whether a table is there.
    ReadTable,
    /// Makes a table.
    CreateTable,
    /// Removes a table.
    DeleteTable,
    /// Shows a table's stored policies.
    GetAcl,
    /// Changes a table's stored policies.
    SetAcl,
    /// Reads entities.
    Read,
    /// Adds an entity.
    Insert,
    /// Adds or changes an entity.
    Upsert,
    /// Changes an entity.
    Update,
    /// Removes an entity.
    Delete,
}

impl Access {
    /// Each of them once.
    pub const ALL: [Access; 14] = [
        Access::ReadService,
        Access::WriteService,
        Access::ReadStats,
        Access::ListTables,
        Access::ReadTable,
        Access::CreateTable,
        Access::DeleteTable,
        Access::GetAcl,
        Access::SetAcl,
        Access::Read,
        Access::Insert,
        Access::Upsert,
        Access::Update,
        Access::Delete,
    ];

    /// Those that change entities, which is all that a batch may change.
    pub const CHANGES: [Access; 4] =
        [Access::Insert, Access::Upsert, Access::Update, Access::Delete];

    /// Whether it leaves everything as it is, so that the second endpoint may do it.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Access::ReadService
                | Access::ReadStats
                | Access::ListTables
                | Access::ReadTable
                | Access::GetAcl
                | Access::Read
        )
    }
}
