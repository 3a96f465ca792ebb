//! Which nodes, and how long to wait for them.

use std::path::Path;
use std::time::Duration;

use bronzenail_cli::Values;
use bronzenail_talos::{ConnectOptions, Context, Deadlines, Endpoint, Node, TalosConfig};
use chrono::{DateTime, Utc};

use super::Env;
use crate::error::RunError;

/// The Talos side.
#[derive(Debug)]
pub struct TalosOptions {
    /// Endpoints, CA and client certificate.
    pub context: Context,
    /// The node that was asked for.
    pub node: Option<Node>,
    /// Deadlines of the connection.
    pub connect: ConnectOptions,
    /// Deadlines of the snapshot.
    pub deadlines: Deadlines,
}

/// One endpoint, or several parted by blanks.
fn endpoints(text: &str) -> Result<Vec<Endpoint>, String> {
    let parse = |word: &str| {
        word.parse::<Endpoint>()
            .map_err(|error| format!("{error}; write 10.0.0.2, cp-1.example.org:50000 or [fd00::2]:50000"))
    };
    text.split_whitespace().map(parse).collect()
}

pub(super) fn talos(values: &Values, env: Env<'_>, now: DateTime<Utc>) -> Result<TalosOptions, RunError> {
    let node = values.with("node", |text| {
        text.parse::<Node>().map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    })?;
    let endpoints: Vec<Endpoint> = values.each("endpoint", endpoints)?.into_iter().flatten().collect();

    let config = TalosConfig::load(values.text("talosconfig").map(Path::new), env).map_err(RunError::from)?;
    let mut context = config.context(values.text("context")).map_err(RunError::from)?;
    if !endpoints.is_empty() {
        context = context.with_endpoints(endpoints);
    }
    let mut connect = ConnectOptions::new(now);
    connect.connect_timeout = values.duration("connect-timeout", connect.connect_timeout)?;
    let mut deadlines = Deadlines::default();
    deadlines.first_byte = values.duration("first-byte-timeout", deadlines.first_byte)?;
    deadlines.idle = values.duration("idle-timeout", deadlines.idle)?;
    connect.question_timeout = connect.question_timeout.min(deadlines.first_byte).max(Duration::from_millis(100));
    Ok(TalosOptions { context, node, connect, deadlines })
}
