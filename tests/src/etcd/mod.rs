//! A real etcd, started for one test, and its client.
//!
//! Invariant: what the lab says about a database was asked of the database. Processes end with their handle.

pub mod api;
mod client;
mod restore;

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

pub use self::client::{Client, Fill, noise};
pub use self::restore::restore;

const HEALTHY_WITHIN: Duration = Duration::from_secs(60);

/// Why there is no etcd, or why it did not do what it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The program is not on this machine.
    #[error("{program} is not installed")]
    NotInstalled {
        /// The program's name or path.
        program: String,
    },
    /// A file or a process could not be made.
    #[error("cannot {doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It started but did not become healthy.
    #[error("etcd did not become healthy; the end of its log: {log}")]
    Unhealthy {
        /// The last lines of the log.
        log: String,
    },
    /// A program ended with an error.
    #[error("{program} failed: {output}")]
    Failed {
        /// The program's name or path.
        program: String,
        /// What it wrote.
        output: String,
    },
    /// A call was answered with an error.
    #[error("etcd refused to {doing}")]
    Call {
        /// What was being done.
        doing: &'static str,
        /// The status.
        #[source]
        source: Box<tonic::Status>,
    },
}

impl EtcdError {
    /// Whether the machine lacks the program, so that a test is to be skipped and not to fail.
    pub fn is_not_installed(&self) -> bool {
        matches!(self, Self::NotInstalled { .. })
    }
}

/// A running etcd member. It is killed when this is dropped.
pub struct Etcd {
    process: Arc<Process>,
    client_url: String,
    folder: PathBuf,
    _folder: Arc<TempDir>,
}

/// The handle that stops, continues and kills a member, from any thread.
#[derive(Clone)]
pub struct Killer(Arc<Process>);

struct Process {
    id: u32,
    child: Mutex<Child>,
}

struct Place {
    name: String,
    client_url: String,
    peer_url: String,
}

impl Etcd {
    /// Starts one member with an empty database.
    pub async fn start() -> Result<Self, EtcdError> {
        let folder = new_folder()?;
        let places = places(1)?;
        let etcd = Self::spawn(&default_program(), &places[0], &places, folder, None)?;
        etcd.wait_healthy().await?;
        Ok(etcd)
    }

    /// Starts a cluster of three members.
    pub async fn start_three() -> Result<Vec<Self>, EtcdError> {
        let folder = new_folder()?;
        let places = places(3)?;
        let members: Result<Vec<_>, _> =
            places.iter().map(|place| Self::spawn(&default_program(), place, &places, folder.clone(), None)).collect();
        let members = members?;
        for member in &members {
            member.wait_healthy().await?;
        }
        Ok(members)
    }

    /// Starts one member on a data folder that is there already, made for the name `m0`.
    async fn start_on(program: &str, data: &Path, folder: Arc<TempDir>, place: &Place) -> Result<Self, EtcdError> {
        let etcd = Self::spawn(program, place, std::slice::from_ref(place), folder, Some(data))?;
        etcd.wait_healthy().await?;
        Ok(etcd)
    }

    fn spawn(
        program: &str,
        place: &Place,
        all: &[Place],
        folder: Arc<TempDir>,
        data: Option<&Path>,
    ) -> Result<Self, EtcdError> {
        let own = folder.path().join(&place.name);
        fs::create_dir_all(&own).map_err(io_error("make etcd's folder"))?;
        let data = data.map_or_else(|| own.join("data"), Path::to_path_buf);
        let log = fs::File::create(own.join("log")).map_err(io_error("make etcd's log"))?;
        let log_again = log.try_clone().map_err(io_error("share etcd's log"))?;
        let cluster: Vec<String> = all.iter().map(|place| format!("{}={}", place.name, place.peer_url)).collect();
        let child = Command::new(program)
            .env_clear()
            .args(["--name", &place.name, "--data-dir"])
            .arg(data)
            .args(["--listen-client-urls", &place.client_url, "--advertise-client-urls", &place.client_url])
            .args(["--listen-peer-urls", &place.peer_url, "--initial-advertise-peer-urls", &place.peer_url])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(["--initial-cluster-token", "bronzenail-lab", "--logger", "zap", "--snapshot-count", "10000"])
            // What is in the database need not survive this machine; syncing every write would only slow the tests.
            .args(["--unsafe-no-fsync", "--max-txn-ops", "10000", "--max-request-bytes", "33554432"])
            .args(["--quota-backend-bytes", "8589934592"])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            .spawn()
            .map_err(spawn_error(program))?;
        let process = Arc::new(Process { id: child.id(), child: Mutex::new(child) });
        Ok(Self { process, client_url: place.client_url.clone(), folder: own, _folder: folder })
    }

    /// Its client URL, such as `http://127.0.0.1:2379`.
    pub fn client_url(&self) -> &str {
        &self.client_url
    }

    /// A client of this member.
    pub fn client(&self) -> Client {
        Client::new(&self.client_url)
    }

    /// The handle that stops and kills it.
    pub fn killer(&self) -> Killer {
        Killer(self.process.clone())
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    async fn wait_healthy(&self) -> Result<(), EtcdError> {
        let until = Instant::now() + HEALTHY_WITHIN;
        let client = self.client();
        loop {
            let ask = tokio::time::timeout(Duration::from_secs(5), client.is_healthy());
            if ask.await.unwrap_or(false) {
                return Ok(());
            }
            if Instant::now() > until || self.process.has_ended() {
                return Err(EtcdError::Unhealthy { log: self.log_tail() });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Killer {
    /// Kills it at once, and waits until it is gone.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Stops it in its tracks (SIGSTOP): its ports stay open and nobody answers.
    pub fn freeze(&self) -> Result<(), EtcdError> {
        crate::process::signal(self.0.id, "STOP").map_err(io_error("stop etcd"))
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&self) -> Result<(), EtcdError> {
        crate::process::signal(self.0.id, "CONT").map_err(io_error("continue etcd"))
    }
}

impl Process {
    fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Both fail only when it is gone already, which is what was wanted.
        let _ = child.kill();
        let _ = child.wait();
    }

    fn has_ended(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(child.try_wait(), Ok(None))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.process.kill();
    }
}

fn program(variable: &str, name: &str) -> String {
    std::env::var(variable).ok().filter(|path| !path.is_empty()).unwrap_or_else(|| name.to_owned())
}

fn default_program() -> String {
    program("BRONZENAIL_LAB_ETCD", "etcd")
}

fn new_folder() -> Result<Arc<TempDir>, EtcdError> {
    tempfile::tempdir().map(Arc::new).map_err(io_error("make a folder for etcd"))
}

/// Free ports. All are held until all are known, so that no two are the same.
fn places(count: usize) -> Result<Vec<Place>, EtcdError> {
    let held: Result<Vec<TcpListener>, io::Error> = (0..count * 2).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let urls: Result<Vec<String>, io::Error> = held
        .map_err(io_error("find free ports"))?
        .iter()
        .map(|listener| listener.local_addr().map(|address| format!("http://{address}")))
        .collect();
    let urls = urls.map_err(io_error("find free ports"))?;
    let place = |(index, pair): (usize, &[String])| Place {
        name: format!("m{index}"),
        client_url: pair[0].clone(),
        peer_url: pair[1].clone(),
    };
    Ok(urls.chunks(2).enumerate().map(place).collect())
}

fn io_error(doing: &str) -> impl FnOnce(io::Error) -> EtcdError {
    let doing = doing.to_owned();
    move |source| EtcdError::Io { doing, source }
}

fn spawn_error(program: &str) -> impl FnOnce(io::Error) -> EtcdError {
    let program = program.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::NotFound => EtcdError::NotInstalled { program },
        _ => EtcdError::Io { doing: format!("start {program}"), source },
    }
}
