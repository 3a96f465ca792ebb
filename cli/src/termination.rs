//! The message that Kubernetes shows when a container has ended.

use std::path::Path;

/// Where Kubernetes looks unless a pod says otherwise.
pub const DEFAULT_PATH: &str = "/dev/termination-log";
/// Kubernetes cuts after 4,096 bytes, and all containers of a pod share 12 KiB.
const BYTES_MAX: usize = 2_000;

/// Writes the message to a file that exists already: Kubernetes mounts it, and outside of a pod none is made.
///
/// A message that cannot be written is no reason to fail anything.
pub fn write(path: &Path, message: &str) {
    let end = (0..=message.len().min(BYTES_MAX)).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    if path.exists() && std::fs::write(path, &message[..end]).is_err() {
        tracing::debug!(path = %path.display(), "the termination message cannot be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_cut_at_a_character_and_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        write(&path, "hello");
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        write(&path, &"ä".repeat(3_000));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ä".repeat(1_000));
    }
}
