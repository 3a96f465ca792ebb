//! Running our own programs as a user does: as processes, with nothing in the environment but what the test gave.
//!
//! Invariant: no test leaves a process behind, and none inherits this one's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command as AsyncCommand};
use tokio::task::JoinHandle;

const TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// A program, its arguments and its environment.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    variables: BTreeMap<OsString, OsString>,
    folder: Option<PathBuf>,
    timeout: Duration,
}

/// How a program ended and what it wrote.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code, if it was not killed by a signal.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// What it wrote on standard output.
    pub stdout: String,
    /// What it wrote on standard error.
    pub stderr: String,
    /// The most memory it had (VmHWM), as last seen before its end; 0 when it was too quick to be seen.
    pub peak_memory_bytes: u64,
    /// Whether it was killed because its time was up.
    pub timed_out: bool,
}

/// A program that runs. It is killed when this is dropped.
pub struct Running {
    child: Child,
    id: u32,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
    timeout: Duration,
}

impl Program {
    /// `bronzenail-backup`, of the same build as the test.
    pub fn backup() -> io::Result<Self> {
        static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let path = PATH.get_or_init(|| build("bronzenail-backup").map_err(|error| error.to_string()));
        path.clone().map(Self::at).map_err(io::Error::other)
    }

    /// The program at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), arguments: Vec::new(), variables: BTreeMap::new(), folder: None, timeout: TIMEOUT }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Runs `inner` through this program: its path and arguments follow, its environment and folder are taken over.
    pub fn wrapping(mut self, inner: &Program) -> Self {
        self.arguments.push(inner.path.clone().into());
        self.arguments.extend(inner.arguments.iter().cloned());
        Self { variables: inner.variables.clone(), folder: inner.folder.clone(), timeout: inner.timeout, ..self }
    }

    /// Sets a variable of its environment, which begins empty.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// The folder it runs in.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// When it is killed; two minutes unless said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts it.
    pub fn spawn(&self) -> io::Result<Running> {
        let mut command = AsyncCommand::new(&self.path);
        command.args(&self.arguments).env_clear().envs(&self.variables).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn()?;
        let id = child.id().ok_or_else(|| io::Error::other("the program has no id"))?;
        let (stdout, stderr) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
        Ok(Running { child, id, stdout, stderr, timeout: self.timeout })
    }

    /// Runs it to its end.
    pub async fn run(&self) -> io::Result<Output> {
        self.spawn()?.wait().await
    }
}

impl Running {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends it a signal, such as `TERM` or `KILL`.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        signal(self.id, name)
    }

    /// Waits for its end, and kills it when its time is up.
    pub async fn wait(mut self) -> io::Result<Output> {
        let until = tokio::time::Instant::now() + self.timeout;
        let (mut peak_memory_bytes, mut timed_out) = (0, false);
        let status: ExitStatus = loop {
            peak_memory_bytes = peak_memory_bytes.max(memory_bytes(self.id).unwrap_or(0));
            match tokio::time::timeout(POLL, self.child.wait()).await {
                Ok(status) => break status?,
                Err(_) if tokio::time::Instant::now() >= until => {
                    timed_out = true;
                    self.child.start_kill()?;
                    break self.child.wait().await?;
                }
                Err(_) => {}
            }
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Output {
            code: status.code(),
            signal: status.signal(),
            stdout: text(self.stdout.await.map_err(io::Error::other)?),
            stderr: text(self.stderr.await.map_err(io::Error::other)?),
            peak_memory_bytes,
            timed_out,
        })
    }
}

/// Sends a signal to one process. By the `kill` program: the lab has no unsafe code.
pub(crate) fn signal(id: u32, name: &str) -> io::Result<()> {
    let status = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{name} {id} failed"))) }
}

/// VmHWM of a process, while it is there.
fn memory_bytes(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn read_all(pipe: Option<impl AsyncRead + Unpin + Send + 'static>) -> JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still what the program wrote.
            let _ = pipe.read_to_end(&mut bytes).await;
        }
        bytes
    })
}

/// The program beside this test's own, built now so that it is never older than the sources.
///
/// With `BRONZENAIL_LAB_BUILD` set, whoever set it has built it: then a program that is there is taken as it is.
fn build(package: &str) -> io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = profile_folder(&test).ok_or_else(|| io::Error::other("this test is not in a target folder"))?;
    let path = folder.join(package);
    if std::env::var_os("BRONZENAIL_LAB_BUILD").is_some() && path.exists() {
        return Ok(path);
    }
    // The whole workspace, as `tests/run` builds it: with other features the libraries would be built once more.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--workspace", "--bin", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    command.arg("--target-dir").arg(folder.parent().unwrap_or(folder));
    match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => {}
        Some(profile) => drop(command.args(["--profile", profile])),
    }
    // Build scripts (ring's) look at what cargo sets for this test's own package, and would build everything again.
    let own = ["OUT_DIR", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];
    for (name, _) in std::env::vars_os() {
        if own.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("cannot build {package}: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(path)
}

/// `target/debug` of `target/debug/deps/test-0123`, and of `target/debug/program`.
fn profile_folder(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    if folder.ends_with("deps") || folder.ends_with("examples") { folder.parent() } else { Some(folder) }
}
