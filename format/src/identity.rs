//! Keys that open a backup.
//!
//! Invariant: no key is ever printed: `Debug` shows how many there are, and errors name a place, not a text.

use std::fmt;
use std::io::BufReader;

use age::x25519;
use secrecy::{ExposeSecret, SecretString};

/// Keys to try when a backup is opened, in the order in which they were given.
#[derive(Clone, Default)]
pub struct Identities {
    keys: Vec<Key>,
}

/// One key. Keys that must first be unlocked, by a passphrase or by a plugin, will be kinds of their own here: they need
/// someone to ask, so their constructors will take a callback, and [`Identities::parse`] will stay free of questions.
#[derive(Clone)]
enum Key {
    X25519(x25519::Identity),
    Ssh(Box<age::ssh::Identity>),
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.keys.len())
    }
}

/// Why a text is not a set of identities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// No key in it.
    #[error("{place} has no identity in it")]
    Empty {
        /// Where.
        place: String,
    },
    /// A public key where a private one belongs.
    #[error("{place} is a public key")]
    PublicKey {
        /// Where.
        place: String,
    },
    /// A kind of key that cannot be used (yet).
    #[error("{place} has a {kind}, which is not supported")]
    Unsupported {
        /// Where.
        place: String,
        /// Its kind.
        kind: &'static str,
    },
    /// Not an identity.
    #[error("{place} is not an identity")]
    Invalid {
        /// Where.
        place: String,
    },
}

impl IdentityError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::PublicKey { .. } => "a public key seals; to open, give the private key that belongs to it",
            Self::Unsupported { .. } => "unlock it first, or open the backup by hand: `age -d -i KEY FILE | zstd -d`",
            _ => {
                "an identity is a line `AGE-SECRET-KEY-1...` or an SSH private key (ed25519 or RSA) without a passphrase"
            }
        }
    }
}

impl Identities {
    /// Parses an identity file of age, or an SSH private key.
    ///
    /// # Errors
    /// A line that is not an identity; a text without any; a key that needs a passphrase or a plugin.
    pub fn parse(name: &str, text: &str) -> Result<Self, IdentityError> {
        // Editors on other systems put a byte-order mark first; it is not part of a key.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with("-----BEGIN ") {
            return parse_pem(name, text.trim_start()).map(|key| Self { keys: vec![key] });
        }
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = parse_line(line, format!("{name}, line {},", index + 1))?;
            keys.push(Key::X25519(key));
        }
        if keys.is_empty() { Err(IdentityError::Empty { place: name.to_owned() }) } else { Ok(Self { keys }) }
    }

    /// Puts two sets together.
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(other.keys);
        self
    }

    /// The public keys, spelled as in a manifest: whether one of these opens a backup can be seen without fetching it.
    pub fn public_keys(&self) -> Vec<String> {
        self.keys.iter().filter_map(Key::public_key).collect()
    }

    pub(crate) fn as_age(&self) -> impl Iterator<Item = &dyn age::Identity> {
        self.keys.iter().map(|key| match key {
            Key::X25519(key) => key as &dyn age::Identity,
            Key::Ssh(key) => key.as_ref() as &dyn age::Identity,
        })
    }
}

impl Key {
    fn public_key(&self) -> Option<String> {
        match self {
            Self::X25519(key) => Some(key.to_public().to_string()),
            Self::Ssh(key) => age::ssh::Recipient::try_from(key.as_ref().clone()).ok().map(|key| key.to_string()),
        }
    }
}

fn parse_pem(name: &str, text: &str) -> Result<Key, IdentityError> {
    use age::ssh::Identity as Ssh;
    let place = name.to_owned();
    if text.starts_with("-----BEGIN AGE ENCRYPTED FILE") {
        return Err(IdentityError::Unsupported { place, kind: "passphrase-protected identity file" });
    }
    // The PEM reader underneath wants plain line ends. This copy of a private key is wiped as it goes.
    let text = SecretString::from(text.replace("\r\n", "\n"));
    match Ssh::from_buffer(BufReader::new(text.expose_secret().as_bytes()), None) {
        Ok(key @ Ssh::Unencrypted(_)) => Ok(Key::Ssh(Box::new(key))),
        Ok(Ssh::Encrypted(_)) => Err(IdentityError::Unsupported { place, kind: "passphrase-protected SSH key" }),
        Ok(Ssh::Unsupported(_)) => Err(IdentityError::Unsupported { place, kind: "SSH key of another type" }),
        Err(_) => Err(IdentityError::Invalid { place }),
    }
}

fn parse_line(line: &str, place: String) -> Result<x25519::Identity, IdentityError> {
    if let Ok(key) = line.parse::<x25519::Identity>() {
        return Ok(key);
    }
    let upper = line.to_ascii_uppercase();
    if upper.starts_with("AGE-PLUGIN-") {
        return Err(IdentityError::Unsupported { place, kind: "plugin identity" });
    }
    if upper.starts_with("AGE-SECRET-KEY-PQ-") {
        return Err(IdentityError::Unsupported { place, kind: "post-quantum identity" });
    }
    if upper.starts_with("AGE1") || upper.starts_with("SSH-") {
        return Err(IdentityError::PublicKey { place });
    }
    Err(IdentityError::Invalid { place })
}

/// A key that exists only in one process: what is sealed to it can be read back there, and nowhere later.
///
/// There is no way to print or store it, and age wipes it when it is dropped.
#[derive(Clone)]
pub struct OneTimeIdentity(x25519::Identity);

impl OneTimeIdentity {
    /// A fresh key, from the operating system's randomness.
    pub fn generate() -> Self {
        Self(x25519::Identity::generate())
    }

    /// The key as a set to open with.
    pub fn identities(&self) -> Identities {
        Identities { keys: vec![Key::X25519(self.0.clone())] }
    }

    pub(crate) fn recipient(&self) -> x25519::Recipient {
        self.0.to_public()
    }
}

impl fmt::Debug for OneTimeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneTimeIdentity(..)")
    }
}
