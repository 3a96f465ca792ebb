//! Why a run did not end in a backup.

use bronzenail_cli::{ConfigError, Exit};
use bronzenail_format::{NameError, OpenError, PrefixError, RecipientError, SealError};
use bronzenail_snapshot::Verdict;
use bronzenail_store::{StoreError, StoreErrorKind};
use bronzenail_talos::{ConfigError as TalosConfigError, TalosError};

/// What went wrong, and at which step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A setting that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting that is wrong in itself, with what to do about it.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// A file that cannot be read.
    #[error("could not read {what} {path}")]
    File {
        /// What it is.
        what: &'static str,
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The cluster's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The prefix.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// The recipients.
    #[error(transparent)]
    Recipients(#[from] RecipientError),
    /// The talosconfig.
    #[error("could not use the talosconfig")]
    TalosConfig(#[source] Box<TalosConfigError>),
    /// Talos did not give a snapshot.
    #[error("could not take the snapshot")]
    Talos(#[source] Box<TalosError>),
    /// Several endpoints were tried, and none gave one.
    #[error("none of the endpoints gave a snapshot: {reasons}")]
    NoSnapshot {
        /// Each endpoint with its own reason.
        reasons: String,
        /// What to do about them.
        hint: Option<String>,
    },
    /// What came is no whole snapshot.
    #[error("what the node sent is not proven to be a whole snapshot, so nothing was stored")]
    NotProven {
        /// The verdict, and details.
        #[source]
        source: NotProven,
    },
    /// Sealing failed on its own.
    #[error("could not seal the snapshot")]
    Seal(#[source] SealError),
    /// The store, before anything was visible.
    #[error("could not store the backup")]
    Store(#[source] StoreError),
    /// Every name that was tried is taken.
    #[error("no name for a backup of {cluster} is free: {names} were tried")]
    NoName {
        /// The cluster.
        cluster: String,
        /// How many.
        names: usize,
    },
    /// The stored object cannot be read back.
    #[error("{key} was stored but could not be read back, so it is not a backup")]
    ReadBack {
        /// The object.
        key: String,
        /// Why.
        #[source]
        source: ReadBackError,
    },
    /// The manifest could not be written.
    #[error("{key} was stored but could not be committed")]
    Commit {
        /// The object.
        key: String,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// A signal came.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
    /// A signal came while the manifest was being written, and the store did not answer in time.
    #[error("interrupted by {0} in the middle of the commit, so whether the backup was made is not known")]
    InterruptedCommit(&'static str),
    /// A defect of ours.
    #[error("an inner task ended early")]
    Task(#[source] tokio::task::JoinError),
}

/// The verdict on what came.
#[derive(Debug, thiserror::Error)]
#[error("after {bytes} bytes: {verdict}{details}")]
pub struct NotProven {
    /// How many bytes came.
    pub bytes: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Details, or nothing.
    pub details: String,
}

/// Why a stored object could not be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadBackError {
    /// It could not be fetched.
    #[error("could not fetch it")]
    Fetch(#[source] StoreError),
    /// It could not be opened.
    #[error("could not open it")]
    Open(#[source] OpenError),
    /// It is not what was sent.
    #[error("the store has something else: {0}")]
    Differs(String),
}

impl RunError {
    /// A private key stands where none belongs; its text is not repeated.
    pub fn private_key(place: impl std::fmt::Display) -> Self {
        Self::Usage {
            what: format!("{place} is a private key"),
            hint: "no setting takes one; backups are sealed to public keys, given by --recipient".to_owned(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Usage { hint, .. } => Some(hint.clone()),
            Self::Name(error) => Some(error.hint().to_owned()),
            Self::Prefix(error) => Some(error.hint().to_owned()),
            Self::Recipients(error) => Some(error.hint().to_owned()),
            Self::TalosConfig(error) => error.hint(),
            Self::Talos(error) => error.hint(),
            Self::NoSnapshot { hint, .. } => hint.clone(),
            Self::NotProven { source } => Some(verdict_hint(source.verdict).to_owned()),
            Self::Store(error) | Self::Commit { source: error, .. } => error.hint().map(str::to_owned),
            Self::ReadBack { source, .. } => Some(read_back_hint(source)),
            Self::InterruptedCommit(_) => Some("if the object has a manifest beside it, it is a backup".to_owned()),
            Self::NoName { .. } => Some("is the clock of this machine standing still?".to_owned()),
            Self::File { .. } | Self::Seal(_) | Self::Interrupted(_) | Self::Task(_) => None,
        }
    }

    /// How the program ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Usage { .. } | Self::File { .. } | Self::Name(_) | Self::Prefix(_) => Exit::Usage,
            Self::Recipients(_) | Self::TalosConfig(_) => Exit::Usage,
            Self::Talos(error) if matches!(**error, TalosError::Config(_) | TalosError::Node(_)) => Exit::Usage,
            Self::Store(error) if error.kind() == StoreErrorKind::Config => Exit::Usage,
            Self::Interrupted(_) | Self::InterruptedCommit(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}

fn verdict_hint(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::HashMismatch => {
            "bytes changed between etcd and here; run again, and if it happens again, suspect the node's memory"
        }
        Verdict::StructurallyDamaged => {
            "the database of that member is damaged: take the snapshot from another one with --node, and replace that member"
        }
        Verdict::TooLargeToJudge => {
            "a part of it is larger than this program can check in bounded memory; please report it"
        }
        _ => {
            "Talos reports a snapshot that was cut short as success: look at etcd's log on the node, then run again or name \
             another node with --node"
        }
    }
}

fn read_back_hint(error: &ReadBackError) -> String {
    let orphan = "the object stays where it is, but no listing shows it as a backup";
    match error {
        ReadBackError::Fetch(error) if error.kind() == StoreErrorKind::Denied => {
            format!("reading back needs s3:GetObject (see docs/permissions), or give --no-read-back; {orphan}")
        }
        ReadBackError::Fetch(error) => match error.hint() {
            Some(hint) => format!("{hint}; {orphan}"),
            None => orphan.to_owned(),
        },
        ReadBackError::Open(_) | ReadBackError::Differs(_) => {
            format!("the store does not give back what it was given: do not trust it; {orphan}")
        }
    }
}

impl From<TalosError> for RunError {
    fn from(error: TalosError) -> Self {
        Self::Talos(Box::new(error))
    }
}

impl From<TalosConfigError> for RunError {
    fn from(error: TalosConfigError) -> Self {
        Self::TalosConfig(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use bronzenail_cli::report::error_text;
    use bronzenail_talos::{Call, Code};

    use super::*;

    fn store_error(kind: StoreErrorKind, hint: Option<&str>) -> StoreError {
        let error = StoreError::new(kind, "could not read etcd/homelab/x").because("the store answered 403");
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    fn not_proven(verdict: Verdict) -> RunError {
        RunError::NotProven { source: NotProven { bytes: 40, verdict, details: " (8 bytes are missing)".to_owned() } }
    }

    fn read_back(source: ReadBackError) -> RunError {
        RunError::ReadBack { key: "etcd/homelab/x".to_owned(), source }
    }

    #[test]
    fn every_failure_says_what_why_and_what_to_do() {
        let call =
            Call { method: "EtcdSnapshot", endpoint: "10.0.0.1".parse().unwrap(), node: None, received_bytes: None };
        let denied = TalosError::Status { call, code: Code::PermissionDenied, message: "not authorized".to_owned() };
        let cases = [
            (
                RunError::from(denied),
                Exit::Failed,
                "error: could not take the snapshot\n  \
                 caused by: EtcdSnapshot on 10.0.0.1:50000 failed with PermissionDenied: not authorized\n\n\
                 hint: the client certificate needs the role os:etcd:backup (os:operator and os:admin may too)\n",
            ),
            (
                not_proven(Verdict::Truncated),
                Exit::Failed,
                "error: what the node sent is not proven to be a whole snapshot, so nothing was stored\n  \
                 caused by: after 40 bytes: the file is cut short: it ends before the database does (8 bytes are missing)\n\n\
                 hint: Talos reports a snapshot that was cut short as success: look at etcd's log on the node, then run again or \
                 name another node with --node\n",
            ),
            (
                RunError::Store(store_error(StoreErrorKind::Unavailable, Some("ask again later"))),
                Exit::Failed,
                "error: could not store the backup\n  caused by: could not read etcd/homelab/x\n  \
                 caused by: the store answered 403\n\nhint: ask again later\n",
            ),
            (
                RunError::Store(store_error(StoreErrorKind::Config, None)),
                Exit::Usage,
                "error: could not store the backup\n  caused by: could not read etcd/homelab/x\n  \
                 caused by: the store answered 403\n",
            ),
            (
                read_back(ReadBackError::Fetch(store_error(StoreErrorKind::Denied, Some("docs/permissions")))),
                Exit::Failed,
                "error: etcd/homelab/x was stored but could not be read back, so it is not a backup\n  \
                 caused by: could not fetch it\n  caused by: could not read etcd/homelab/x\n  \
                 caused by: the store answered 403\n\n\
                 hint: reading back needs s3:GetObject (see docs/permissions), or give --no-read-back; the object stays where \
                 it is, but no listing shows it as a backup\n",
            ),
            (
                read_back(ReadBackError::Differs("it opens to another snapshot".to_owned())),
                Exit::Failed,
                "error: etcd/homelab/x was stored but could not be read back, so it is not a backup\n  \
                 caused by: the store has something else: it opens to another snapshot\n\n\
                 hint: the store does not give back what it was given: do not trust it; the object stays where it is, but no \
                 listing shows it as a backup\n",
            ),
            (
                RunError::Commit {
                    key: "etcd/homelab/x".to_owned(),
                    source: StoreError::new(StoreErrorKind::AlreadyExists, "etcd/homelab/x.json exists already"),
                },
                Exit::Failed,
                "error: etcd/homelab/x was stored but could not be committed\n  \
                 caused by: etcd/homelab/x.json exists already\n",
            ),
            (RunError::Interrupted("SIGTERM"), Exit::Interrupted, "error: interrupted by SIGTERM\n"),
            (
                RunError::InterruptedCommit("SIGINT"),
                Exit::Interrupted,
                "error: interrupted by SIGINT in the middle of the commit, so whether the backup was made is not known\n\n\
                 hint: if the object has a manifest beside it, it is a backup\n",
            ),
        ];
        for (error, exit, expected) in cases {
            assert_eq!(error_text(&error, error.hint().as_deref()), expected);
            assert_eq!(error.exit(), exit, "{error}");
        }
    }

    #[test]
    fn each_verdict_that_refuses_has_its_own_way_out() {
        let hint = |verdict| not_proven(verdict).hint().unwrap();
        assert!(hint(Verdict::HashMismatch).contains("bytes changed"));
        assert!(hint(Verdict::StructurallyDamaged).contains("another one with --node"));
        assert!(hint(Verdict::TooLargeToJudge).contains("report it"));
        for cut in [Verdict::Truncated, Verdict::NoTrailer, Verdict::Empty, Verdict::NotASnapshot, Verdict::Lengthened]
        {
            assert!(hint(cut).contains("cut short"), "{cut:?}");
        }
    }
}
