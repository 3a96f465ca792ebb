//! Lines of JSON: one object each, with the time, the level, and what is to be said.

use std::fmt::Debug;
use std::io::Write;

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;

/// One line with these fields, which may not be called `time` or `level`.
pub(crate) fn line(level: &str, fields: Map<String, Value>) -> String {
    let mut line = Map::new();
    line.insert("time".to_owned(), json!(Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)));
    line.insert("level".to_owned(), json!(level));
    line.extend(fields);
    format!("{}\n", Value::Object(line))
}

/// Writes every event that it is given; spans are not told.
#[derive(Debug)]
pub(super) struct Lines<W>(W);

impl<W> Lines<W> {
    pub(super) fn new(writer: W) -> Self {
        Self(writer)
    }
}

impl<S: Subscriber, W: for<'w> MakeWriter<'w> + 'static> Layer<S> for Lines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        fields.0.insert("target".to_owned(), json!(event.metadata().target()));
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        // A log that cannot be written is no reason to fail.
        let _ = self.0.make_writer().write_all(line(&level, fields.0).as_bytes());
    }
}

/// Fields that are called like one of ours would hide it: they get a name of their own.
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            name @ ("time" | "level" | "target") => format!("{name}_"),
            name => name.to_owned(),
        };
        self.0.insert(name, value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_one_object_whatever_stands_in_the_fields() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::registry().with(Lines::new(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(parts = 3u64, level = "odd", key = %"a\"b\nc", "could not\nabort");
            tracing::error!(done = false, "again");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["message"], "could not\nabort");
        assert_eq!((&lines[0]["level"], &lines[0]["level_"]), (&json!("warn"), &json!("odd")));
        assert_eq!((&lines[0]["parts"], &lines[0]["key"]), (&json!(3), &json!("a\"b\nc")));
        assert_eq!((&lines[1]["level"], &lines[1]["done"]), (&json!("error"), &json!(false)));
    }
}
