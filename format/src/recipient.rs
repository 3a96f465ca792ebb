//! Who can open a backup: age X25519 and SSH public keys.
//!
//! Invariant: a [`Recipients`] is never empty, and a private key pasted where a public one belongs is refused without being
//! repeated in the message.

use std::collections::BTreeMap;

use age::x25519;

/// At least one recipient. Duplicates count once.
#[derive(Clone)]
pub struct Recipients {
    /// By canonical text, in the order of that text.
    by_text: BTreeMap<String, Recipient>,
}

#[derive(Clone)]
enum Recipient {
    X25519(x25519::Recipient),
    Ssh(Box<age::ssh::Recipient>),
}

impl std::fmt::Debug for Recipients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.by_text.keys()).finish()
    }
}

/// Why a text is not a list of recipients. `place` is the source that the caller named, with a line number where it has lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipientError {
    /// No recipient at all: nobody could open the backup.
    #[error("no recipient was given")]
    None,
    /// A source without a single recipient in it.
    #[error("{place} has no recipient in it")]
    Empty {
        /// Where.
        place: String,
    },
    /// A private key; its text is not repeated.
    #[error("{place} is a private key")]
    PrivateKey {
        /// Where.
        place: String,
    },
    /// A key of a kind that cannot be sealed to.
    #[error("{place} has a key of the type `{kind}`, which is not supported")]
    Unsupported {
        /// Where.
        place: String,
        /// The type, as the key itself says.
        kind: String,
    },
    /// Not a recipient.
    #[error("{place} is not a recipient: {why}")]
    Invalid {
        /// Where.
        place: String,
        /// What is wrong with it.
        why: String,
    },
}

impl RecipientError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::None | Self::Empty { .. } => {
                "encryption cannot be turned off; make a key with `age-keygen -o key.txt` and give its public key (age1...)"
            }
            Self::PrivateKey { .. } => {
                "give the public key (`age-keygen -y key.txt` prints it; that of an SSH key is in the file `.pub`), and keep the private one away from the cluster"
            }
            _ => "a recipient is an `age1...`, `ssh-ed25519 ...` or `ssh-rsa ...` public key, one a line",
        }
    }
}

impl Recipients {
    /// Parses recipients from named sources: one recipient a line, `#` comments and blank lines skipped.
    ///
    /// A source is for instance a flag's value or a recipients file's text; its name stands in errors.
    ///
    /// # Errors
    /// The first line that is not a supported recipient; a source without any; no source at all.
    pub fn parse<'t>(sources: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Self, RecipientError> {
        let mut by_text = BTreeMap::new();
        for (name, text) in sources {
            let mut found = false;
            // Editors on other systems put a byte-order mark first; it is not part of a key.
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let lines = text.lines().count();
            for (index, line) in text.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let place = if lines > 1 { format!("{name}, line {},", index + 1) } else { name.to_owned() };
                let (canonical, recipient) = parse_line(line, place)?;
                by_text.insert(canonical, recipient);
                found = true;
            }
            if !found {
                return Err(RecipientError::Empty { place: name.to_owned() });
            }
        }
        if by_text.is_empty() { Err(RecipientError::None) } else { Ok(Self { by_text }) }
    }

    /// The recipients as canonical text: what the manifest records. SSH comments are gone.
    pub fn canonical(&self) -> Vec<String> {
        self.by_text.keys().cloned().collect()
    }

    pub(crate) fn as_age(&self) -> impl Iterator<Item = &dyn age::Recipient> {
        self.by_text.values().map(|recipient| match recipient {
            Recipient::X25519(key) => key as &dyn age::Recipient,
            Recipient::Ssh(key) => key.as_ref() as &dyn age::Recipient,
        })
    }
}

fn parse_line(line: &str, place: String) -> Result<(String, Recipient), RecipientError> {
    let upper = line.to_ascii_uppercase();
    // The comment of a public SSH key is free text, and may speak of private keys.
    if upper.contains("AGE-SECRET-KEY-")
        || upper.starts_with("AGE-PLUGIN-")
        || (upper.starts_with("-----BEGIN ") && upper.contains("PRIVATE KEY"))
    {
        return Err(RecipientError::PrivateKey { place });
    }
    if line.starts_with("age1") {
        return parse_age(line, place);
    }
    parse_ssh(line, place)
}

fn parse_age(line: &str, place: String) -> Result<(String, Recipient), RecipientError> {
    if let Ok(key) = line.parse::<x25519::Recipient>() {
        return Ok((key.to_string(), Recipient::X25519(key)));
    }
    // A plugin's recipient is `age1<plugin>1...`: the last `1` parts its name from the data.
    let human_part = line.rsplit_once('1').map_or(line, |(human, _)| human);
    if let Some(plugin) = human_part.strip_prefix("age1").filter(|plugin| !plugin.is_empty()) {
        return Err(RecipientError::Unsupported { place, kind: format!("age1{plugin}") });
    }
    Err(RecipientError::Invalid { place, why: "the key is damaged or cut".to_owned() })
}

fn parse_ssh(line: &str, place: String) -> Result<(String, Recipient), RecipientError> {
    use age::ssh::ParseRecipientKeyError as E;
    let invalid = |place, why: &str| RecipientError::Invalid { place, why: why.to_owned() };
    let mut words = line.split_whitespace();
    let kind = words.next().unwrap_or_default().to_owned();
    // One space between type and key, whatever the file has; what follows is a comment.
    let key = format!("{kind} {}", words.next().unwrap_or_default());
    match key.parse::<age::ssh::Recipient>() {
        Ok(key) => Ok((key.to_string(), Recipient::Ssh(Box::new(key)))),
        Err(E::Unsupported(kind)) => Err(RecipientError::Unsupported { place, kind }),
        Err(E::RsaModulusTooLarge) => Err(invalid(place, "the RSA key is larger than age supports")),
        Err(E::RsaModulusTooSmall) => Err(invalid(place, "the RSA key has less than 2,048 bits")),
        Err(_) if looks_like_ssh(&kind) && !matches!(kind.as_str(), "ssh-ed25519" | "ssh-rsa") => {
            Err(RecipientError::Unsupported { place, kind })
        }
        Err(_) if looks_like_ssh(&kind) => Err(invalid(place, "the key is damaged or cut")),
        Err(_) => Err(invalid(place, "it starts with neither `age1` nor an SSH key type")),
    }
}

fn looks_like_ssh(kind: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"].iter().any(|start| kind.starts_with(start))
}
