//! From an error chain to text: one line of what went wrong, one a cause, and a hint.

use std::error::Error;
use std::fmt::Write;

/// `error:`, `caused by:` and `hint:` lines, without colour.
///
/// Causes that only repeat what stands above them are left out.
pub fn error_text(error: &(dyn Error + 'static), hint: Option<&str>) -> String {
    let mut text = format!("error: {error}\n");
    for cause in causes(error) {
        let _ = writeln!(text, "  caused by: {cause}");
    }
    if let Some(hint) = hint {
        let _ = write!(text, "\nhint: {hint}\n");
    }
    text
}

/// What caused it, outermost first, without repetitions.
pub fn causes(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut said = error.to_string();
    let mut causes = Vec::new();
    let mut below = error.source();
    while let Some(cause) = below {
        below = cause.source();
        let text = cause.to_string();
        if !said.contains(&text) {
            causes.push(text.clone());
            said = text;
        }
    }
    causes
}

/// Where the chain is to be shown in one line, as in a termination message.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for cause in causes(error) {
        let _ = write!(line, ": {cause}");
    }
    line.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    fn chain() -> Layer {
        let inner = Layer("connection refused", None);
        let repeated = Layer("connection refused", Some(Box::new(inner)));
        Layer("could not begin the upload", Some(Box::new(repeated)))
    }

    #[test]
    fn a_chain_is_told_once_with_its_hint() {
        let text = error_text(&chain(), Some("is the store up?"));
        assert_eq!(
            text,
            "error: could not begin the upload\n  caused by: connection refused\n\nhint: is the store up?\n"
        );
        assert_eq!(error_text(&Layer("x", None), None), "error: x\n");
        assert_eq!(one_line(&chain()), "could not begin the upload: connection refused");
    }
}
