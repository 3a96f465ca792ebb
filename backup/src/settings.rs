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
    Setting { name, env, legacy: None, kind, value, help, heading }
}

const fn also(setting: Setting, legacy: Option<Legacy>) -> Setting {
    Setting { legacy, ..setting }
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
        Legacy::same("CLUSTER_NAME"),
    ),
    also(
        setting(WHAT, "bucket", "BRONZENAIL_BUCKET", Kind::Text, "NAME", "S3 bucket, the name alone"),
        Legacy::same("BUCKET"),
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
        Legacy::same("S3_PREFIX"),
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
        Legacy::same("AGE_X25519_PUBLIC_KEY"),
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
    setting(
        TALOS,
        "connect-timeout",
        "BRONZENAIL_CONNECT_TIMEOUT",
        Kind::Text,
        "DURATION",
        "Per endpoint [default: 10s]",
    ),
    setting(
        TALOS,
        "first-byte-timeout",
        "BRONZENAIL_FIRST_BYTE_TIMEOUT",
        Kind::Text,
        "DURATION",
        "Until the snapshot begins [default: 60s]",
    ),
    setting(
        TALOS,
        "idle-timeout",
        "BRONZENAIL_IDLE_TIMEOUT",
        Kind::Text,
        "DURATION",
        "How long the snapshot may pause [default: 60s]",
    ),
    also(
        setting(S3, "s3-endpoint", "BRONZENAIL_S3_ENDPOINT", Kind::Text, "URL", "Store that is not AWS"),
        Legacy::same("CUSTOM_S3_ENDPOINT"),
    ),
    setting(
        S3,
        "s3-region",
        "BRONZENAIL_S3_REGION",
        Kind::Text,
        "REGION",
        "Else AWS_REGION, the profile, or us-east-1 for a custom endpoint",
    ),
    also(
        setting(
            S3,
            "s3-addressing",
            "BRONZENAIL_S3_ADDRESSING",
            Kind::Text,
            "STYLE",
            "auto, path or virtual-host [default: auto, path for custom endpoints and dotted buckets]",
        ),
        Some(Legacy { env: "USE_PATH_STYLE", convert: path_style }),
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
        "when-required or when-supported [default: when-required; AWS_REQUEST_CHECKSUM_CALCULATION counts]",
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
    setting(S3, "s3-connect-timeout", "BRONZENAIL_S3_CONNECT_TIMEOUT", Kind::Text, "DURATION", "[default: 10s]"),
    setting(
        S3,
        "s3-idle-timeout",
        "BRONZENAIL_S3_IDLE_TIMEOUT",
        Kind::Text,
        "DURATION",
        "How long no byte may move [default: 60s]",
    ),
    setting(
        S3,
        "s3-reply-timeout",
        "BRONZENAIL_S3_REPLY_TIMEOUT",
        Kind::Text,
        "DURATION",
        "How long the store may think over a request [default: 5m]",
    ),
    setting(S3, "s3-attempts", "BRONZENAIL_S3_ATTEMPTS", Kind::Text, "N", "How often a request is sent [default: 6]"),
    setting(S3, "part-size", "BRONZENAIL_PART_SIZE", Kind::Text, "SIZE", "Of an upload, 5MiB or more [default: 8MiB]"),
    setting(
        S3,
        "parts-in-flight",
        "BRONZENAIL_PARTS_IN_FLIGHT",
        Kind::Text,
        "N",
        "Parts sent at once, each held in memory [default: 1]",
    ),
    setting(
        HOW,
        "level",
        "BRONZENAIL_LEVEL",
        Kind::Text,
        "N",
        "zstd level, 1 to 19; those above 9 need up to 200 MiB of memory [default: 3]",
    ),
    setting(
        HOW,
        "workers",
        "BRONZENAIL_WORKERS",
        Kind::Text,
        "N",
        "Threads that compress [default: 2 where there are two cores, else 0: inline]",
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
    setting(TALK, "log", "BRONZENAIL_LOG", Kind::Text, "LEVEL", "error, warn, info, debug or trace [default: warn]"),
    setting(
        TALK,
        "termination-log",
        "BRONZENAIL_TERMINATION_LOG",
        Kind::Text,
        "PATH",
        "Where Kubernetes reads a container's last words [default: /dev/termination-log]",
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

/// The table of settings as Markdown, for docs/configuration.md.
pub fn as_markdown() -> String {
    let mut text = String::from("| flag and key | variable | also | meaning |\n| --- | --- | --- | --- |\n");
    for setting in SETTINGS {
        let legacy = setting.legacy.map(|legacy| format!("`{}`", legacy.env)).unwrap_or_default();
        let value = if setting.value.is_empty() { String::new() } else { format!(" {}", setting.value) };
        text.push_str(&format!("| `--{}{value}` | `{}` | {legacy} | {} |\n", setting.name, setting.env, setting.help));
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
