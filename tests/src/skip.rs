//! How a test says that it could not run here.
//!
//! A test that lacks a tool or a service must not look as if it had passed for a reason. libtest swallows the output of
//! passing tests, so the sentence also goes to the file named by `BRONZENAIL_LAB_SKIPS`, whose lines `tests/run` prints
//! at its end. Invariant: one line per skip, appended whole, so that tests in parallel never mix their words.

use std::fmt::Display;
use std::io::Write as _;

/// The environment variable that names the file to which skips are appended.
pub const SKIPS_FILE_VARIABLE: &str = "BRONZENAIL_LAB_SKIPS";

/// Says `skipped: <what> (<why>)` on stderr and in the skips file, if there is one. The caller then returns.
pub fn skip(what: impl Display, why: impl Display) {
    let line = format!("skipped: {what} ({why})").replace('\n', " ");
    eprintln!("{line}");
    let Some(path) = std::env::var_os(SKIPS_FILE_VARIABLE).filter(|path| !path.is_empty()) else {
        return;
    };
    // One write of one line to a file opened for append: the kernel keeps lines of parallel tests apart.
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        eprintln!("the skip could not be noted in {}: {error}", path.display());
    }
}
