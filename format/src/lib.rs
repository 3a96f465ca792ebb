//! What a bronzenail backup is: object names, the manifest, and the sealed form of a snapshot.
//!
//! `FORMAT.md` beside this crate is the normative text;
//! this is its code. Invariant: no I/O of its own, no clock, no environment. Times and random bytes are parameters, bytes come
//! from a [`std::io::Read`] and go to a [`std::io::Write`]. What the plain bytes mean is not looked at here.

pub mod digest;
pub mod identity;
pub mod manifest;
pub mod name;
pub mod open;
pub mod prefix;
pub mod recipient;
pub mod seal;

mod age_header;
mod observe;
mod zstd_frame;

pub use digest::Sha256Digest;
pub use identity::{Identities, IdentityError, OneTimeIdentity};
pub use manifest::{Evidence, EvidenceLevel, Manifest, ManifestError, UnknownLevel};
pub use name::{BackupId, ClusterName, NameError, ParsedKey};
pub use open::{OpenError, OpenOptions, Opened, open};
pub use prefix::{Prefix, PrefixError};
pub use recipient::{RecipientError, Recipients};
pub use seal::{SealError, SealOptions, Sealed, seal};
