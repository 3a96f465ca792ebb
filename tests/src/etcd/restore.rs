//! Restoring a snapshot with etcd's own tools, and starting what came out.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Etcd, EtcdError, default_program, new_folder, places, program, spawn_error};

/// Restores a snapshot file into a new data folder, with its hash checked, and starts an etcd on it.
///
/// Uses `etcdutl` (`BRONZENAIL_LAB_ETCDUTL`), or an older `etcdctl` that can still do it.
pub async fn restore(snapshot_file: &Path) -> Result<Etcd, EtcdError> {
    let folder = new_folder()?;
    let place = places(1)?.remove(0);
    let data = folder.path().join("restored");
    let restore = |program: &str| {
        let output = Command::new(program)
            .env_clear()
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(snapshot_file)
            .arg("--data-dir")
            .arg(&data)
            .args(["--name", &place.name, "--initial-advertise-peer-urls", &place.peer_url])
            .args(["--initial-cluster", &format!("{}={}", place.name, place.peer_url)])
            .args(["--initial-cluster-token", "bronzenail-lab-restored"])
            .stdin(Stdio::null())
            .output()
            .map_err(spawn_error(program))?;
        if output.status.success() {
            return Ok(());
        }
        let written = [output.stdout, output.stderr].concat();
        Err(EtcdError::Failed { program: program.to_owned(), output: String::from_utf8_lossy(&written).into_owned() })
    };
    let etcdutl = program("BRONZENAIL_LAB_ETCDUTL", "etcdutl");
    match restore(&etcdutl) {
        Err(error) if error.is_not_installed() => restore(&program("BRONZENAIL_LAB_ETCDCTL", "etcdctl"))?,
        result => result?,
    }
    Etcd::start_on(&etcd_beside(&etcdutl), &data, folder, &place).await
}

/// The etcd of the same release as the tool: an older one may not read what a newer tool has written.
fn etcd_beside(tool: &str) -> String {
    let beside = Path::new(tool).with_file_name("etcd");
    match beside.to_str() {
        Some(path) if beside.is_absolute() && beside.exists() => path.to_owned(),
        _ => default_program(),
    }
}
