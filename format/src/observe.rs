//! Counting and hashing bytes as they pass, so that both sides of the pipeline are described in one pass.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

use crate::Sha256Digest;

/// Passes bytes through, counts them and hashes them.
pub(crate) struct Observer<T> {
    inner: T,
    bytes: u64,
    hasher: Sha256,
}

impl<T> Observer<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, bytes: 0, hasher: Sha256::new() }
    }

    /// How many bytes passed, and their digest.
    pub(crate) fn finish(self) -> (u64, Sha256Digest) {
        (self.bytes, Sha256Digest(self.hasher.finalize().into()))
    }

    fn saw(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }
}

impl<R: Read> Read for Observer<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.saw(&buffer[..read]);
        Ok(read)
    }
}

impl<W: Write> Write for Observer<W> {
    // Only what the inner writer took was sent: a short write must not be counted whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.saw(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Counts bytes and remembers on which side an error arose.
///
/// It also makes every source and sink a patient one, because not every layer above knows short writes and interruptions.
pub(crate) struct Counter<T> {
    inner: T,
    pub(crate) bytes: u64,
    /// The error that the inner side gave; the caller's copy went through layers that may have renamed it.
    pub(crate) error: Option<io::Error>,
}

impl<T> Counter<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, bytes: 0, error: None }
    }

    fn keep(&mut self, error: io::Error) -> io::Error {
        let copy = io::Error::new(error.kind(), error.to_string());
        self.error = Some(error);
        copy
    }
}

impl<R: Read> Read for Counter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match again(|| self.inner.read(buffer)) {
            Ok(read) => {
                self.bytes += read as u64;
                Ok(read)
            }
            Err(error) => Err(self.keep(error)),
        }
    }
}

impl<W: Write> Write for Counter<W> {
    /// Writes all of it, or fails: age's header writer takes a short write for an error.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = bytes;
        while !left.is_empty() {
            match again(|| self.inner.write(left)) {
                Ok(0) => return Err(self.keep(io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    self.bytes += written as u64;
                    left = &left[written..];
                }
                Err(error) => return Err(self.keep(error)),
            }
        }
        Ok(bytes.len())
    }

    // A sink that buffers may learn only here that it cannot write.
    fn flush(&mut self) -> io::Result<()> {
        again(|| self.inner.flush()).map_err(|error| self.keep(error))
    }
}

/// Asks again after a signal. Here, and not only in the loops above: age's header writer has none, and fails.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
