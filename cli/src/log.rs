//! Logging to standard error.
//!
//! Invariant: whatever the level, only our own crates may speak above `error`. The traces of the SDK and of the HTTP stack
//! carry headers, and with them session tokens and signatures. `RUST_LOG` is not read for the same reason.

pub(crate) mod json;

use std::io::IsTerminal;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(LevelFilter);

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "error" => LevelFilter::ERROR,
            "warn" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            _ => return Err(format!("`{text}` is not one of error, warn, info, debug, trace")),
        }))
    }
}

fn targets(level: Level) -> Targets {
    Targets::new().with_default(level.0.min(LevelFilter::ERROR)).with_target("bronzenail", level.0)
}

/// How it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line, for what collects logs.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("`{text}` is not one of text, json")),
        }
    }
}

/// Starts logging. A second call changes nothing.
pub fn start(level: Level, format: Format) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = match format {
        Format::Text => {
            tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colour).with_target(false).boxed()
        }
        Format::Json => json::Lines::new(std::io::stderr).boxed(),
    };
    let _ = tracing_subscriber::registry().with(lines).with(targets(level)).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level as L;

    #[test]
    fn at_no_level_do_dependencies_speak_above_error() {
        for level in ["error", "warn", "info", "debug", "trace"] {
            let targets = targets(level.parse().unwrap());
            for target in ["aws_sdk_s3", "aws_config", "hyper_util", "h2", "tonic", "rustls", "reqwest"] {
                assert!(!targets.would_enable(target, &L::WARN), "{target} at {level}");
            }
        }
        let targets = targets("trace".parse().unwrap());
        assert!(targets.would_enable("bronzenail_store::s3", &L::TRACE));
        assert!(targets.would_enable("aws_config", &L::ERROR));
        assert!("loud".parse::<Level>().is_err());
    }
}
