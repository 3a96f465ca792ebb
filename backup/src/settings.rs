//! Everything that can be set, once: the table that flags, variables, the file, the help and the docs are made from.

use bronzenail_cli::Setting;
use bronzenail_cli::config::{Kind, Legacy};

const fn setting(
    heading: &'static str,
    name: &'static str,
    env: &'static str,
    kind: Kind,
    value: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, env, legacy: &[], kind, default: None, value, help, heading }
}

const fn also(setting: Setting, legacy: &'static [Legacy]) -> Setting {
    Setting { legacy, ..setting }
}

const fn or(setting: Setting, default: &'static str) -> Setting {
    Setting { default: Some(default), ..setting }
}

const WHAT: &str = "What and where";
const KEYS: &str = "Who can open it";
const TALOS: &str = "Talos";
const S3: &str = "S3";
const HOW: &str = "How";
const TALK: &str = "Output";

/// The settings of `bronzenail-backup run`.
pub static SETTINGS: &[Setting] = &[
    also(
        setting(
            WHAT,
            "cluster",
            "BRONZENAIL_CLUSTER",
            Kind::Text,
            "NAME",
            "Name of the cluster; the talosconfig's context if not given",
        ),
        &[Legacy::same("CLUSTER_NAME")],
    ),
    also(
        setting(WHAT, "bucket", "BRONZENAIL_BUCKET", Kind::Text, "NAME", "S3 bucket, the name alone"),
        &[Legacy::same("BUCKET")],
    ),
    setting(WHAT, "dir", "BRONZENAIL_DIR", Kind::Text, "PATH", "Store into a directory instead of a bucket"),
    also(
        setting(
            WHAT,
            "prefix",
            "BRONZENAIL_PREFIX",
            Kind::Text,
            "FOLDER",
            "Folder in the bucket or directory; below it, each cluster has one of its own",
        ),
        &[Legacy::same("S3_PREFIX")],
    ),
    setting(WHAT, "label", "BRONZENAIL_LABEL", Kind::Text, "TEXT", "Free text for the manifest, such as pre-upgrade"),
    also(
        setting(
            KEYS,
            "recipient",
            "BRONZENAIL_RECIPIENT",
            Kind::List,
            "KEY",
            "Public key that can open the backup: age1..., ssh-ed25519 ..., ssh-rsa ...; repeatable",
        ),
        &[Legacy::same("AGE_X25519_PUBLIC_KEY"), Legacy::same("AGE_RECIPIENT_PUBLIC_KEY")],
    ),
    setting(
        KEYS,
        "recipients-file",
        "BRONZENAIL_RECIPIENTS_FILE",
        Kind::List,
        "PATH",
        "File of public keys, one a line; repeatable",
    ),
    setting(
        TALOS,
        "talosconfig",
        "BRONZENAIL_TALOSCONFIG",
        Kind::Text,
        "PATH",
        "Else TALOSCONFIG, TALOS_HOME/config, ~/.talos/config, /var/run/secrets/talos.dev/config",
    ),
    setting(
        TALOS,
        "context",
        "BRONZENAIL_CONTEXT",
        Kind::Text,
        "NAME",
        "Context of the talosconfig; its current one if not given",
    ),
    setting(
        TALOS,
        "endpoint",
        "BRONZENAIL_ENDPOINT",
        Kind::List,
        "HOST",
        "Control-plane node to connect to, in this order; repeatable; those of the talosconfig if not given",
    ),
    setting(
        TALOS,
        "node",
        "BRONZENAIL_NODE",
        Kind::Text,
        "ADDRESS",
        "Node to take the snapshot from; chosen among the members if not given",
    ),
    or(setting(TALOS, "connect-timeout", "BRONZENAIL_CONNECT_TIMEOUT", Kind::Text, "DURATION", "Per endpoint"), "10s"),
    or(
        setting(
            TALOS,
            "first-byte-timeout",
            "BRONZENAIL_FIRST_BYTE_TIMEOUT",
            Kind::Text,
            "DURATION",
            "Until the snapshot begins",
        ),
        "60s",
    ),
    or(
        setting(
            TALOS,
            "idle-timeout",
            "BRONZENAIL_IDLE_TIMEOUT",
            Kind::Text,
            "DURATION",
            "How long the snapshot may pause",
        ),
        "60s",
    ),
    also(
        setting(S3, "s3-endpoint", "BRONZENAIL_S3_ENDPOINT", Kind::Text, "URL", "Store that is not AWS"),
        &[
            Legacy { env: "CUSTOM_S3_ENDPOINT", convert: with_scheme },
            Legacy::same("AWS_ENDPOINT_URL_S3"),
            Legacy::same("AWS_ENDPOINT_URL"),
        ],
    ),
    also(
        setting(
            S3,
            "s3-region",
            "BRONZENAIL_S3_REGION",
            Kind::Text,
            "REGION",
            "Region; if not given, the profile's, or us-east-1 for a custom endpoint",
        ),
        &[Legacy::same("AWS_REGION")],
    ),
    also(
        setting(
            S3,
            "s3-addressing",
            "BRONZENAIL_S3_ADDRESSING",
            Kind::Text,
            "STYLE",
            "auto, path or virtual-host; auto is path for custom endpoints and dotted buckets",
        ),
        &[Legacy { env: "USE_PATH_STYLE", convert: path_style }],
    ),
    setting(
        S3,
        "s3-ca-file",
        "BRONZENAIL_S3_CA_FILE",
        Kind::Text,
        "PATH",
        "Certificates to trust for the store, beside the system's",
    ),
    setting(
        S3,
        "s3-checksums",
        "BRONZENAIL_S3_CHECKSUMS",
        Kind::Text,
        "MODE",
        "when-required or when-supported; if not given, AWS_REQUEST_CHECKSUM_CALCULATION, or when-required",
    ),
    setting(
        S3,
        "s3-storage-class",
        "BRONZENAIL_S3_STORAGE_CLASS",
        Kind::Text,
        "CLASS",
        "Storage class of the data object",
    ),
    setting(
        S3,
        "s3-sse",
        "BRONZENAIL_S3_SSE",
        Kind::Text,
        "KIND",
        "Encryption at the store, beside age: AES256 or aws:kms",
    ),
    setting(S3, "s3-sse-kms-key", "BRONZENAIL_S3_SSE_KMS_KEY", Kind::Text, "ID", "Key for aws:kms"),
    setting(
        S3,
        "object-lock-mode",
        "BRONZENAIL_OBJECT_LOCK_MODE",
        Kind::Text,
        "MODE",
        "governance or compliance; with --object-lock-for",
    ),
    setting(
        S3,
        "object-lock-for",
        "BRONZENAIL_OBJECT_LOCK_FOR",
        Kind::Text,
        "DURATION",
        "How long the store refuses to delete the backup, such as 30d",
    ),
    setting(
        S3,
        "object-lock-legal-hold",
        "BRONZENAIL_OBJECT_LOCK_LEGAL_HOLD",
        Kind::Switch,
        "",
        "Put a legal hold on the backup",
    ),
    or(
        setting(
            S3,
            "s3-connect-timeout",
            "BRONZENAIL_S3_CONNECT_TIMEOUT",
            Kind::Text,
            "DURATION",
            "Per connection to the store",
        ),
        "10s",
    ),
    or(
        setting(
            S3,
            "s3-idle-timeout",
            "BRONZENAIL_S3_IDLE_TIMEOUT",
            Kind::Text,
            "DURATION",
            "How long no byte may move",
        ),
        "60s",
    ),
    or(
        setting(
            S3,
            "s3-reply-timeout",
            "BRONZENAIL_S3_REPLY_TIMEOUT",
            Kind::Text,
            "DURATION",
            "How long the store may think over a request",
        ),
        "5m",
    ),
    or(setting(S3, "s3-attempts", "BRONZENAIL_S3_ATTEMPTS", Kind::Text, "N", "How often a request is sent"), "6"),
    or(setting(S3, "part-size", "BRONZENAIL_PART_SIZE", Kind::Text, "SIZE", "Of an upload, 5MiB or more"), "8MiB"),
    or(
        setting(
            S3,
            "parts-in-flight",
            "BRONZENAIL_PARTS_IN_FLIGHT",
            Kind::Text,
            "N",
            "Parts sent at once, each held in memory",
        ),
        "1",
    ),
    or(
        setting(
            HOW,
            "level",
            "BRONZENAIL_LEVEL",
            Kind::Text,
            "N",
            "zstd level, 1 to 19; those above 9 need up to 200 MiB of memory",
        ),
        "3",
    ),
    setting(
        HOW,
        "workers",
        "BRONZENAIL_WORKERS",
        Kind::Text,
        "N",
        "Threads that compress; if not given, 2 where there are two cores, else 0: inline",
    ),
    setting(
        HOW,
        "no-read-back",
        "BRONZENAIL_NO_READ_BACK",
        Kind::Switch,
        "",
        "Do not fetch the stored backup again to open it",
    ),
    setting(TALK, "json", "BRONZENAIL_JSON", Kind::Switch, "", "One JSON document on standard output"),
    setting(TALK, "quiet", "BRONZENAIL_QUIET", Kind::Switch, "", "No progress"),
    or(
        setting(
            TALK,
            "log-format",
            "BRONZENAIL_LOG_FORMAT",
            Kind::Text,
            "FORMAT",
            "text, or json: one object a line for all that goes to standard error",
        ),
        "text",
    ),
    or(setting(TALK, "log", "BRONZENAIL_LOG", Kind::Text, "LEVEL", "error, warn, info, debug or trace"), "warn"),
    or(
        setting(
            TALK,
            "termination-log",
            "BRONZENAIL_TERMINATION_LOG",
            Kind::Text,
            "PATH",
            "Where Kubernetes reads a container's last words",
        ),
        "/dev/termination-log",
    ),
];

/// talos-backup's own switch.
fn path_style(text: &str) -> Result<String, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Ok("path".to_owned()),
        "false" | "0" => Ok("virtual-host".to_owned()),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// talos-backup takes an endpoint without a scheme, and means HTTPS.
fn with_scheme(text: &str) -> Result<String, String> {
    Ok(if text.contains("://") { text.to_owned() } else { format!("https://{text}") })
}

/// What the help says of a setting, its default included.
pub fn described(setting: &Setting) -> String {
    match setting.default {
        Some(default) => format!("{} [default: {default}]", setting.help),
        None => setting.help.to_owned(),
    }
}

/// The table of settings as Markdown, for docs/configuration.md.
pub fn as_markdown() -> String {
    let mut text = String::from("| flag and key | variable | also | meaning |\n| --- | --- | --- | --- |\n");
    for setting in SETTINGS {
        let legacy: Vec<String> = setting.legacy.iter().map(|legacy| format!("`{}`", legacy.env)).collect();
        let value = if setting.value.is_empty() { String::new() } else { format!(" {}", setting.value) };
        let (name, env, also, help) = (setting.name, setting.env, legacy.join(", "), described(setting));
        text.push_str(&format!("| `--{name}{value}` | `{env}` | {also} | {help} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_one_rule_and_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for setting in SETTINGS {
            let env = format!("BRONZENAIL_{}", setting.name.replace('-', "_").to_uppercase());
            assert_eq!(setting.env, env);
            assert!(seen.insert(setting.name), "{} stands twice", setting.name);
        }
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let page = include_str!("../../docs/configuration.md");
        assert!(page.contains(&as_markdown()), "docs/configuration.md differs; it should have:\n{}", as_markdown());
    }
}
