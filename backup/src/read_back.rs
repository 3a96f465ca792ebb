//! Reading a stored backup again, as a stranger would, with a key that only this process has.
//!
//! Invariant: the bytes come from the store, through the same door as at a restore, and both digests must be those that
//! passed when it was written. A connection that breaks is resumed where it broke.

use std::io::{self, Read, Write};

use bronzenail_format::{OneTimeIdentity, OpenError, OpenOptions, Opened, Sha256Digest, open};
use bronzenail_store::{Append, ByteStream, StoreError, StoreErrorKind};
use bytes::Bytes;
use futures::StreamExt;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::error::{ReadBackError, RunError};

const BUFFERS: usize = 8;
/// Breaks in a row without a byte in between.
const BREAKS_IN_A_ROW_MAX: u32 = 5;
/// Breaks in all: a store that gives a byte at a time must not keep us for ever.
const BREAKS_MAX: u32 = 100;

/// What must come back.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Bytes in the store.
    pub stored_bytes: u64,
    /// Their digest.
    pub stored_sha256: Sha256Digest,
    /// Bytes of the snapshot.
    pub plain_bytes: u64,
    /// Their digest.
    pub plain_sha256: Sha256Digest,
}

/// Fetches `key`, opens it, and compares.
///
/// # Errors
/// It cannot be fetched, cannot be opened, or is something else.
pub async fn run(
    store: &Append,
    key: &str,
    identity: &OneTimeIdentity,
    expected: Expected,
    mut progress: impl FnMut(u64),
) -> Result<(), RunError> {
    let (sender, receiver) = mpsc::channel(BUFFERS);
    let identities = identity.identities();
    let thread = tokio::task::spawn_blocking(move || {
        let mut plain = HashSink { bytes: 0, hasher: Sha256::new() };
        let stored = ChannelReader { channel: receiver, current: Bytes::new() };
        let opened = open(stored, &mut plain, &identities, &OpenOptions::default());
        (opened, plain.bytes, Sha256Digest(plain.hasher.finalize().into()))
    });

    let read = async |from| store.read(key, from).await;
    let fetched = fetch(read, expected.stored_bytes, sender, &mut progress).await;
    let (opened, plain_bytes, plain_sha256) = thread.await.map_err(RunError::Task)?;
    // What could not be fetched cannot be opened: the first of the two is the reason.
    fetched
        .map_err(ReadBackError::Fetch)
        .and_then(|()| compare(opened, plain_bytes, plain_sha256, expected))
        .map_err(|source| RunError::ReadBack { key: key.to_owned(), source })
}

fn compare(
    opened: Result<Opened, OpenError>,
    plain_bytes: u64,
    plain_sha256: Sha256Digest,
    expected: Expected,
) -> Result<(), ReadBackError> {
    let opened = opened.map_err(ReadBackError::Open)?;
    let differs = |what: &str| Err(ReadBackError::Differs(what.to_owned()));
    if (opened.stored_bytes, opened.stored_sha256) != (expected.stored_bytes, expected.stored_sha256) {
        return differs("its stored bytes are not those that were sent");
    }
    if (plain_bytes, plain_sha256) != (expected.plain_bytes, expected.plain_sha256) {
        return differs("it opens to another snapshot");
    }
    if !opened.encrypted {
        return differs("it is not encrypted");
    }
    Ok(())
}

type Item = Result<Bytes, FetchFailed>;

#[derive(Debug, thiserror::Error)]
#[error("the fetch failed")]
struct FetchFailed;

/// Sends the object's bytes on, resuming after a break. `read` reads from a byte on.
async fn fetch(
    read: impl AsyncFn(u64) -> Result<ByteStream, StoreError>,
    stored_bytes: u64,
    sender: mpsc::Sender<Item>,
    progress: &mut impl FnMut(u64),
) -> Result<(), StoreError> {
    let (mut bytes, mut breaks, mut breaks_in_a_row) = (0, 0, 0);
    loop {
        let before = bytes;
        let ended = fetch_from(&read, &mut bytes, &sender, progress).await;
        breaks += 1;
        breaks_in_a_row = if bytes > before { 1 } else { breaks_in_a_row + 1 };
        let is_last = breaks_in_a_row > BREAKS_IN_A_ROW_MAX || breaks > BREAKS_MAX;
        match ended {
            Ok(Fetched::NotWanted) => return Ok(()),
            // More or less than was stored is for the comparison to say.
            Ok(Fetched::ToItsEnd) if bytes >= stored_bytes || is_last => return Ok(()),
            Err(error) if is_last || !can_resume(&error) => {
                let _ = sender.send(Err(FetchFailed)).await;
                return Err(error);
            }
            // Ended early, with an error or without: go on where it ended.
            Ok(Fetched::ToItsEnd) => tracing::info!(bytes, "the store ended early; resuming"),
            Err(error) => tracing::info!(bytes, %error, "the store broke off; resuming"),
        }
    }
}

fn can_resume(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Network | StoreErrorKind::Stalled | StoreErrorKind::Unavailable)
}

enum Fetched {
    ToItsEnd,
    /// The opening side has seen enough; it says why.
    NotWanted,
}

async fn fetch_from(
    read: &impl AsyncFn(u64) -> Result<ByteStream, StoreError>,
    bytes: &mut u64,
    sender: &mpsc::Sender<Item>,
    progress: &mut impl FnMut(u64),
) -> Result<Fetched, StoreError> {
    let mut stream = read(*bytes).await?;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        *bytes += chunk.len() as u64;
        if sender.send(Ok(chunk)).await.is_err() {
            return Ok(Fetched::NotWanted);
        }
        progress(*bytes);
    }
    Ok(Fetched::ToItsEnd)
}

struct ChannelReader {
    channel: mpsc::Receiver<Item>,
    current: Bytes,
}

impl Read for ChannelReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.channel.blocking_recv() {
                Some(bytes) => self.current = bytes.map_err(io::Error::other)?,
                None => return Ok(0),
            }
        }
        let bytes = self.current.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.current.split_to(bytes));
        Ok(bytes)
    }
}

struct HashSink {
    bytes: u64,
    hasher: Sha256,
}

impl Write for HashSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const EXPECTED: Expected = Expected {
        stored_bytes: 10,
        stored_sha256: Sha256Digest([1; 32]),
        plain_bytes: 40,
        plain_sha256: Sha256Digest([2; 32]),
    };

    fn opened() -> Opened {
        Opened {
            stored_bytes: 10,
            stored_sha256: Sha256Digest([1; 32]),
            plain_bytes: 40,
            encrypted: true,
            compressed: true,
        }
    }

    #[test]
    fn both_sides_must_be_what_was_written() {
        let plain = Sha256Digest([2; 32]);
        assert!(compare(Ok(opened()), 40, plain, EXPECTED).is_ok());
        let other = Sha256Digest([3; 32]);
        for (what, opened, plain_bytes, plain_sha256) in [
            ("fewer bytes are stored", Opened { stored_bytes: 9, ..opened() }, 40, plain),
            ("other bytes are stored", Opened { stored_sha256: other, ..opened() }, 40, plain),
            ("a shorter snapshot", opened(), 39, plain),
            ("another snapshot", opened(), 40, other),
            ("no encryption", Opened { encrypted: false, ..opened() }, 40, plain),
        ] {
            let differs = compare(Ok(opened), plain_bytes, plain_sha256, EXPECTED);
            assert!(matches!(differs, Err(ReadBackError::Differs(_))), "{what}");
        }
    }

    #[test]
    fn only_a_broken_connection_is_resumed() {
        use StoreErrorKind as Kind;
        for (kind, resumed) in [
            (Kind::Network, true),
            (Kind::Stalled, true),
            (Kind::Unavailable, true),
            (Kind::Denied, false),
            (Kind::NotFound, false),
            (Kind::Damaged, false),
        ] {
            assert_eq!(can_resume(&StoreError::new(kind, "could not read it")), resumed, "{kind:?}");
        }
    }

    /// What the store does when it is asked, time after time: so many bytes, and then an error or an end.
    struct Script(Mutex<Vec<(usize, Option<StoreErrorKind>)>>);

    const OBJECT: &[u8] = b"0123456789";

    impl Script {
        fn read(&self, from: u64) -> ByteStream {
            let mut steps = self.0.lock().unwrap();
            let (bytes, ending) = if steps.len() > 1 { steps.remove(0) } else { steps[0] };
            let rest = &OBJECT[usize::try_from(from).unwrap().min(OBJECT.len())..];
            let mut items = vec![Ok(Bytes::from_static(&rest[..bytes.min(rest.len())]))];
            items.extend(ending.map(|kind| Err(StoreError::new(kind, "could not read it"))));
            Box::pin(futures::stream::iter(items))
        }
    }

    async fn fetched(steps: &[(usize, Option<StoreErrorKind>)]) -> (Result<(), StoreError>, Vec<u8>) {
        let (sender, mut receiver) = mpsc::channel::<Item>(BUFFERS);
        let script = Script(Mutex::new(steps.to_vec()));
        let read = async |from| Ok(script.read(from));
        let mut seen = Vec::new();
        let drain = async {
            while let Some(Ok(bytes)) = receiver.recv().await {
                seen.extend_from_slice(&bytes);
            }
        };
        let mut progress = |_| {};
        let (ended, ()) = tokio::join!(fetch(read, OBJECT.len() as u64, sender, &mut progress), drain);
        (ended, seen)
    }

    #[tokio::test]
    async fn a_fetch_that_breaks_goes_on_where_it_broke() {
        use StoreErrorKind as Kind;
        let all = usize::MAX;
        for steps in [
            &[(all, None)][..],
            &[(3, Some(Kind::Network)), (0, Some(Kind::Stalled)), (4, Some(Kind::Unavailable)), (all, None)],
            // An end that comes too early, and says nothing.
            &[(3, None), (0, None), (all, None)],
            // More breaks than are allowed in a row, but each time it moved; the last one after the last byte.
            &[&[(1, Some(Kind::Network)); 10][..], &[(all, None)]].concat(),
        ] {
            let (ended, seen) = fetched(steps).await;
            assert!(ended.is_ok(), "{steps:?}");
            assert_eq!(seen, OBJECT, "{steps:?}");
        }
    }

    #[tokio::test]
    async fn a_fetch_that_gets_nowhere_ends() {
        use StoreErrorKind as Kind;
        for (steps, kind) in [
            (&[(3, Some(Kind::Network)), (0, Some(Kind::Network))][..], Kind::Network),
            (&[(3, Some(Kind::Denied)), (usize::MAX, None)], Kind::Denied),
        ] {
            let (ended, seen) = fetched(steps).await;
            assert_eq!(ended.unwrap_err().kind(), kind);
            assert_eq!(seen, OBJECT[..3]);
        }
        // A store that has less than was sent: the comparison says so.
        let (ended, seen) = fetched(&[(3, None), (0, None)]).await;
        assert!(ended.is_ok());
        assert_eq!(seen, OBJECT[..3]);
    }
}
