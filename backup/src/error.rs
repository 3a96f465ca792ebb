//! Why a run did not end in a backup.

use bronzenail_cli::{ConfigError, Exit};
use bronzenail_format::{NameError, OpenError, PrefixError, RecipientError, SealError};
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
    /// What came is no whole snapshot.
    #[error("the node sent a snapshot that is not whole, so nothing was stored")]
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
    /// The stored object cannot be read back.
    #[error("the stored backup could not be read back, so it was not committed")]
    ReadBack(#[source] ReadBackError),
    /// The manifest could not be written.
    #[error("the backup is stored, but could not be committed")]
    Commit(#[source] StoreError),
    /// A signal came.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
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
    /// The verdict in words.
    pub verdict: String,
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
            Self::NotProven { .. } => Some(
                "Talos reports a snapshot that was cut short as success; look at etcd's log on the node and run again"
                    .to_owned(),
            ),
            Self::Store(error) | Self::ReadBack(ReadBackError::Fetch(error)) | Self::Commit(error) => {
                error.hint().map(str::to_owned)
            }
            Self::ReadBack(_) => {
                Some("the data object without a manifest is not a backup; do not trust this store".to_owned())
            }
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
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
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
