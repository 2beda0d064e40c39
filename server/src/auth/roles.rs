//! What bearer tokens may do: data actions, and the built-in roles that are made of them.

use crate::auth::access::Access;
use crate::tokens::{CONTRIBUTOR, READER};

/// Azure's ids of the built-in roles.
const CONTRIBUTOR_ID: &str = "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3";
const READER_ID: &str = "76199698-9eea-4c19-bc75-cec21354c6b6";

/// What all actions begin with.
const PREFIX: &str = "Microsoft.Storage/storageAccounts/tableServices/";

/// The actions by name, behind [`PREFIX`].
const ACTIONS: [&str; 12] = [
    "read",
    "write",
    "tables/read",
    "tables/write",
    "tables/delete",
    "tables/getAcl/action",
    "tables/setAcl/action",
    "tables/entities/read",
    "tables/entities/write",
    "tables/entities/add/action",
    "tables/entities/update/action",
    "tables/entities/delete",
];

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(u16);

impl Actions {
    /// The actions of a role, by name or id, or of an action, which may end in `*`. None for a
    /// name that is not known.
    pub fn named(name: &str) -> Actions {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is(CONTRIBUTOR) || is(CONTRIBUTOR_ID) {
            return Actions::matching("tables/*");
        }
        if is(READER) || is(READER_ID) {
            return Actions::matching("tables/read").and(Actions::matching("tables/entities/read"));
        }
        match name.split_at_checked(PREFIX.len()) {
            Some((prefix, pattern)) if prefix.eq_ignore_ascii_case(PREFIX) => {
                Actions::matching(pattern)
            }
            _ => Actions::default(),
        }
    }

    fn matching(pattern: &str) -> Actions {
        let fits = |action: &str| match pattern.strip_suffix('*') {
            Some(start) => {
                action.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start))
            }
            None => action.eq_ignore_ascii_case(pattern),
        };
        let bits = ACTIONS.iter().enumerate().filter(|(_, action)| fits(action));
        Actions(bits.fold(0, |bits, (at, _)| bits | 1 << at))
    }

    /// Both sets as one.
    #[must_use]
    pub fn and(self, other: Actions) -> Actions {
        Actions(self.0 | other.0)
    }

    /// Whether they cover an operation.
    pub fn cover(self, access: Access) -> bool {
        let has = |action: &str| self.0 & Actions::matching(action).0 != 0;
        let write = has("tables/entities/write");
        let (add, update) =
            (has("tables/entities/add/action"), has("tables/entities/update/action"));
        match access {
            Access::ReadService | Access::ReadStats => has("read"),
            Access::WriteService => has("write"),
            Access::ListTables | Access::ReadTable => has("tables/read"),
            Access::CreateTable => has("tables/write"),
            Access::DeleteTable => has("tables/delete"),
            Access::GetAcl => has("tables/getAcl/action"),
            Access::SetAcl => has("tables/setAcl/action"),
            Access::Read => has("tables/entities/read"),
            Access::Insert => write || add,
            Access::Upsert => write || add && update,
            Access::Update => write || update,
            Access::Delete => has("tables/entities/delete"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], covered: &[Access]) {
        let actions = names.iter().fold(Actions::default(), |a, name| a.and(Actions::named(name)));
        for access in Access::ALL {
            assert_eq!(actions.cover(access), covered.contains(&access), "{names:?}: {access:?}");
        }
    }

    #[test]
    fn built_in_roles() {
        let reads = [Access::ListTables, Access::ReadTable, Access::Read];
        let service = [Access::ReadService, Access::ReadStats, Access::WriteService];
        let all: Vec<Access> =
            Access::ALL.into_iter().filter(|access| !service.contains(access)).collect();
        for name in [READER, "storage table data reader", READER_ID] {
            check(&[name], &reads);
        }
        for name in [CONTRIBUTOR, CONTRIBUTOR_ID] {
            check(&[name], &all);
        }
        check(&["Owner", "", "tables/read"], &[]);
        // Every action, of something else than tables.
        check(&[&format!("{}*", "x".repeat(PREFIX.len()))], &[]);
    }

    #[test]
    fn actions_by_name() {
        let action = |name: &str| format!("{PREFIX}{name}");
        let entities = |name: &str| action(&format!("tables/entities/{name}"));
        check(&[&action("*")], &Access::ALL);
        check(&[&action("read")], &[Access::ReadService, Access::ReadStats]);
        check(&[&entities("add/action")], &[Access::Insert]);
        check(&[&entities("update/action")], &[Access::Update]);
        let both = [entities("add/action"), entities("update/action")];
        check(&[&both[0], &both[1]], &[Access::Insert, Access::Upsert, Access::Update]);
        check(&[&entities("write")], &[Access::Insert, Access::Upsert, Access::Update]);
        check(
            &[&entities("*")],
            &[Access::Read, Access::Insert, Access::Upsert, Access::Update, Access::Delete],
        );
        check(&[&entities("READ")], &[Access::Read]);
        check(&[&entities("reading"), "*", PREFIX], &[]);
    }
}
