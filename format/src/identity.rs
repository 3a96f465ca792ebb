//! Keys that open a backup.
//!
//! Invariant: no key is ever printed: `Debug` shows how many there are, and errors name a place, not a text.

use std::io::BufReader;

use age::x25519;

/// Keys to try when a backup is opened.
#[derive(Default)]
pub struct Identities {
    keys: Vec<Box<dyn age::Identity + Send + Sync>>,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

impl Identities {
    /// Parses an identity file of age, or an SSH private key.
    ///
    /// # Errors
    /// A line that is not an identity; a text without any; a key that needs a passphrase or a plugin.
    pub fn parse(name: &str, text: &str) -> Result<Self, IdentityError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.contains("PRIVATE KEY-----") {
            return Self::parse_ssh(name, text);
        }
        let mut keys: Vec<Box<dyn age::Identity + Send + Sync>> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            keys.push(Box::new(parse_line(line, format!("{name}, line {},", index + 1))?));
        }
        if keys.is_empty() { Err(IdentityError::Empty { place: name.to_owned() }) } else { Ok(Self { keys }) }
    }

    fn parse_ssh(name: &str, text: &str) -> Result<Self, IdentityError> {
        let place = name.to_owned();
        // The PEM reader underneath wants plain line ends.
        let text = text.replace("\r\n", "\n");
        match age::ssh::Identity::from_buffer(BufReader::new(text.trim_start().as_bytes()), None) {
            Ok(key @ age::ssh::Identity::Unencrypted(_)) => Ok(Self { keys: vec![Box::new(key)] }),
            Ok(age::ssh::Identity::Encrypted(_)) => {
                Err(IdentityError::Unsupported { place, kind: "passphrase-protected SSH key" })
            }
            Ok(age::ssh::Identity::Unsupported(_)) => {
                Err(IdentityError::Unsupported { place, kind: "SSH key of another type" })
            }
            Err(_) => Err(IdentityError::Invalid { place }),
        }
    }

    /// Puts two sets together.
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(other.keys);
        self
    }

    pub(crate) fn as_age(&self) -> impl Iterator<Item = &dyn age::Identity> {
        self.keys.iter().map(|key| key.as_ref() as &dyn age::Identity)
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
        Identities { keys: vec![Box::new(self.0.clone())] }
    }

    pub(crate) fn recipient(&self) -> x25519::Recipient {
        self.0.to_public()
    }
}

impl std::fmt::Debug for OneTimeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneTimeIdentity(..)")
    }
}
