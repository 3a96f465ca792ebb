//! Opening: from stored bytes back to the plain snapshot.
//!
//! Magic bytes decide what a layer is, names do not: age or not, zstd or not, else plain. Invariant: `Ok` only when the stored
//! bytes were read to their very end and every layer said that it was whole. What was written to `plain` before an error is
//! not to be used; the caller holds it where nothing takes it for a snapshot.

use std::io::{self, BufRead, BufReader, Read, Write};

use crate::age_header;
use crate::observe::{Counter, Observer};
use crate::seal::copy;
use crate::zstd_frame::{is_zstd, window_bytes};
use crate::{Identities, Sha256Digest};

/// The largest window that is accepted unless the caller allows more: 2^27 = 128 MiB, zstd's own default.
pub const WINDOW_LOG_DEFAULT: u32 = 27;
/// The largest that zstd can decode at all on 64-bit machines: 2^31 = 2 GiB.
pub const WINDOW_LOG_MAX: u32 = 31;
/// The smallest that zstd knows.
const WINDOW_LOG_MIN: u32 = 10;

const AGE_MAGIC: &[u8] = b"age-encryption.org/";
const ARMOR_MAGIC: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE";
/// As long as the longest magic that is looked for, and as a zstd frame header (18 bytes).
const PEEK_BYTES: u64 = 32;
const BUFFER_BYTES: usize = 128 * 1024;

/// How to open.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Largest zstd window that may be allocated, as a power of two; what no decoder takes is brought into range.
    pub window_log_max: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { window_log_max: WINDOW_LOG_DEFAULT }
    }
}

/// What was found and what passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of the stored object.
    pub stored_bytes: u64,
    /// Digest of the stored object.
    pub stored_sha256: Sha256Digest,
    /// Bytes of the plain snapshot.
    pub plain_bytes: u64,
    /// There was an age layer.
    pub encrypted: bool,
    /// There was a zstd layer.
    pub compressed: bool,
}

/// Why a stored object could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The stored side gave an error.
    #[error("could not read the stored backup after {stored_bytes} bytes")]
    ReadStored {
        /// Bytes read before it.
        stored_bytes: u64,
        /// What the source said.
        #[source]
        source: io::Error,
    },
    /// The plain side gave an error.
    #[error("could not write the snapshot after {plain_bytes} bytes")]
    WritePlain {
        /// Bytes written before it.
        plain_bytes: u64,
        /// What the sink said.
        #[source]
        source: io::Error,
    },
    /// Nothing at all.
    #[error("the stored backup is empty")]
    Empty,
    /// None of the identities fits. The object may well be whole: whether it is, its digest in the manifest tells.
    #[error("none of the given identities opens the backup")]
    NoIdentity {
        /// Kinds of recipients that the header names, such as `X25519` or `ssh-ed25519`. It does not say whose.
        recipient_kinds: Vec<String>,
    },
    /// The age layer is cut or damaged; the key is not to blame.
    #[error("the encrypted backup is truncated or corrupt")]
    Encrypted(#[source] io::Error),
    /// Something that age cannot read: armored text, a passphrase, a newer version.
    #[error("the encryption of the backup is not supported: {0}")]
    Unsupported(&'static str),
    /// The zstd layer is cut or damaged, or something follows it.
    #[error("the compressed backup is truncated or corrupt")]
    Compressed(#[source] io::Error),
    /// The frame asks for more memory than is allowed.
    #[error("the backup needs {}", window_text(*needed_bytes, *window_log_max))]
    WindowTooLarge {
        /// What the first frame asks for; unknown if it is a later frame that asks.
        needed_bytes: Option<u64>,
        /// The limit, as a power of two.
        window_log_max: u32,
    },
}

fn window_text(needed_bytes: Option<u64>, window_log_max: u32) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let limit = mib(1 << window_log_max);
    match needed_bytes {
        Some(needed) => format!("a zstd window of {} MiB, and {limit} MiB are allowed", mib(needed)),
        None => format!("a zstd window of more than the {limit} MiB that are allowed"),
    }
}

impl OpenError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoIdentity { .. } => {
                Some("the manifest lists the public keys that it was sealed to; give the private key of one of them")
            }
            Self::Encrypted(_) | Self::Compressed(_) => Some(
                "compare size and SHA-256 with the manifest; if they differ, fetch it again, else try another backup",
            ),
            Self::WindowTooLarge { .. } => {
                Some("it was not written by this program; allow as much memory if you trust it")
            }
            _ => None,
        }
    }
}

/// Opens `stored` with one of `identities` and writes the plain bytes to `plain`.
///
/// Does not say what the plain bytes are: that is asked of a snapshot check that `plain` feeds. Damage to the very first bytes
/// makes a sealed backup look like a plain file: who knows that it was sealed must look at [`Opened::encrypted`] too.
///
/// # Errors
/// Names the layer; a damaged object is never called a wrong key.
pub fn open(
    stored: impl Read,
    plain: impl Write,
    identities: &Identities,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let mut source = Counter::new(stored);
    let mut sink = Counter::new(plain);
    let mut observer = BufReader::with_capacity(BUFFER_BYTES, Observer::new(&mut source));

    let layers = match unseal(&mut observer, &mut sink, identities, options) {
        Ok(layers) => layers,
        Err(error) => {
            drop(observer);
            return Err(blame(error, &mut source, &mut sink));
        }
    };

    let (stored_bytes, stored_sha256) = observer.into_inner().finish();
    let Layers { encrypted, compressed } = layers;
    Ok(Opened { stored_bytes, stored_sha256, plain_bytes: sink.bytes, encrypted, compressed })
}

struct Layers {
    encrypted: bool,
    compressed: bool,
}

fn unseal(
    stored: &mut impl BufRead,
    plain: &mut impl Write,
    identities: &Identities,
    options: &OpenOptions,
) -> Result<Layers, OpenError> {
    let (start, mut stored) = peek(stored).map_err(OpenError::Encrypted)?;
    if start.is_empty() {
        return Err(OpenError::Empty);
    }
    // Too short to tell, but it is how every age file begins.
    if AGE_MAGIC.starts_with(&start) && start.len() < AGE_MAGIC.len() {
        return Err(OpenError::Encrypted(io::ErrorKind::UnexpectedEof.into()));
    }
    if start.starts_with(ARMOR_MAGIC) {
        return Err(OpenError::Unsupported("it is armored text; decode it with `age -d` first"));
    }
    if !start.starts_with(AGE_MAGIC) {
        let compressed = decompress(&mut stored, plain, options, OpenError::Compressed)?;
        return Ok(Layers { encrypted: false, compressed });
    }

    let header = age_header::read(&mut stored).map_err(OpenError::Encrypted)?;
    let header_error = |error| header_error(error, &header.kinds);
    let whole = io::Cursor::new(&header.bytes).chain(stored);
    let decryptor = age::Decryptor::new_buffered(whole).map_err(header_error)?;
    if decryptor.is_scrypt() {
        return Err(OpenError::Unsupported("it is sealed to a passphrase"));
    }
    let opened = decryptor.decrypt(identities.as_age()).map_err(header_error)?;
    let mut opened = BufReader::with_capacity(BUFFER_BYTES, Counter::new(opened));
    let compressed = match decompress(&mut opened, plain, options, OpenError::Compressed) {
        Ok(compressed) => compressed,
        // What age refused reaches us through zstd's reader: the outer layer is the one to name.
        Err(OpenError::Compressed(error)) => {
            return Err(match opened.get_mut().error.take() {
                Some(age) => OpenError::Encrypted(age),
                None => OpenError::Compressed(error),
            });
        }
        Err(error) => return Err(error),
    };
    Ok(Layers { encrypted: true, compressed })
}

/// Copies `from` to `to`, through zstd if its first bytes say so; true if they did.
fn decompress(
    from: &mut impl BufRead,
    to: &mut impl Write,
    options: &OpenOptions,
    wrap: fn(io::Error) -> OpenError,
) -> Result<bool, OpenError> {
    let (start, mut from) = peek(from).map_err(wrap)?;
    if !is_zstd(&start) {
        copy(&mut from, to).and_then(|()| to.flush()).map_err(wrap)?;
        return Ok(false);
    }
    let window_log_max = options.window_log_max.clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX);
    let mut decoder = zstd::Decoder::with_buffer(from).map_err(wrap)?;
    decoder.window_log_max(window_log_max).map_err(wrap)?;
    copy(&mut decoder, to).and_then(|()| to.flush()).map_err(|error| {
        if error.to_string().contains("requires too much memory") {
            let needed_bytes = window_bytes(&start).filter(|needed| *needed > 1 << window_log_max);
            return OpenError::WindowTooLarge { needed_bytes, window_log_max };
        }
        wrap(error)
    })?;
    Ok(true)
}

/// The first bytes, and a reader that gives them once more.
///
/// Not `fill_buf`: a source may hand out a single byte at a time, and a magic number cut in two is still one.
fn peek<R: BufRead>(mut from: R) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut start = Vec::with_capacity(PEEK_BYTES as usize);
    from.by_ref().take(PEEK_BYTES).read_to_end(&mut start)?;
    Ok((start.clone(), io::Cursor::new(start).chain(from)))
}

fn header_error(error: age::DecryptError, kinds: &[String]) -> OpenError {
    use age::DecryptError as E;
    let corrupt = |why: &str| OpenError::Encrypted(io::Error::new(io::ErrorKind::InvalidData, why));
    match error {
        E::NoMatchingKeys => OpenError::NoIdentity { recipient_kinds: kinds.to_vec() },
        E::UnknownFormat => OpenError::Unsupported("it is of a newer age version"),
        E::Io(error) => OpenError::Encrypted(error),
        E::InvalidMac => corrupt("the header's authentication code does not match"),
        E::InvalidHeader => corrupt("the header is not whole"),
        other => corrupt(&other.to_string()),
    }
}

fn blame<R, W>(error: OpenError, source: &mut Counter<R>, sink: &mut Counter<W>) -> OpenError {
    if let Some(error) = source.error.take() {
        return OpenError::ReadStored { stored_bytes: source.bytes, source: error };
    }
    if let Some(error) = sink.error.take() {
        return OpenError::WritePlain { plain_bytes: sink.bytes, source: error };
    }
    error
}
