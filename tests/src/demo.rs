//! The README's first command: the main job on embedded defaults, each step shown.
//!
//! Invariant: the program that runs is the real one, as a process; nothing of it is called from here. Before it stand the
//! emulator of the Talos API and an S3 server in memory, and behind the emulator a real etcd where one is installed, else
//! a snapshot that a real etcd wrote.

use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret;
use bronzenail_format::{Identities, OpenOptions, Sha256Digest, open};
use bronzenail_snapshot::StreamCheck;
use sha2::{Digest, Sha256};

use crate::emulator::{Backend, Emulator, EmulatorOptions, Fault};
use crate::etcd::Etcd;
use crate::process::{Output, Program};
use crate::s3::{S3Keys, S3Options, S3Server};

/// What anything here can fail with.
pub type AnyError = Box<dyn Error + 'static>;

const BUCKET: &str = "backups";
/// As a file in the program itself: the demo must not depend on where it is run.
const BUNDLED_SNAPSHOT: &[u8] = include_bytes!("../../snapshot/fixtures/kubernetes-3.5.1.snap.zst");

/// Options of the demo.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Leave all of it running, print the environment to play with, and wait for Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Serve the bundled snapshot even where an etcd is installed
    #[arg(long)]
    no_etcd: bool,
    /// Keys to write into the real etcd
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
}

/// Everything that stands around the program.
struct Stage {
    emulator: Emulator,
    s3: S3Server,
    keys: S3Keys,
    folder: tempfile::TempDir,
    recipient: String,
    /// Kept alive; killed when dropped.
    _etcd: Option<Etcd>,
}

/// Runs the demo.
///
/// # Errors
/// Anything that did not go as shown.
pub async fn run(options: Options) -> Result<(), AnyError> {
    step("building bronzenail-backup (the real program; it runs as a process)");
    let program = Program::backup()?;
    let stage = set_up(&options).await?;

    step("taking a backup");
    let good = backup(&program, &stage).run().await?;
    show(&good);
    if good.code != Some(0) {
        return Err("the backup failed".into());
    }
    prove(&stage).await?;

    step("now the node cuts the snapshot short and still says OK, as Talos does when etcd fails under it");
    stage.emulator.set(Fault::TruncateOk(300 * 1024));
    let before = stage.s3.objects(BUCKET).len();
    let bad = backup(&program, &stage).run().await?;
    show(&bad);
    if bad.code != Some(1)
        || stage.s3.objects(BUCKET).len() != before
        || !stage.s3.unfinished_uploads(BUCKET).is_empty()
    {
        return Err("a snapshot that was cut short must leave nothing behind".into());
    }
    println!("exit code 1, and the bucket has the same {before} objects as before: no backup, no leftovers");
    stage.emulator.heal();

    if options.keep {
        keep(&stage).await?;
    }
    step("done");
    Ok(())
}

fn step(text: &str) {
    println!("\n== {text}");
}

fn show(output: &Output) {
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        println!("   {line}");
    }
}

async fn set_up(options: &Options) -> Result<Stage, AnyError> {
    let (backend, etcd) = backend(options).await?;
    step("starting the Talos API emulator (mutual TLS) and an S3 server in memory, with fresh keys");
    let emulator = Emulator::start(EmulatorOptions::new(backend)).await?;
    let keys = S3Keys::fresh();
    let s3_options = S3Options { keys: vec![keys.clone()], buckets: vec![BUCKET.to_owned()], ..S3Options::default() };
    let s3 = S3Server::start(s3_options).await?;

    let folder = tempfile::Builder::new().prefix("bronzenail-demo-").tempdir()?;
    let identity = age::x25519::Identity::generate();
    private_file(&folder.path().join("key.txt"), identity.to_string().expose_secret())?;
    private_file(&folder.path().join("talosconfig"), &emulator.talosconfig(&["os:etcd:backup"]))?;
    println!("   Talos API   {}", emulator.endpoint());
    println!("   S3          {} (bucket {BUCKET})", s3.endpoint());
    println!("   files       {}", folder.path().display());
    Ok(Stage { emulator, s3, keys, folder, recipient: identity.to_public().to_string(), _etcd: etcd })
}

async fn backend(options: &Options) -> Result<(Backend, Option<Etcd>), AnyError> {
    if !options.no_etcd {
        step("looking for a real etcd");
        match Etcd::start().await {
            Ok(etcd) => {
                let filled = etcd.client().fill(options.keys, 500).await?;
                println!("   found; it now has {} keys at revision {}", filled.live_keys, filled.revision);
                return Ok((Backend::Etcd(etcd.client_url().to_owned()), Some(etcd)));
            }
            Err(error) if error.is_not_installed() => println!("   none is installed"),
            Err(error) => return Err(error.into()),
        }
    }
    println!("   serving a bundled snapshot that etcd 3.5.1 wrote: 538 keys at revision 734");
    Ok((Backend::Bytes(zstd::decode_all(BUNDLED_SNAPSHOT)?.into()), None))
}

fn private_file(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

/// The environment of one backup, as a person would export it.
fn environment(stage: &Stage) -> Vec<(&'static str, String)> {
    let file = |name: &str| stage.folder.path().join(name).display().to_string();
    vec![
        ("AWS_ACCESS_KEY_ID", stage.keys.access_key.clone()),
        ("AWS_SECRET_ACCESS_KEY", stage.keys.secret_key.clone()),
        ("BRONZENAIL_BUCKET", BUCKET.to_owned()),
        ("BRONZENAIL_CLUSTER", "demo".to_owned()),
        ("BRONZENAIL_RECIPIENT", stage.recipient.clone()),
        ("BRONZENAIL_S3_ENDPOINT", stage.s3.endpoint()),
        ("BRONZENAIL_TALOSCONFIG", file("talosconfig")),
    ]
}

fn backup(program: &Program, stage: &Stage) -> Program {
    environment(stage).into_iter().fold(program.clone().arg("run"), |program, (name, value)| program.env(name, value))
}

/// Opens what the store has with the private key, which the program never had.
async fn prove(stage: &Stage) -> Result<(), AnyError> {
    step("opening the stored object with the identity, which the program never saw");
    let objects = stage.s3.objects(BUCKET);
    let of = |suffix: &str| objects.iter().find(|(key, _)| key.ends_with(suffix)).ok_or("an object is missing");
    let (key, stored) = of(".snap.zst.age")?;
    let (_, manifest) = of(".json")?;
    let manifest = bronzenail_format::Manifest::from_json(manifest)?;

    let identity = std::fs::read_to_string(stage.folder.path().join("key.txt"))?;
    let identities = Identities::parse("key.txt", &identity)?;
    let mut plain = Vec::new();
    open(stored.as_ref(), &mut plain, &identities, &OpenOptions::default())?;

    let mut check = StreamCheck::new();
    check.update(&plain);
    let report = check.finish();
    let sha256 = Sha256Digest(Sha256::digest(&plain).into());
    if sha256 != manifest.plain.sha256 || !report.is_proven() {
        return Err("the stored object opens to something else".into());
    }
    let path = save(stage, &plain)?;
    println!("   {key}");
    println!("   opens to the {} bytes that the node sent, SHA-256 {sha256}", plain.len());
    println!("   {}", report.verdict);
    println!("   for `etcdutl snapshot status` or `talosctl bootstrap --recover-from`: {}", path.display());
    Ok(())
}

fn save(stage: &Stage, plain: &[u8]) -> std::io::Result<PathBuf> {
    let path = stage.folder.path().join("etcd.snapshot");
    std::fs::write(&path, plain)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}

async fn keep(stage: &Stage) -> Result<(), AnyError> {
    step("all of it keeps running; in another shell:");
    for (name, value) in environment(stage) {
        println!("export {name}={value}");
    }
    println!("target/{}/bronzenail-backup run", if cfg!(debug_assertions) { "debug" } else { "release" });
    println!("age -d -i {} ... | zstd -d", stage.folder.path().join("key.txt").display());
    println!("\nCtrl-C ends it and removes the files");
    tokio::signal::ctrl_c().await?;
    Ok(())
}
