//! Speeds and memory of the main job, as ratios within one run.
//!
//! Compared, on the same snapshot from the same emulated node, in turn: the bare stream to nowhere, our program into an S3
//! server in memory, `zstd | age` piped in a shell, and the way by temporary files. Nothing here judges; it prints.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bronzenail_talos::{Client, ConnectOptions, Deadlines, TalosConfig};
use chrono::Utc;
use futures::StreamExt;

use crate::demo::AnyError;
use crate::emulator::{Backend, Emulator, EmulatorOptions};
use crate::etcd::{Etcd, noise};
use crate::process::Program;
use crate::s3::{S3Keys, S3Options, S3Server};

const BUCKET: &str = "bench";
const MIB: u64 = 1024 * 1024;

/// Options of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Sizes of the snapshots, in MiB
    #[arg(long, value_delimiter = ',', default_values_t = [300, 2_000])]
    sizes: Vec<u64>,
    /// Rounds of each; the median is printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Snapshot files to use instead of filling a real etcd
    #[arg(long)]
    snapshot: Vec<PathBuf>,
}

/// Runs the benchmark.
///
/// # Errors
/// Something could not be started or failed.
pub async fn run(options: Options) -> Result<(), AnyError> {
    let program = Program::backup()?;
    let folder = tempfile::Builder::new().prefix("bronzenail-bench-").tempdir()?;
    let mut files = options.snapshot.clone();
    if files.is_empty() {
        for size in &options.sizes {
            files.push(make_snapshot(*size, folder.path()).await?);
        }
    }
    println!("| snapshot MiB | what | median s | × bare stream | peak RSS MiB |");
    println!("| --- | --- | --- | --- | --- |");
    for file in &files {
        measure(file, &program, options.rounds, folder.path()).await?;
    }
    Ok(())
}

/// A real snapshot of about this size, of values that compress about as well as Kubernetes objects do.
async fn make_snapshot(size_mib: u64, folder: &Path) -> Result<PathBuf, AnyError> {
    eprintln!("filling a real etcd with about {size_mib} MiB");
    let etcd = Etcd::start().await?;
    // About 1.7 KiB of database for each key, by what fill writes, updates and compacts.
    etcd.client().fill_with(size_mib * MIB / 1_700, object_like).await?;
    let path = folder.join(format!("{size_mib}.snap"));
    std::fs::write(&path, etcd.client().snapshot().await?)?;
    Ok(path)
}

/// 900 bytes: field names and a few numbers as text, and noise where an object has ids and hashes.
fn object_like(seed: u64) -> Vec<u8> {
    let uid: String = noise(seed, 48).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut value = Vec::with_capacity(1_000);
    for index in 0..6 {
        let number = seed.wrapping_mul(2_654_435_761).wrapping_add(index) % 100_000;
        let part = &uid[index as usize * 16..][..16];
        value.extend(format!("{{\"name\":\"container-{number}\",\"image\":\"registry.example.org/team/service:{part}\",\"restartPolicy\":\"Always\",\"ports\":[{{\"containerPort\":{number}}}]}},").into_bytes());
    }
    value.truncate(900);
    value
}

async fn measure(file: &Path, program: &Program, rounds: u32, folder: &Path) -> Result<(), AnyError> {
    let size_mib = std::fs::metadata(file)?.len() as f64 / MIB as f64;
    let keys = S3Keys::fresh();
    let s3_options = S3Options { keys: vec![keys.clone()], buckets: vec![BUCKET.to_owned()], ..S3Options::default() };
    let s3 = S3Server::start(s3_options).await?;
    let emulator = Emulator::start(EmulatorOptions::new(Backend::File(file.to_owned()))).await?;
    let talosconfig = folder.join("talosconfig");
    std::fs::write(&talosconfig, emulator.talosconfig(&["os:etcd:backup"]))?;
    let recipient = age::x25519::Identity::generate().to_public().to_string();
    let ours = |read_back: bool, workers: &str| {
        let run = program.clone().args(["run", "--quiet", "--json", "--cluster", "bench", "--workers", workers]);
        let run = if read_back { run } else { run.arg("--no-read-back") };
        run.timeout(Duration::from_secs(900))
            .args(["--bucket", BUCKET, "--s3-endpoint", &s3.endpoint(), "--recipient", &recipient])
            .env("BRONZENAIL_TALOSCONFIG", &talosconfig)
            .env("AWS_ACCESS_KEY_ID", &keys.access_key)
            .env("AWS_SECRET_ACCESS_KEY", &keys.secret_key)
    };
    let text = std::fs::read_to_string(&talosconfig)?;

    let names = [
        "bare stream to nowhere",
        "bronzenail-backup, no read-back",
        "the same, inline zstd",
        "bronzenail-backup",
        "a shell pipe of zstd -T0 and age",
        "a temporary file, then zstd, then age",
    ];
    let mut seconds: [Vec<f64>; 6] = Default::default();
    let mut peaks = [0u64; 6];
    for _ in 0..rounds {
        seconds[0].push(timed(bare_stream(&text)).await?);
        for (index, run) in [(1, ours(false, "2")), (2, ours(false, "0")), (3, ours(true, "2"))] {
            let begun = Instant::now();
            let output = run.run().await?;
            if output.code != Some(0) {
                return Err(format!("the program failed: {}", output.stderr).into());
            }
            seconds[index].push(begun.elapsed().as_secs_f64());
            peaks[index] = peaks[index].max(output.peak_memory_bytes);
        }
        if which("zstd") && which("age") {
            seconds[4].push(timed(shell_pipe(&text, &recipient, folder)).await?);
            seconds[5].push(timed(temp_files(&text, &recipient, folder)).await?);
        }
    }
    let bare = median(&mut seconds[0]);
    for (index, name) in names.iter().enumerate() {
        if seconds[index].is_empty() {
            println!("| {size_mib:.0} | {name} | skipped: zstd or age is not installed | | |");
            continue;
        }
        let median = median(&mut seconds[index]);
        let peak = if peaks[index] > 0 { format!("{:.0}", peaks[index] as f64 / MIB as f64) } else { String::new() };
        println!("| {size_mib:.0} | {name} | {median:.2} | {:.2} | {peak} |", median / bare);
    }
    Ok(())
}

async fn timed(work: impl Future<Output = Result<(), AnyError>>) -> Result<f64, AnyError> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed().as_secs_f64())
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

fn which(program: &str) -> bool {
    std::process::Command::new(program).arg("--version").output().is_ok()
}

/// Streams the snapshot, and gives each piece to `take`.
async fn stream(talosconfig: &str, mut take: impl AsyncFnMut(&[u8]) -> std::io::Result<()>) -> Result<(), AnyError> {
    let context = TalosConfig::parse(talosconfig, "the benchmark")?.context(None)?;
    let client = Client::connect(&context, &ConnectOptions::new(Utc::now())).await?;
    let mut snapshot = client.snapshot_source().snapshot(None, Deadlines::default()).await?;
    while let Some(bytes) = snapshot.next().await {
        take(&bytes?).await?;
    }
    Ok(())
}

async fn bare_stream(talosconfig: &str) -> Result<(), AnyError> {
    stream(talosconfig, async |_| Ok(())).await
}

/// `stream | zstd -T0 | age > file`, the pipe that an operator would write.
async fn shell_pipe(talosconfig: &str, recipient: &str, folder: &Path) -> Result<(), AnyError> {
    use tokio::io::AsyncWriteExt;
    let script = format!("zstd -q -3 -T0 -c | age -r {recipient} -o {}", folder.join("pipe.age").display());
    let mut child =
        tokio::process::Command::new("sh").arg("-c").arg(&script).stdin(std::process::Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    stream(talosconfig, async |bytes| input.write_all(bytes).await).await?;
    drop(input);
    finished(child.wait().await?, folder.join("pipe.age"))
}

/// The way by files: the snapshot, then compressed, then sealed.
async fn temp_files(talosconfig: &str, recipient: &str, folder: &Path) -> Result<(), AnyError> {
    use tokio::io::AsyncWriteExt;
    let plain = folder.join("plain.snap");
    let mut file = tokio::fs::File::create(&plain).await?;
    stream(talosconfig, async |bytes| file.write_all(bytes).await).await?;
    file.sync_all().await?;
    let (plain, packed, sealed) = (plain.display(), folder.join("plain.zst"), folder.join("plain.age"));
    let script = format!(
        "zstd -q -3 -f -o {packed} {plain} && age -r {recipient} -o {sealed} {packed} && rm {packed} {plain}",
        packed = packed.display(),
        sealed = sealed.display()
    );
    finished(tokio::process::Command::new("sh").arg("-c").arg(&script).status().await?, sealed)
}

fn finished(status: std::process::ExitStatus, made: PathBuf) -> Result<(), AnyError> {
    std::fs::remove_file(made)?;
    if status.success() { Ok(()) } else { Err("the shell failed".into()) }
}
