//! The talosconfig as a whole, with certificates made the way Talos makes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{TimeDelta, TimeZone};
use proptest::prelude::*;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair};
use sha2::{Digest, Sha256};

use super::*;
use crate::pki::{self, Client, Pki};

fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 6, 1, 12, 0, 0).unwrap()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(&format!(": {source}"));
        next = source.source();
    }
    text
}

/// A context made by changing the good one's text.
fn context_of(change: impl Fn(String) -> String) -> Result<Context, ConfigError> {
    let pki = Pki::new();
    let text = pki::talosconfig(&pki.ca_pem(), &pki.client(&Client::at(now())), &["10.0.0.1".to_owned()]);
    TalosConfig::parse(&change(text), "/etc/talosconfig")?.context(None)
}

fn certificate_with(change: impl FnOnce(&mut Client)) -> Result<ClientCertificate, ConfigError> {
    let pki = Pki::new();
    let mut client = Client::at(now());
    change(&mut client);
    let text = pki::talosconfig(&pki.ca_pem(), &pki.client(&client), &[]);
    TalosConfig::parse(&text, "/etc/talosconfig").unwrap().context(None).unwrap().client_certificate(now())
}

#[test]
fn a_stock_talosconfig_is_read() {
    let pki = Pki::new();
    let client = pki.client(&Client::at(now()));
    let text = pki::talosconfig(&pki.ca_pem(), &client, &["10.0.0.1".to_owned(), "[fd00::1]:6000".to_owned()])
        + "    nodes: [10.0.0.7]\n    target: cp-3\n    newer-than-us: {a: [1, 2]}\n";
    let context = TalosConfig::parse(&text, "x").unwrap().context(None).unwrap();

    let endpoints: Vec<String> = context.endpoints().iter().map(ToString::to_string).collect();
    assert_eq!(endpoints, ["10.0.0.1:50000", "[fd00::1]:6000", "cp-3:50000"]);
    assert_eq!((context.name(), context.nodes()), ("prod", &["10.0.0.7".to_owned()][..]));
    let expected: String = Sha256::digest(pki.ca_der()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(context.ca_fingerprints()[0].to_string(), expected);

    let certificate = context.client_certificate(now()).unwrap();
    assert_eq!(
        (certificate.roles, certificate.days_left, certificate.warnings),
        (vec!["os:etcd:backup".to_owned()], 364, vec![])
    );
}

#[test]
fn several_certificates_in_ca_are_all_kept() {
    let (old, new) = (Pki::new(), Pki::new());
    let text = pki::talosconfig(&(old.ca_pem() + &new.ca_pem()), &new.client(&Client::at(now())), &[]);
    assert_eq!(TalosConfig::parse(&text, "x").unwrap().context(None).unwrap().ca_fingerprints().len(), 2);
}

#[test]
fn an_empty_ca_means_the_system_roots() {
    let context = context_of(|text| replace_field(&text, "ca", "\"\"")).unwrap();
    assert!(context.ca_fingerprints().is_empty());
}

#[test]
fn a_missing_context_lists_the_ones_that_exist() {
    let config = TalosConfig::parse("context: gone\ncontexts: {a: {}, b: }\n", "/etc/t").unwrap();
    assert_eq!(
        config.context(None).unwrap_err().to_string(),
        "the talosconfig /etc/t has no context `gone`; it has a, b"
    );
    assert!(config.context(Some("c")).unwrap_err().to_string().contains("`c`; it has a, b"));
    let config = TalosConfig::parse("contexts: {a: {}, b: {}}\n", "/etc/t").unwrap();
    assert!(config.context(None).unwrap_err().to_string().contains("no current context; it has a, b"));
}

#[test]
fn the_only_context_needs_no_choosing() {
    assert_eq!(context_of(|text| text.replace("context: prod\n", "")).unwrap().name(), "prod");
}

#[test]
fn files_that_are_no_talosconfig_are_refused() {
    for (text, expected) in [
        ("", "has no contexts"),
        ("# nothing\n", "has no contexts"),
        ("contexts: {}\n", "has no contexts"),
        ("context: [\n", "is not valid"),
        ("<html><body>Sign in</body></html>", "is not valid"),
    ] {
        let error = TalosConfig::parse(text, "/etc/t").unwrap_err().to_string();
        assert!(error.contains("/etc/t") && error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn an_unparsable_file_says_where_but_never_quotes_a_key() {
    let text = "contexts:\n  prod:\n    endpoints: c2VjcmV0LWtleQ\n    key: [c2VjcmV0LWtleQ\n";
    let error = TalosConfig::parse(text, "/etc/t").unwrap_err();
    assert!(!format!("{} {error:?}", chain(&error)).contains("c2Vj"), "{error:?}");
    assert!(error.to_string().contains("line"), "{error}");
}

fn replace_field(text: &str, field: &str, value: &str) -> String {
    let start = format!("    {field}: ");
    text.lines()
        .map(|line| if line.starts_with(&start) { format!("{start}{value}\n") } else { format!("{line}\n") })
        .collect()
}

#[test]
fn bad_fields_are_named_with_context_and_file() {
    for (field, value, why) in [
        ("ca", "\"%%%\"", "not base64"),
        ("ca", "aGVsbG8=", "does not hold PEM"),
        ("crt", "\"%%%\"", "not base64"),
        ("crt", "\"\"", "`key` is there"),
        ("key", "\"%%%\"", "not base64"),
        ("key", "\"\"", "it is empty"),
        ("key", "", "it is empty"),
    ] {
        let error = context_of(|text| replace_field(&text, field, value)).unwrap_err().to_string();
        let named = format!("`{field}` of context `prod` in /etc/talosconfig");
        assert!(error.contains(&named) && error.contains(why), "{field}={value}: {error}");
    }
}

#[test]
fn b19_a_key_of_another_certificate_is_refused_before_connecting() {
    let pki = Pki::new();
    let (one, two) = (pki.client(&Client::at(now())), pki.client(&Client::at(now())));
    let mixed = pki::Credentials { key: two.key, ..one };
    let text = pki::talosconfig(&pki.ca_pem(), &mixed, &[]);
    let context = TalosConfig::parse(&text, "x").unwrap().context(None).unwrap();
    let second = std::time::Duration::from_secs(1);
    let error = crate::connect::Connect::new(&context, second, second).err().unwrap();
    assert!(error.to_string().contains("does not belong to `crt`"), "{error}");
}

#[test]
fn b17_an_expired_client_certificate_names_context_file_date_and_cure() {
    let error = certificate_with(|client| client.not_after = now() - TimeDelta::days(1)).unwrap_err();
    let text = chain(&error);
    assert!(
        text.contains("`prod`") && text.contains("/etc/talosconfig") && text.contains("expired on 2026-05-31"),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("talosctl config new"));
}

#[test]
fn b17_a_certificate_from_the_future_is_refused_but_a_slow_clock_is_not() {
    let error = certificate_with(|client| client.not_before = now() + TimeDelta::hours(1)).unwrap_err();
    assert!(chain(&error).contains("not valid before 2026-06-01 13:00"), "{}", chain(&error));
    let slow = certificate_with(|client| client.not_before = now() + TimeDelta::seconds(30)).unwrap();
    assert!(slow.warnings[0].contains("clock"), "{:?}", slow.warnings);
}

#[test]
fn b17_any_key_usage_but_client_auth_alone_is_refused() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    for (usages, found) in [
        (vec![], "missing"),
        (vec![ServerAuth], "is serverAuth"),
        (vec![ServerAuth, ClientAuth], "clientAuth + serverAuth"),
    ] {
        let error = chain(&certificate_with(|client| client.usages = usages).unwrap_err());
        assert!(error.contains(found) && error.contains("exactly clientAuth"), "{error}");
    }
}

#[test]
fn b17_a_certificate_that_ends_soon_is_a_warning() {
    // Lifetime before now, rest of it, and the warning.
    for (past, rest, expected) in [
        (TimeDelta::days(340), TimeDelta::days(25), None),
        (TimeDelta::days(360), TimeDelta::days(5), Some("2026-06-06 12:00 UTC, in 5 days")),
        (TimeDelta::hours(5), TimeDelta::hours(1), None),
        (TimeDelta::hours(6), TimeDelta::minutes(10), Some("in 10 minutes")),
    ] {
        let certificate = certificate_with(|client| {
            client.not_before = now() - past;
            client.not_after = now() + rest;
        });
        let warnings = certificate.unwrap().warnings;
        match expected {
            None => assert_eq!(warnings, Vec::<String>::new()),
            Some(text) => assert!(warnings[0].contains(text), "{warnings:?}"),
        }
    }
}

#[test]
fn a_role_that_is_misspelt_is_a_warning() {
    let certificate = certificate_with(|client| client.roles = vec!["os:etcd-backup".to_owned()]).unwrap();
    let warning = &certificate.warnings[0];
    assert!(warning.contains("only os:etcd-backup") && warning.contains("os:etcd:backup"), "{warning}");
}

/// A public certificate of version 1, made with OpenSSL; rcgen makes none.
const VERSION_1_CA: &str = "-----BEGIN CERTIFICATE-----
MIHeMIGRAhQKgADMblexhjWoolijgTH+qncgyDAFBgMrZXAwETEPMA0GA1UECgwG
b2xkLWNhMCAXDTI2MTIwMTExNTAyM1oYDzIxMjYxMTA3MTE1MDIzWjARMQ8wDQYD
VQQKDAZvbGQtY2EwKjAFBgMrZXADIQD1SAnTuykdzfb6ETRqK/TnOrCDTKm4Qwev
Wucd7TzvuzAFBgMrZXADQQAwM9eZKRRcWDbVfcJlECvFj3pH2DZ/hLwVReYBY9pQ
lWrckHa+BnuYPRAbTTLAIcmsKIUCjLHUkO/b2nXKx9cN
-----END CERTIFICATE-----
";

#[test]
fn b21_a_version_1_ca_is_named_with_its_subject() {
    let pki = Pki::new();
    for ca in [VERSION_1_CA.to_owned(), pki.ca_pem() + VERSION_1_CA] {
        let error = context_of(|text| replace_field(&text, "ca", &STANDARD.encode(&ca))).unwrap_err().to_string();
        assert!(
            error.contains("O=old-ca") && error.contains("v1") && error.contains("`prod` in /etc/talosconfig"),
            "{error}"
        );
    }
}

#[test]
fn b22_a_context_without_client_certificate_says_so() {
    for (extra, omni) in [("", false), ("    auth: {siderov1: {identity: me@example.org}}\n", true)] {
        let text = format!("context: omni\ncontexts:\n  omni:\n    endpoints: [https://omni.example.org]\n{extra}");
        let error = TalosConfig::parse(&text, "/etc/t").unwrap().context(None).unwrap_err();
        assert!(error.to_string().contains("has no client certificate"), "{error}");
        assert_eq!(error.to_string().contains("siderov1"), omni, "{error}");
        assert!(error.hint().unwrap().contains("os:etcd:backup"));
    }
}

#[test]
fn an_omni_identity_beside_a_client_certificate_does_no_harm() {
    context_of(|text| text + "    auth: {siderov1: {identity: me}, basic: }\n    proxy-url: http://p\n").unwrap();
}

#[test]
fn no_debug_form_shows_a_key() {
    let pki = Pki::new();
    let client = pki.client(&Client::at(now()));
    let text = pki::talosconfig(&pki.ca_pem(), &client, &["10.0.0.1".to_owned()]);
    let config = TalosConfig::parse(&text, "x").unwrap();
    let shown = format!("{config:?} {:?}", config.context(None).unwrap());
    assert!(shown.contains("[redacted]") && !shown.contains(&client.key[40..80]), "{shown}");
    assert!(KeyPair::from_pem(&client.key_pem).is_ok());
}

#[test]
fn a_broken_file_that_was_found_is_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talosconfig");
    std::fs::write(&path, "context: [").unwrap();
    let env = |name: &str| (name == "TALOSCONFIG").then(|| path.clone().into_os_string());
    assert!(matches!(TalosConfig::load(None, env), Err(ConfigError::Yaml { .. })));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        if let Ok(config) = TalosConfig::parse(&text, "x") {
            let _ = config.context(None);
        }
    }

    #[test]
    fn arbitrary_fields_never_panic(ca in "\\PC{0,40}", crt in any::<Vec<u8>>(), der in any::<Vec<u8>>(), endpoint in "\\PC{0,20}") {
        let pem = |label: &str, der: &[u8]| {
            STANDARD.encode(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der)))
        };
        let text = format!(
            "contexts:\n  a:\n    endpoints: [{endpoint:?}]\n    ca: {ca:?}\n    crt: {}\n    key: {}\n",
            pem("CERTIFICATE", &crt),
            pem("PRIVATE KEY", &der),
        );
        if let Ok(context) = TalosConfig::parse(&text, "x").and_then(|config| config.context(None)) {
            let _ = context.client_certificate(now());
        }
    }
}
