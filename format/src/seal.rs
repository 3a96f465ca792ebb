//! Sealing: plain snapshot bytes in, one age file around one zstd frame out.
//!
//! Invariant: [`seal`] returns `Ok` only after zstd wrote its frame's end and age its last chunk; a writer that saw an error
//! holds something that no reader takes for whole.

use std::io::{self, Read, Write};

use crate::observe::{Counter, Observer};
use crate::{OneTimeIdentity, Recipients, Sha256Digest};

/// zstd's default level: beyond it, the pipeline would be slower than a node's own snapshot stream.
pub const LEVEL_DEFAULT: i32 = 3;
/// The lowest level that is offered.
pub const LEVEL_MIN: i32 = 1;
/// The highest: levels above it need windows and memory that a pod does not have.
pub const LEVEL_MAX: i32 = 19;

/// 2^23 = 8 MiB: within what every decoder accepts by default (zstd's own limit is 2^27), whatever the level.
const WINDOW_LOG_MAX: u32 = 23;
/// Jobs of 1 MiB keep two workers busy in about 20 MiB of memory; larger ones buy little speed.
const JOB_BYTES: u32 = 1024 * 1024;
/// A buffer hop costs more than the work on a small buffer.
const COPY_BYTES: usize = 256 * 1024;

/// How to seal. There is no way to say "without encryption".
#[derive(Debug)]
pub struct SealOptions<'a> {
    /// Who can open it.
    pub recipients: &'a Recipients,
    /// A key of this process that can open it too, for read-back.
    pub one_time: Option<&'a OneTimeIdentity>,
    /// zstd level, 1 to 19.
    pub level: i32,
    /// Threads that compress beside the calling one; 0 compresses inline.
    pub workers: u32,
}

/// What passed on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes that were read.
    pub plain_bytes: u64,
    /// Bytes that were written.
    pub stored_bytes: u64,
    /// Digest of what was written.
    pub stored_sha256: Sha256Digest,
}

/// Why sealing failed, by side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The level is out of range.
    #[error("zstd level {0} is not between 1 and 19")]
    Level(i32),
    /// age refused the recipients.
    #[error("could not seal to the recipients: {0}")]
    Recipients(String),
    /// The source gave an error.
    #[error("could not read the snapshot after {plain_bytes} bytes")]
    ReadPlain {
        /// Bytes read before it.
        plain_bytes: u64,
        /// What the source said.
        #[source]
        source: io::Error,
    },
    /// The sink gave an error.
    #[error("could not write the sealed snapshot after {stored_bytes} bytes")]
    WriteStored {
        /// Bytes written before it.
        stored_bytes: u64,
        /// What the sink said.
        #[source]
        source: io::Error,
    },
    /// zstd itself failed.
    #[error("could not compress")]
    Compress(#[source] io::Error),
}

/// Turns plain bytes into their sealed form and reports what passed on both sides.
///
/// Commits nothing, and does not look at what the bytes are.
///
/// # Errors
/// Says which side failed; an error of the source outranks what it caused further on.
pub fn seal(plain: impl Read, stored: impl Write, options: &SealOptions<'_>) -> Result<Sealed, SealError> {
    if !(LEVEL_MIN..=LEVEL_MAX).contains(&options.level) {
        return Err(SealError::Level(options.level));
    }
    let mut plain = Counter::new(plain);
    let mut stored = Counter::new(stored);
    let mut sink = Observer::new(&mut stored);

    if let Err(failure) = pump(&mut plain, &mut sink, options) {
        return Err(blame(failure, &mut plain, &mut stored));
    }

    let (stored_bytes, stored_sha256) = sink.finish();
    Ok(Sealed { plain_bytes: plain.bytes, stored_bytes, stored_sha256 })
}

enum Failure {
    Recipients(String),
    Stream(io::Error),
}

fn pump(plain: &mut impl Read, stored: &mut impl Write, options: &SealOptions<'_>) -> Result<(), Failure> {
    let one_time = options.one_time.map(OneTimeIdentity::recipient);
    let recipients = options.recipients.as_age().chain(one_time.iter().map(|key| key as &dyn age::Recipient));
    let encryptor = age::Encryptor::with_recipients(recipients).map_err(|e| Failure::Recipients(e.to_string()))?;

    let age = encryptor.wrap_output(stored).map_err(Failure::Stream)?;
    let mut zstd = encoder(age, options).map_err(Failure::Stream)?;
    copy(plain, &mut zstd).map_err(Failure::Stream)?; // the only place where bytes move

    // Order matters: zstd writes its frame end into age, age its last chunk into the store.
    let age = zstd.finish().map_err(Failure::Stream)?;
    age.finish().and_then(|stored| stored.flush()).map_err(Failure::Stream)
}

fn encoder<W: Write>(sink: W, options: &SealOptions<'_>) -> io::Result<zstd::Encoder<'static, W>> {
    use zstd::zstd_safe::CParameter;
    let mut raw = zstd::stream::raw::Encoder::new(options.level)?;
    // Levels from 17 on would choose more; a decoder with default limits must open everything we write.
    if options.level >= 17 {
        raw.set_parameter(CParameter::WindowLog(WINDOW_LOG_MAX))?;
    }
    raw.set_parameter(CParameter::ChecksumFlag(true))?;
    if options.workers > 0 {
        raw.set_parameter(CParameter::NbWorkers(options.workers))?;
        raw.set_parameter(CParameter::JobSize(JOB_BYTES))?;
    }
    let writer = zstd::stream::zio::Writer::new_with_capacity(sink, raw, 128 * 1024);
    Ok(zstd::Encoder::with_writer(writer))
}

pub(crate) fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&buffer[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn blame<R, W>(failure: Failure, plain: &mut Counter<R>, stored: &mut Counter<W>) -> SealError {
    let stream = match failure {
        Failure::Recipients(why) => return SealError::Recipients(why),
        Failure::Stream(error) => error,
    };
    if let Some(source) = plain.error.take() {
        return SealError::ReadPlain { plain_bytes: plain.bytes, source };
    }
    if let Some(source) = stored.error.take() {
        return SealError::WriteStored { stored_bytes: stored.bytes, source };
    }
    SealError::Compress(stream)
}
