//! The usual set-up of a whole-system test: a node, a folder for files, a key, and our program before them.
//!
//! Invariant: the program is run as a process with a cleared environment, so that what a test does not give is not there.

use std::io;
use std::path::{Path, PathBuf};

use bronzenail_format::{Identities, Manifest, OpenOptions, Prefix, open};
use bronzenail_snapshot::{Report, StreamCheck};
use bronzenail_store::{Store, catalogue};
use tempfile::TempDir;

use crate::emulator::{Backend, Emulator, EmulatorOptions};
use crate::process::{Output, Program};

/// The cluster's name in every rig.
pub const CLUSTER: &str = "homelab";

/// A node and what a user of it has.
pub struct Rig {
    /// The emulated node.
    pub emulator: Emulator,
    /// Files of this test.
    pub folder: TempDir,
    /// Public key.
    pub recipient: String,
    /// File with the private key.
    pub identity_file: PathBuf,
}

/// A real snapshot that etcd 3.5.1 wrote: 840 KB of Kubernetes-like data, 538 keys, revision 734.
pub fn fixture_snapshot() -> Vec<u8> {
    fixture("kubernetes-3.5.1.snap")
}

/// A snapshot of the fixtures by its uncompressed name.
///
/// # Panics
/// If there is none.
pub fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshot/fixtures");
    match std::fs::read(folder.join(format!("{name}.zst"))) {
        Ok(packed) => zstd::decode_all(packed.as_slice()).expect("a fixture is a zstd frame"),
        Err(_) => std::fs::read(folder.join(name)).expect("a fixture of that name"),
    }
}

impl Rig {
    /// A node that serves these bytes as its snapshot.
    pub async fn of_bytes(snapshot: Vec<u8>) -> Self {
        Self::of(EmulatorOptions::new(Backend::Bytes(snapshot.into()))).await
    }

    /// Nodes as the options say.
    ///
    /// # Panics
    /// If the lab itself does not start.
    pub async fn of(options: EmulatorOptions) -> Self {
        use age::secrecy::ExposeSecret;
        let emulator = Emulator::start(options).await.expect("the emulator starts");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let identity = age::x25519::Identity::generate();
        let identity_file = folder.path().join("key.txt");
        std::fs::write(&identity_file, identity.to_string().expose_secret()).expect("the key can be written");
        let rig = Self { emulator, folder, recipient: identity.to_public().to_string(), identity_file };
        rig.write_talosconfig(&["os:etcd:backup"]);
        rig
    }

    /// Writes the talosconfig anew, for these roles.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_talosconfig(&self, roles: &[&str]) {
        std::fs::write(self.talosconfig(), self.emulator.talosconfig(roles)).expect("the talosconfig can be written");
    }

    /// Path of the talosconfig.
    pub fn talosconfig(&self) -> PathBuf {
        self.folder.path().join("talosconfig")
    }

    /// A path in the test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `bronzenail-backup run` with everything but a place to store.
    ///
    /// # Panics
    /// If the program cannot be built.
    pub fn backup(&self) -> Program {
        Program::backup()
            .expect("the program builds")
            .arg("run")
            .args(["--cluster", CLUSTER, "--recipient", &self.recipient, "--json"])
            .env("BRONZENAIL_TALOSCONFIG", self.talosconfig())
            .folder(self.folder.path())
    }

    /// The same, into the directory `store` of the test's folder.
    pub fn backup_to_directory(&self) -> Program {
        self.backup().arg("--dir").arg(self.path("store"))
    }

    /// The store of [`Rig::backup_to_directory`].
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn directory(&self) -> Store {
        Store::directory(&self.path("store")).await.expect("the directory opens")
    }

    /// Opens a stored object with the private key, and says what is in it.
    ///
    /// # Panics
    /// If it does not open.
    pub fn open(&self, stored: &[u8]) -> (Vec<u8>, Report) {
        let key = std::fs::read_to_string(&self.identity_file).expect("the key is there");
        let identities = Identities::parse("the key", &key).expect("it is a key");
        let mut plain = Vec::new();
        open(stored, &mut plain, &identities, &OpenOptions::default()).expect("it opens");
        let mut check = StreamCheck::new();
        check.update(&plain);
        (plain, check.finish())
    }
}

/// What a listing of all clusters below the root shows.
///
/// # Panics
/// If the store cannot be listed.
pub async fn catalogue(store: &Store) -> catalogue::Catalogue {
    catalogue::read(&store.reader(), &Prefix::default(), None).await.expect("the store can be listed")
}

/// No backup, no manifest without data; and no object at all.
///
/// # Panics
/// If there is one.
pub async fn assert_nothing_stored(store: &Store) {
    let objects = store.reader().list("").await.expect("the store can be listed");
    assert!(objects.is_empty(), "nothing may be stored, but there is {objects:?}");
    let uploads = store.remover().open_uploads("").await.expect("open uploads can be listed");
    assert!(uploads.is_empty(), "no upload may be left open, but there is {uploads:?}");
}

impl Output {
    /// The JSON document on standard output.
    ///
    /// # Panics
    /// If there is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The manifest in that document.
    ///
    /// # Panics
    /// If there is none.
    pub fn manifest(&self) -> Manifest {
        let manifest = self.json()["manifest"].to_string();
        Manifest::from_json(manifest.as_bytes()).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Fails unless the program ended with this code; a panic of the program would be 101.
    ///
    /// # Panics
    /// If it did not.
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// A file that a program wrote.
///
/// # Errors
/// It is not there.
pub fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}
