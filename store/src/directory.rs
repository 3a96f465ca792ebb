//! Objects as files below a directory.
//!
//! The order is: temporary file in the target's own folder, write, fsync, link to the final name, drop the temporary name,
//! fsync the folder. A link fails if the name is taken, which a rename would not: create-only is enforced by the file system.
//! A folder that is made on the way is synced into the one above, or a power cut could take it with all that is in it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream;

use crate::driver::{ByteStream, Created, Driver, Object, OpenUpload, Part, PartSink};
use crate::upload::md5_of;
use crate::{StoreError, StoreErrorKind};

/// Temporary files are named so; no key may be.
const PART_SUFFIX: &str = ".part";
const READ_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Directory {
    root: Arc<PathBuf>,
}

fn failed(doing: String, error: io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => StoreErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => StoreErrorKind::AlreadyExists,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreErrorKind::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
        io::ErrorKind::Unsupported => StoreErrorKind::Unsupported,
        _ => StoreErrorKind::Other,
    };
    let failure = StoreError::new(kind, doing).because(error);
    match kind {
        StoreErrorKind::Full => failure.with_hint("free some room on that file system"),
        _ => failure,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panicked) => Err(StoreError::new(StoreErrorKind::Other, "a file task ended early").because(panicked)),
    }
}

impl Directory {
    pub(crate) async fn open(root: &Path) -> Result<Self, StoreError> {
        let root = root.to_owned();
        blocking(move || {
            make_folders(&root).map_err(|e| failed(format!("could not make {}", root.display()), e))?;
            Ok(Self { root: Arc::new(root) })
        })
        .await
    }

    fn path(&self, key: &str) -> Result<PathBuf, StoreError> {
        let odd = |segment: &str| matches!(segment, "" | "." | "..") || segment.ends_with(PART_SUFFIX);
        if key.contains('\0') || key.split('/').any(odd) {
            let doing = format!("`{}` cannot be the name of a file here", key.escape_debug());
            return Err(StoreError::new(StoreErrorKind::Config, doing));
        }
        Ok(self.root.join(key))
    }

    /// A temporary file beside `path`, and its name.
    fn temporary(path: &Path) -> io::Result<(File, PathBuf)> {
        let folder = path.parent().unwrap_or(Path::new("."));
        make_folders(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        loop {
            let temporary = folder.join(format!(".{name}.{:08x}{PART_SUFFIX}", rand::random::<u32>()));
            match File::options().write(true).create_new(true).open(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|file| (file, temporary)),
            }
        }
    }

    /// Makes a finished temporary file visible, or fails if the name is taken. The temporary name is gone either way.
    fn publish(file: &File, temporary: &Path, path: &Path) -> io::Result<()> {
        let published = file.sync_all().and_then(|()| link(temporary, path));
        if let Err(error) = fs::remove_file(temporary) {
            // The object is what counts; the rest is found by who looks for unfinished uploads.
            tracing::warn!(%error, temporary = %temporary.display(), "could not remove a temporary file");
        }
        published?;
        // Without this the name may be gone after a power cut although the bytes are there.
        sync_folder(above(path))
    }

    fn walk(folder: &Path, visit: &mut impl FnMut(&Path, &fs::Metadata)) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            // Nothing lies below what is not there, nor below a file.
            Err(error) if is_missing(&error) => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // A file that goes away while we list was removed by someone: not a failure.
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if metadata.is_dir() {
                Self::walk(&entry.path(), visit)?;
            } else {
                visit(&entry.path(), &metadata);
            }
        }
        Ok(())
    }

    /// Every file below the folder in which all keys with this prefix lie.
    fn walk_below(&self, prefix: &str, visit: &mut impl FnMut(&Path, &fs::Metadata)) -> Result<(), StoreError> {
        let folders = prefix.rsplit_once('/').map_or("", |(folders, _)| folders);
        let folder = self.path(folders).unwrap_or_else(|_| self.root.to_path_buf());
        let doing = || format!("could not list {}", folder.display());
        // A disk that is not mounted any more has no backups, and must not look like one that never had any.
        match fs::metadata(self.root.as_path()) {
            Ok(_) => Self::walk(&folder, visit).map_err(|e| failed(doing(), e)),
            Err(error) if is_missing(&error) => {
                Err(StoreError::new(StoreErrorKind::NoSuchPlace, doing()).because(error))
            }
            Err(error) => Err(failed(doing(), error)),
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems of networks have no such thing for folders, and say so.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Makes a folder and those above it, each of which outlives a power cut.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    make_folders(above(folder))?;
    match fs::create_dir(folder) {
        // Made by someone else meanwhile; or a file, which is not the object that was to be created.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match folder.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        },
        Err(error) => Err(error),
        Ok(()) => sync_folder(above(folder)),
    }
}

/// Gives a second name, which must be free. In a folder where a file could just be made, only the file system can forbid it.
fn link(temporary: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(temporary, path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
            let why =
                format!("this file system has no hard links, without which an object could be replaced ({error})");
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        _ => error,
    })
}

fn object(key: String, metadata: &fs::Metadata) -> Object {
    let modified = metadata.modified().ok().map(Into::into);
    Object { key, bytes: metadata.len(), modified, etag: None }
}

fn key_of(root: &Path, path: &Path) -> Option<String> {
    path.strip_prefix(root).ok()?.to_str().map(str::to_owned)
}

#[async_trait]
impl Driver for Directory {
    fn place(&self) -> String {
        format!("directory {}", self.root.display())
    }

    async fn stat(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let (path, key) = (self.path(key)?, key.to_owned());
        blocking(move || match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(object(key, &metadata))),
            Ok(_) => Ok(None),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(failed(format!("could not look at {}", path.display()), error)),
        })
        .await
    }

    async fn read(&self, key: &str, from: u64) -> Result<ByteStream, StoreError> {
        let path = self.path(key)?;
        let doing = format!("could not read {}", path.display());
        let opening = doing.clone();
        let file = blocking(move || {
            let mut file = File::open(&path).map_err(|e| failed(opening.clone(), e))?;
            // A folder can be opened too, but is no object.
            if file.metadata().map_err(|e| failed(opening.clone(), e))?.is_dir() {
                return Err(failed(opening, io::ErrorKind::NotFound.into()));
            }
            file.seek(SeekFrom::Start(from)).map_err(|e| failed(opening, e))?;
            Ok(file)
        })
        .await?;
        let chunks = stream::try_unfold((file, doing), |(mut file, doing)| async move {
            blocking(move || {
                let mut buffer = BytesMut::zeroed(READ_BYTES);
                let read = file.read(&mut buffer).map_err(|e| failed(doing.clone(), e))?;
                buffer.truncate(read);
                Ok((read > 0).then(|| (buffer.freeze(), (file, doing))))
            })
            .await
        });
        Ok(Box::pin(chunks))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        let (directory, prefix) = (self.clone(), prefix.to_owned());
        blocking(move || {
            let mut objects = Vec::new();
            directory.walk_below(&prefix, &mut |path, metadata| {
                let Some(key) = key_of(&directory.root, path) else { return };
                if key.starts_with(&prefix) && !key.ends_with(PART_SUFFIX) {
                    objects.push(object(key, metadata));
                }
            })?;
            objects.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(objects)
        })
        .await
    }

    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        let path = self.path(key)?;
        blocking(move || {
            let doing = || format!("could not create {}", path.display());
            let (file, temporary) = Self::temporary(&path).map_err(|e| failed(doing(), e))?;
            if let Err(error) = file.write_all_at(&bytes, 0) {
                let _ = fs::remove_file(&temporary);
                return Err(failed(doing(), error));
            }
            Self::publish(&file, &temporary, &path).map_err(|e| failed(doing(), e))?;
            Ok(Created::Enforced)
        })
        .await
    }

    async fn begin(&self, key: &str) -> Result<Box<dyn PartSink>, StoreError> {
        let path = self.path(key)?;
        blocking(move || {
            let made = Self::temporary(&path);
            let (file, temporary) = made.map_err(|e| failed(format!("could not begin {}", path.display()), e))?;
            Ok(Box::new(FileUpload { file: Arc::new(file), temporary, path }) as Box<dyn PartSink>)
        })
        .await
    }

    async fn remove(&self, key: &str) -> Result<bool, StoreError> {
        let path = self.path(key)?;
        blocking(move || {
            let doing = || format!("could not remove {}", path.display());
            match fs::remove_file(&path) {
                // What is removed stays so: a manifest that a power cut brings back would name data that is gone.
                Ok(()) => sync_folder(above(&path)).map(|()| true).map_err(|e| failed(doing(), e)),
                Err(error) if is_missing(&error) || path.is_dir() => Ok(false),
                Err(error) => Err(failed(doing(), error)),
            }
        })
        .await
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<OpenUpload>, StoreError> {
        let (directory, prefix) = (self.clone(), prefix.to_owned());
        blocking(move || {
            let mut uploads = Vec::new();
            directory.walk_below(&prefix, &mut |path, metadata| {
                let Some(id) = key_of(&directory.root, path) else { return };
                let Some(key) = key_of_temporary(&id).filter(|key| key.starts_with(&prefix)) else { return };
                uploads.push(OpenUpload { key, id, begun: metadata.modified().ok().map(Into::into) });
            })?;
            Ok(uploads)
        })
        .await
    }

    async fn abort_open_upload(&self, upload: &OpenUpload) -> Result<(), StoreError> {
        if key_of_temporary(&upload.id).is_none() {
            return Err(StoreError::new(StoreErrorKind::Config, format!("{} is no temporary file of ours", upload.id)));
        }
        let below = upload.id.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        if !below {
            return Err(StoreError::new(StoreErrorKind::Config, format!("{} is not below here", upload.id)));
        }
        let path = self.root.join(&upload.id);
        blocking(move || remove_temporary(&path)).await
    }
}

/// `a/.name.0011aabb.part` belongs to `a/name`.
fn key_of_temporary(id: &str) -> Option<String> {
    let (folder, name) = id.rsplit_once('/').map_or(("", id), |(folder, name)| (folder, name));
    let (name, _random) = name.strip_prefix('.')?.strip_suffix(PART_SUFFIX)?.rsplit_once('.')?;
    Some(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

fn remove_temporary(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(format!("could not remove {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

#[derive(Debug)]
struct FileUpload {
    file: Arc<File>,
    temporary: PathBuf,
    path: PathBuf,
}

#[async_trait]
impl PartSink for FileUpload {
    async fn part(&self, number: u32, offset: u64, bytes: Bytes) -> Result<Part, StoreError> {
        let (file, temporary) = (Arc::clone(&self.file), self.temporary.clone());
        blocking(move || {
            let written = file.write_all_at(&bytes, offset);
            written.map_err(|e| failed(format!("could not write {}", temporary.display()), e))?;
            Ok(Part { number, bytes: bytes.len() as u64, md5: md5_of(&bytes), etag: None })
        })
        .await
    }

    async fn complete(&self, parts: &[Part]) -> Result<(), StoreError> {
        let expected_bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        let (file, temporary, path) = (Arc::clone(&self.file), self.temporary.clone(), self.path.clone());
        blocking(move || {
            let doing = || format!("could not complete {}", path.display());
            let found_bytes = file.metadata().map_err(|e| failed(doing(), e))?.len();
            if found_bytes != expected_bytes {
                let doing = format!("{} has {found_bytes} bytes, {expected_bytes} were written", temporary.display());
                return Err(StoreError::new(StoreErrorKind::Damaged, doing));
            }
            Directory::publish(&file, &temporary, &path).map_err(|e| failed(doing(), e))
        })
        .await
    }

    async fn abort(&self) -> Result<(), StoreError> {
        let temporary = self.temporary.clone();
        blocking(move || remove_temporary(&temporary)).await
    }
}

#[cfg(test)]
mod tests;
