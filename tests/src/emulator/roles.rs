//! Who may call what, by the version of Talos.

/// A version of Talos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TalosVersion(pub u32, pub u32, pub u32);

impl std::fmt::Display for TalosVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}.{}.{}", self.0, self.1, self.2)
    }
}

impl TalosVersion {
    /// Since 1.9.6 and 1.10.1, a backup role may ask etcd how it is.
    fn backup_may_ask(self) -> bool {
        match (self.0, self.1) {
            (1, 9) => self.2 >= 6,
            (1, 10) => self.2 >= 1,
            _ => self >= Self(1, 11, 0),
        }
    }
}

const ADMIN: &str = "os:admin";
const OPERATOR: &str = "os:operator";
const READER: &str = "os:reader";
const BACKUP: &str = "os:etcd:backup";

/// Whether one of these roles may call the method. Roles are not hierarchical.
pub(super) fn allowed(method: &str, roles: &[String], version: TalosVersion) -> bool {
    let enough: &[&str] = match method {
        "EtcdSnapshot" => &[ADMIN, OPERATOR, BACKUP],
        "EtcdStatus" | "EtcdMemberList" | "EtcdAlarmList" if version.backup_may_ask() => {
            &[ADMIN, OPERATOR, READER, BACKUP]
        }
        "EtcdStatus" | "EtcdMemberList" | "EtcdAlarmList" => &[ADMIN, OPERATOR],
        "Version" | "Hostname" | "ServiceList" | "List" => &[ADMIN, OPERATOR, READER],
        _ => &[ADMIN],
    };
    roles.iter().any(|role| enough.contains(&role.as_str()))
}
