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

impl Exit {
    /// What it means, in one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed, or could not tell",
            Self::Usage => "a flag, a variable or a file is wrong",
            Self::Problems => "finished, with problems that are listed",
            Self::Denied => "the gate says no",
            Self::NoSuchBackup => "there is no such backup",
            Self::NoIdentity => "none of the identities opens the backup",
            Self::Interrupted => "interrupted; nothing was left that a listing would show",
        }
    }
}

/// The table for the help of a command that may end in these ways.
pub fn help(exits: &[Exit]) -> String {
    let lines = exits.iter().map(|exit| format!("\n  {:<4} {}", exit.code(), exit.meaning()));
    lines.fold("Exit codes:".to_owned(), |text, line| text + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_what_a_command_can_end_in() {
        let text = help(&[Exit::Done, Exit::Interrupted]);
        let expected = "Exit codes:\n  0    done\n  130  interrupted; nothing was left that a listing would show";
        assert_eq!(text, expected);
    }
}
