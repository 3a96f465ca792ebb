//! The program as a process, as far as that goes without a node: what it says and how it ends.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

const KEY: &str = "age1khpnnl86pzx96ttyjmldptsl5yn2v9jgmmzcjcufvk00ttkph9zs0ytgec";

/// Without an environment, but for what the test gives.
fn program(arguments: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bronzenail-backup"));
    // Where talosconfigs and termination messages are on the machine that runs the test is not the test's business.
    let own = [("BRONZENAIL_TERMINATION_LOG", "/does/not/exist"), ("HOME", "/does/not/exist")];
    command.args(arguments).env_clear().envs(own).envs(env.iter().copied()).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    program(arguments, env).output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn without_arguments_and_settings_it_says_what_it_is_for() {
    let output = run(&[], &[]);
    assert_eq!((output.status.code(), out(&output)), (Some(2), ""));
    assert_eq!(
        err(&output),
        "error: nothing to do: no subcommand and no settings in the environment\n\n\
         hint: `bronzenail-backup run --help` lists everything\n"
    );
}

#[test]
fn without_arguments_the_environment_of_talos_backup_starts_a_backup() {
    // No talosconfig is there, so it ends; but it got as far as to look for one.
    let output = run(&[], &[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY), ("ENABLE_COMPRESSION", "false")]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).starts_with("error: could not use the talosconfig\n"), "{}", err(&output));
    let output = run(&[], &[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY), ("DISABLE_ENCRYPTION", "true")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).starts_with("error: DISABLE_ENCRYPTION=true: encryption cannot be turned off\n"));
}

#[test]
fn b16_no_home_and_a_read_only_root_are_enough() {
    let output = program(&["run", "--dir", "/d", "--recipient", KEY], &[]).env_remove("HOME").current_dir("/").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("/var/run/secrets/talos.dev/config"), "{}", err(&output));
    assert!(!Path::new("/.talos").exists());
}

#[test]
fn the_help_has_every_variable_and_exit_code() {
    let output = run(&["run", "--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let help: String = out(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in bronzenail_backup::settings::SETTINGS {
        assert!(help.contains(&format!("--{}", setting.name)), "--{}", setting.name);
        assert!(help.contains(setting.env), "{}", setting.env);
        for legacy in setting.legacy {
            assert!(help.contains(legacy.env), "{}", legacy.env);
        }
    }
    for code in ["0 done", "1 failed", "2 a flag", "130 interrupted"] {
        assert!(help.contains(code), "{code}");
    }
    let version = run(&["--version"], &[]);
    assert_eq!(out(&version), format!("bronzenail-backup {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_settings_are_printed_with_their_places_and_without_secrets() {
    let secrets = [
        ("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"),
        ("AWS_SESSION_TOKEN", "hunter3hunter3"),
        ("AGE_X25519_PUBLIC_KEY", "AGE-SECRET-KEY-1HUNTER4"),
        ("CUSTOM_S3_ENDPOINT", "https://me:hunter5@s3.example.org"),
        ("BUCKET", "b"),
    ];
    let output = run(&["run", "--print-config", "--level", "5"], &secrets);
    assert_eq!((output.status.code(), err(&output)), (Some(0), ""));
    let text = out(&output);
    for line in [
        "bucket = \"b\"  # BUCKET",
        "level = \"5\"  # --level",
        "part-size = \"8MiB\"  # default",
        "recipient = [\"(masked: a private key)\"]  # AGE_X25519_PUBLIC_KEY",
        "s3-endpoint = \"https://(masked)@s3.example.org\"  # CUSTOM_S3_ENDPOINT",
        "# S3 credentials: AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (set, not shown)",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
    }
    assert!(!text.to_lowercase().contains("hunter"), "{text}");
}

#[test]
fn a_failure_is_one_json_document_and_one_json_line_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let last_words = folder.path().join("termination-log");
    std::fs::write(&last_words, "").unwrap();
    let flags =
        ["run", "--dir", "/d", "--json", "--log-format", "json", "--termination-log", last_words.to_str().unwrap()];
    let output = run(&flags, &[]);
    assert_eq!(output.status.code(), Some(2));

    let document: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&document["version"], &document["result"]), (&1.into(), &"failed".into()));
    assert_eq!((&document["exit_code"], &document["error"]), (&2.into(), &"no recipient was given".into()));
    assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
    let line: serde_json::Value = serde_json::from_str(err(&output)).unwrap();
    assert_eq!((&line["level"], &line["message"]), (&"error".into(), &"no recipient was given".into()));
    let said = std::fs::read_to_string(&last_words).unwrap();
    assert!(said.starts_with("no recipient was given (hint: encryption cannot be turned off"), "{said}");

    // Also where the file is what is wrong.
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "nonsense = 1").unwrap();
    let output = run(&[&flags[..], &["--config", file.to_str().unwrap()]].concat(), &[]);
    let document: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert!(document["error"].as_str().unwrap().ends_with("c.toml:1: unknown key `nonsense`"), "{document}");
    assert!(std::fs::read_to_string(&last_words).unwrap().contains("unknown key"));
}

#[test]
fn a_usage_error_of_the_command_line_is_2_and_a_reader_that_went_away_is_no_panic() {
    assert_eq!(run(&["run", "--no-such-flag"], &[]).status.code(), Some(2));
    assert_eq!(run(&["prude"], &[]).status.code(), Some(2));
    // Both streams closed at their other end.
    for arguments in [&["run", "--help"][..], &["run", "--print-config"], &["run", "--dir", "/d"], &[]] {
        let mut child = program(arguments, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 2)), "{arguments:?}: {code:?}");
    }
}
