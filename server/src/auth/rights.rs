//! What each kind of credentials may do: one function, for requests of their own and for those
//! within a batch.

use crate::auth::access::Access;
use crate::auth::key_range::KeyRange;
use crate::auth::permissions::Letters;
use crate::auth::policy::Stored;
use crate::auth::roles::Actions;
use crate::error::{
    AUTHORIZATION_FAILURE, AUTHORIZATION_PERMISSION_MISMATCH, AUTHORIZATION_RESOURCE_TYPE_MISMATCH,
    WireError,
};
use tabulith::table::name::TableName;

/// What somebody may do with an account.
#[derive(Clone, Debug)]
pub enum Rights {
    /// Everything: they hold a key.
    Owner,
    /// What an account SAS says.
    Account {
        /// Kinds of resources: service, container, object.
        resources: Letters,
        /// What may be done with them.
        permissions: Letters,
    },
    /// What a bearer token says.
    Roles(Actions),
    /// What a table SAS says.
    Table {
        /// The table.
        table: TableName,
        /// What may be done with its entities.
        permissions: Letters,
        /// With those of these keys.
        range: KeyRange,
        /// The stored policy that this depends on.
        stored: Option<Stored>,
    },
}

impl Rights {
    /// Whether they cover any change of entities.
    pub fn cover_changes(&self) -> bool {
        let table = match self {
            Rights::Table { table, .. } => Some(table.as_str()),
            _ => None,
        };
        Access::CHANGES.iter().any(|access| self.check(*access, table).is_ok())
    }

    /// Whether they cover an operation, whatever the keys of its entities.
    pub fn check(&self, access: Access, table: Option<&str>) -> Result<(), WireError> {
        match self {
            Rights::Owner => Ok(()),
            Rights::Roles(actions) if actions.cover(access) => Ok(()),
            // Planted: one operation does not know this kind of credentials.
            Rights::Roles(_) if tabulith::planted!("B39") && access == Access::Upsert => Ok(()),
            Rights::Roles(_) => Err(AUTHORIZATION_PERMISSION_MISMATCH),
            Rights::Account { resources, permissions } => {
                check_account(*resources, *permissions, access)
            }
            Rights::Table { table: own, permissions, .. } => {
                let letters = entity_letters(access).ok_or(AUTHORIZATION_FAILURE)?;
                let same = table.is_some_and(|table| table.eq_ignore_ascii_case(own.as_str()));
                match (same, permissions.have(letters)) {
                    (false, _) => Err(AUTHORIZATION_FAILURE),
                    (true, false) => Err(AUTHORIZATION_PERMISSION_MISMATCH),
                    (true, true) => Ok(()),
                }
            }
        }
    }
}

/// The letters that an operation on entities needs, all of them.
fn entity_letters(access: Access) -> Option<&'static str> {
    match access {
        Access::Read => Some("r"),
        Access::Insert => Some("a"),
        Access::Upsert => Some("au"),
        Access::Update => Some("u"),
        Access::Delete => Some("d"),
        _ => None,
    }
}

fn check_account(
    resources: Letters,
    permissions: Letters,
    access: Access,
) -> Result<(), WireError> {
    // One of these kinds of resources; one of these permissions, or all of them for entities.
    let (kinds, one_of) = match access {
        Access::GetAcl | Access::SetAcl => return Err(AUTHORIZATION_FAILURE),
        Access::ReadService | Access::ReadStats => ("s", "r"),
        Access::WriteService => ("s", "w"),
        // The documentation changed its mind from service to container.
        Access::ListTables => ("cs", "l"),
        Access::ReadTable => ("c", "lr"),
        Access::CreateTable => ("c", "cw"),
        Access::DeleteTable => ("c", "d"),
        Access::Read | Access::Insert | Access::Upsert | Access::Update | Access::Delete => {
            ("o", "")
        }
    };
    if !resources.have_any(kinds) {
        return Err(AUTHORIZATION_RESOURCE_TYPE_MISMATCH);
    }
    let permitted = match entity_letters(access) {
        Some(all_of) => permissions.have(all_of),
        None => permissions.have_any(one_of),
    };
    if permitted { Ok(()) } else { Err(AUTHORIZATION_PERMISSION_MISMATCH) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{CONTRIBUTOR, READER};

    #[test]
    fn who_may_change_entities() {
        let letters = |text| Letters::parse(text, "scordlauw").expect("letters");
        let account = |resources, permissions| Rights::Account {
            resources: letters(resources),
            permissions: letters(permissions),
        };
        let table = |permissions| Rights::Table {
            table: TableName::parse("people").expect("a name"),
            permissions: letters(permissions),
            range: KeyRange::default(),
            stored: None,
        };
        let roles = |name| Rights::Roles(Actions::named(name));
        for rights in
            [Rights::Owner, account("o", "d"), account("so", "ra"), table("u"), roles(CONTRIBUTOR)]
        {
            assert!(rights.cover_changes(), "{rights:?}");
        }
        for rights in [
            account("sco", "rlwc"),
            account("sc", "rdlauw"),
            table("r"),
            table(""),
            roles(READER),
            roles(""),
        ] {
            assert!(!rights.cover_changes(), "{rights:?}");
        }
    }
}
