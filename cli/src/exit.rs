//! Exit codes, the same in both programs.

use std::process::ExitCode;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed, or could not tell.
    Failed = 1,
    /// A flag, a variable or a file is wrong.
    Usage = 2,
    /// Finished, with problems that are listed.
    Problems = 3,
    /// The gate says no.
    Denied = 4,
    /// There is no such backup.
    NoSuchBackup = 10,
    /// No identity opens it.
    NoIdentity = 12,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The table for the help texts.
pub const EXIT_CODES_HELP: &str = "\
Exit codes:
  0    done
  1    failed, or could not tell
  2    a flag, a variable or a file is wrong
  3    finished, with problems that are listed
  130  interrupted; nothing was left that a listing would show";
