//! The last words of a program: data to standard output, talk to standard error.
//!
//! Invariant: a reader that went away is no failure of the work that is done. Output that was asked for and cannot be
//! written for another reason (a full disk) is told on standard error.

use std::io::{self, Write};

use crate::log::{Format, json};
use crate::report::{causes, error_text};

/// Writes data to standard output.
pub fn data(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            talk(&format!("warning: could not write to standard output: {error}\n"));
        }
        _ => {}
    }
}

/// Writes talk to standard error.
pub fn talk(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Tells why a program failed, in the format of its log.
pub fn failure(error: &(dyn std::error::Error + 'static), hint: Option<&str>, format: Format) {
    talk(&failure_text(error, hint, format));
}

fn failure_text(error: &(dyn std::error::Error + 'static), hint: Option<&str>, format: Format) -> String {
    match format {
        Format::Text => error_text(error, hint),
        Format::Json => {
            let mut fields = serde_json::Map::new();
            fields.insert("message".to_owned(), error.to_string().into());
            fields.insert("causes".to_owned(), causes(error).into());
            fields.insert("hint".to_owned(), hint.into());
            json::line("error", fields)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_in_the_format_of_the_log() {
        let error = io::Error::other("no\nroom");
        assert_eq!(failure_text(&error, None, Format::Text), "error: no\nroom\n");
        let line = failure_text(&error, Some("make some"), Format::Json);
        assert_eq!(line.matches('\n').count(), 1);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&line["message"], &line["hint"]), (&"no\nroom".into(), &"make some".into()));
    }
}
