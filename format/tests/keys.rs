//! Recipients and identities as people and editors write them.

#![allow(clippy::unwrap_used)]

use bronzenail_format::{Identities, IdentityError, OneTimeIdentity, RecipientError, Recipients};

fn a_key() -> (String, String) {
    use age::secrecy::ExposeSecret;
    let key = age::x25519::Identity::generate();
    (key.to_string().expose_secret().to_owned(), key.to_public().to_string())
}

fn parse(text: &str) -> Result<Recipients, RecipientError> {
    Recipients::parse([("recipients.txt", text)])
}

#[test]
fn b69_comments_blank_lines_crlf_and_duplicates_are_fine() {
    let (_, one) = a_key();
    let (_, two) = a_key();
    let ssh = include_str!("keys/ed25519.pub").trim();
    let text = format!("\u{feff}# team\r\n\r\n{one}\r\n  {two}  \r\n{one}\r\n{ssh}\r\n");
    assert_eq!(parse(&text).unwrap().canonical().len(), 3);
}

#[test]
fn b69_an_unsupported_type_is_named_with_its_line() {
    let (_, good) = a_key();
    for (line, kind) in [
        ("ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY= me", "ecdsa-sha2-nistp256"),
        ("sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t me", "sk-ssh-ed25519@openssh.com"),
        ("age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t", "age1yubikey"),
        ("age1pq1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t", "age1pq"),
        ("ssh-dss AAAAB3NzaC1kc3M= me", "ssh-dss"),
    ] {
        match parse(&format!("{good}\n{line}\n")) {
            Err(RecipientError::Unsupported { place, kind: found }) => {
                assert_eq!((place.as_str(), found.as_str()), ("recipients.txt, line 2,", kind));
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn b69_no_recipient_at_all_is_refused() {
    assert_eq!(Recipients::parse([]).unwrap_err(), RecipientError::None);
    for text in ["", "\n\n", "# only a comment\n"] {
        assert_eq!(parse(text).unwrap_err(), RecipientError::Empty { place: "recipients.txt".to_owned() });
    }
}

#[test]
fn a_private_key_among_recipients_is_refused_and_not_repeated() {
    let (secret, _) = a_key();
    let ssh = include_str!("keys/ed25519");
    for text in [secret.as_str(), &secret.to_lowercase(), ssh, "AGE-PLUGIN-YUBIKEY-1QQQ"] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, RecipientError::PrivateKey { .. }), "{error}");
        let said = format!("{error} {error:?} {}", error.hint());
        assert!(!said.to_uppercase().contains("AGE-SECRET") && !said.contains("b3Blbn"), "{said}");
    }
}

#[test]
fn the_comment_of_a_public_key_is_free_text_and_is_not_kept() {
    let key = include_str!("keys/ed25519.pub");
    let words: Vec<&str> = key.split_whitespace().take(2).collect();
    let plain = words.join(" ");
    for comment in ["", " made from my private key", " \tAGE-PLUGIN- is a word"] {
        assert_eq!(parse(&format!("{plain}{comment}\n")).unwrap().canonical(), [plain.as_str()], "{comment:?}");
    }
    assert_eq!(parse(&words.join("\t  ")).unwrap().canonical(), [plain], "white space is not part of the key");
}

#[test]
fn recipients_from_several_sources_are_one_set_in_one_order() {
    let (_, one) = a_key();
    let (_, two) = a_key();
    let there = Recipients::parse([("--recipient", one.as_str()), ("team.txt", &format!("{two}\n{one}\n"))]).unwrap();
    let back = Recipients::parse([("team.txt", two.as_str()), ("--recipient", &one)]).unwrap();
    assert_eq!(there.canonical(), back.canonical());
    let error = Recipients::parse([("--recipient", one.as_str()), ("team.txt", "# nobody")]).unwrap_err();
    assert_eq!(error.to_string(), "team.txt has no recipient in it");
}

#[test]
fn a_damaged_recipient_says_so() {
    let (_, good) = a_key();
    let error = parse(&good[..good.len() - 1]).unwrap_err();
    assert_eq!(error.to_string(), "recipients.txt is not a recipient: the key is damaged or cut");
    assert!(matches!(parse("hello"), Err(RecipientError::Invalid { .. })));
    assert!(matches!(parse("ssh-ed25519 AAAA"), Err(RecipientError::Invalid { .. })));
}

#[test]
fn b68_identity_files_load_however_they_end() {
    let (secret, _) = a_key();
    assert_eq!(secret.len(), 74, "the length that once failed");
    for text in [
        secret.clone(),
        format!("{secret}\r\n"),
        format!("# created: today\n# public key: age1...\n{secret}"),
        format!("\n\n\n{secret}\n"),
        format!("\u{feff}{secret}\n"),
    ] {
        assert!(Identities::parse("key.txt", &text).is_ok(), "{text:?}");
    }
}

#[test]
fn what_is_no_identity_is_named_by_place_alone() {
    let (secret, public) = a_key();
    assert!(matches!(Identities::parse("key.txt", &public), Err(IdentityError::PublicKey { .. })));
    assert!(matches!(Identities::parse("key.txt", "# nothing\n"), Err(IdentityError::Empty { .. })));
    let error = Identities::parse("key.txt", &secret[..70]).unwrap_err();
    assert_eq!(error.to_string(), "key.txt, line 1, is not an identity");
}

#[test]
fn a_line_is_counted_as_an_editor_counts_it() {
    let (secret, _) = a_key();
    let error = Identities::parse("key.txt", &format!("\n\n# key\n{secret}\nnonsense")).unwrap_err();
    assert_eq!(error.to_string(), "key.txt, line 5, is not an identity");
}

#[test]
fn keys_that_cannot_be_used_are_named_by_kind() {
    for (text, expected) in [
        ("AGE-PLUGIN-YUBIKEY-1QQQ", "plugin identity"),
        ("AGE-SECRET-KEY-PQ-1QQQ", "post-quantum identity"),
        ("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n", "passphrase-protected identity file"),
        (include_str!("keys/ed25519-passphrase"), "passphrase-protected SSH key"),
    ] {
        match Identities::parse("key.txt", text) {
            Err(IdentityError::Unsupported { kind, .. }) => assert_eq!(kind, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn b69_what_can_be_sealed_to_has_a_private_half_that_is_read() {
    for (public, private) in [
        (include_str!("keys/ed25519.pub"), include_str!("keys/ed25519")),
        (include_str!("keys/rsa.pub"), include_str!("keys/rsa")),
    ] {
        for text in [private.to_owned(), private.trim_end().to_owned(), format!("\u{feff}\n\n{private}")] {
            let identities = Identities::parse("key", &text).unwrap();
            assert_eq!(identities.public_keys(), parse(public).unwrap().canonical());
        }
    }
    let (secret, public) = a_key();
    assert_eq!(Identities::parse("key", &secret).unwrap().public_keys(), [public]);
}

#[test]
fn no_secret_shows_in_debug_output() {
    let (secret, public) = a_key();
    let identities = Identities::parse("key.txt", &secret).unwrap();
    let said = format!("{identities:?} {:?} {:?}", OneTimeIdentity::generate(), parse(&public).unwrap());
    assert!(!said.contains("SECRET"), "{said}");
}
