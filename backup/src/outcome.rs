//! What a run ended in, for people, for programs, and for Kubernetes.

use std::fmt::Write;
use std::time::Duration;

use bronzenail_cli::report::{causes, one_line};
use bronzenail_cli::units;
use bronzenail_format::Manifest;
use serde_json::{Map, Value, json};

use crate::error::RunError;

/// Version of the JSON document.
const DOCUMENT_VERSION: u32 = 1;

/// A backup that was committed.
#[derive(Debug)]
pub struct Outcome {
    /// Its manifest, as it was written.
    pub manifest: Manifest,
    /// Key of the data.
    pub data_key: String,
    /// Key of the manifest.
    pub manifest_key: String,
    /// Where.
    pub place: String,
    /// Why this member.
    pub choice: String,
    /// How long each stage took, in the order of the stages.
    pub durations: Vec<(&'static str, Duration)>,
    /// What should be looked at.
    pub warnings: Vec<String>,
    /// Requests to the store that were sent again.
    pub retries: u64,
}

impl Outcome {
    /// Lines for a person.
    pub fn to_text(&self) -> String {
        let Manifest { id, plain, stored, contents, evidence, .. } = &self.manifest;
        let mut text = format!("backup    {id}\n");
        let _ = writeln!(text, "stored    {} in {}", self.data_key, self.place);
        let ratio = plain.bytes as f64 / stored.bytes.max(1) as f64;
        let (plain_size, stored_size) = (units::bytes(plain.bytes), units::bytes(stored.bytes));
        let _ = writeln!(text, "size      {plain_size}, sealed {stored_size} ({ratio:.1} : 1)");
        if let Some(contents) = contents {
            let keys = contents.live_keys.map(|keys| format!(", {keys} keys")).unwrap_or_default();
            let _ = writeln!(text, "revision  {}{keys}, hash {}", contents.revision, contents.status_hash);
        }
        let _ = writeln!(text, "source    {}", self.choice);
        let levels: Vec<&str> = evidence.iter().map(|evidence| evidence.level.as_str()).collect();
        let _ = writeln!(text, "evidence  {}", levels.join(", "));
        let stages: Vec<String> =
            self.durations.iter().map(|(stage, took)| format!("{stage} {}", units::duration(*took))).collect();
        let _ = writeln!(text, "took      {}", stages.join(", "));
        if self.retries > 0 {
            let _ = writeln!(text, "retries   {} requests to the store were sent again", self.retries);
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning   {warning}");
        }
        text
    }

    /// One document for a program.
    pub fn to_json(&self) -> Value {
        let manifest: Value = serde_json::from_slice(&self.manifest.to_json()).unwrap_or(Value::Null);
        let durations: Map<String, Value> =
            self.durations.iter().map(|(stage, took)| ((*stage).to_owned(), json!(took.as_secs_f64()))).collect();
        json!({
            "version": DOCUMENT_VERSION,
            "result": "done",
            "exit_code": 0,
            "place": self.place,
            "keys": { "data": self.data_key, "manifest": self.manifest_key },
            "manifest": manifest,
            "source_choice": self.choice,
            "durations_seconds": durations,
            "warnings": self.warnings,
            "store_retries": self.retries,
        })
    }

    /// One line for Kubernetes.
    pub fn to_line(&self) -> String {
        let level = self.manifest.level().map_or("none", |level| level.as_str());
        let size = units::bytes(self.manifest.stored.bytes);
        format!("backup {} is stored and committed, {size}, evidence {level}", self.manifest.id)
    }
}

/// The document for a run that failed.
pub fn failure_json(error: &RunError) -> Value {
    json!({
        "version": DOCUMENT_VERSION,
        "result": "failed",
        "exit_code": error.exit().code(),
        "error": error.to_string(),
        "causes": causes(error),
        "hint": error.hint(),
    })
}

/// The line for Kubernetes for a run that failed.
pub fn failure_line(error: &RunError) -> String {
    match error.hint() {
        Some(hint) => format!("{} (hint: {hint})", one_line(error)),
        None => one_line(error),
    }
}
