//! What can go wrong at a store, in the same words whatever the driver.
//!
//! Invariant: no message carries a credential, a signature or a header: SDK errors are reduced to their code, their message
//! and the texts of their causes.

use std::error::Error;

/// What kind of failure it was; what a caller may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// There is no such object.
    NotFound,
    /// There is no such bucket or folder.
    NoSuchPlace,
    /// An object is there already, and is not replaced.
    AlreadyExists,
    /// Credentials are missing, wrong, or not allowed to do this.
    Denied,
    /// The store asked to slow down, or had a fault of its own, more often than we try.
    Unavailable,
    /// The connection could not be made or broke.
    Network,
    /// No byte moved for longer than allowed.
    Stalled,
    /// The configuration cannot work.
    Config,
    /// The store does not know how to do this.
    Unsupported,
    /// What the store has is not what was sent.
    Damaged,
    /// There is no room left.
    Full,
    /// Anything else.
    Other,
}

/// A failure at a store: what was being done, of what kind it was, and what to do about it.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    doing: String,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// A failure of `kind` while `doing` something to something.
    pub fn new(kind: StoreErrorKind, doing: impl Into<String>) -> Self {
        Self { kind, doing: doing.into(), hint: None, source: None }
    }

    /// Adds what to do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what caused it.
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.doing)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// One level of a chain of causes whose types cannot be kept.
#[derive(Debug)]
pub(crate) struct Cause {
    text: String,
    source: Option<Box<Cause>>,
}

impl Cause {
    /// Copies the texts of an error and of its causes, and nothing else of them.
    pub(crate) fn texts_of(error: &dyn Error) -> Self {
        // One line a cause, whatever the layers below think of.
        let text = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        // A credential process may write anything, the secret included, and the SDK repeats it whole.
        let text = match text.split_once("Stderr:") {
            Some((before, _)) => format!("{before}What it wrote is not repeated here"),
            None => text,
        };
        let mut below = error.source();
        // Layers that only repeat what the one above said add nothing.
        while below.is_some_and(|cause| text.contains(&cause.to_string())) {
            below = below.and_then(|cause| cause.source());
        }
        Self { text, source: below.map(|cause| Box::new(Self::texts_of(cause))) }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), source: None }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}
