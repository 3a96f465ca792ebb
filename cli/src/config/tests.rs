use super::*;

const fn setting(name: &'static str, env: &'static str, kind: Kind, legacy: &'static [Legacy]) -> Setting {
    Setting { name, env, legacy, kind, default: None, value: "X", help: "", heading: "" }
}

const STYLE: Legacy = Legacy {
    env: "PATH_STYLE",
    convert: |text| if text == "true" { Ok("path".to_owned()) } else { Err(format!("`{text}`?")) },
};

static SETTINGS: &[Setting] = &[
    setting("bucket", "BN_BUCKET", Kind::Text, &[Legacy::same("BUCKET"), Legacy::same("S3_BUCKET")]),
    setting("recipient", "BN_RECIPIENT", Kind::List, &[Legacy::same("KEY"), Legacy::same("KEYS")]),
    Setting { default: Some("8MiB"), ..setting("part-size", "BN_PART_SIZE", Kind::Text, &[]) },
    setting("read-back", "BN_READ_BACK", Kind::Switch, &[]),
    setting("addressing", "BN_ADDRESSING", Kind::Text, &[STYLE]),
];

fn layered(flags: &[(&str, &[&str])], env: &[(&str, &str)], file: &str) -> Result<Values, ConfigError> {
    let flags = flags.iter().map(|(k, v)| ((*k).to_owned(), v.iter().map(|t| (*t).to_owned()).collect())).collect();
    let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    Values::layered(SETTINGS, &flags, env, Some(("c.toml", file)))
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let (flag, env, file) = ([("part-size", &["1M"][..])], [("BN_PART_SIZE", "2M")], "\npart-size = '3M'");
    for (values, text, origin) in [
        (layered(&flag, &env, file), "1M", "--part-size"),
        (layered(&[], &env, file), "2M", "BN_PART_SIZE"),
        (layered(&[], &[], file), "3M", "c.toml:2"),
        (layered(&[], &[], ""), "8MiB", "default"),
    ] {
        let values = values.unwrap();
        assert_eq!(values.text("part-size"), Some(text));
        assert_eq!(values.origin("part-size").unwrap().to_string(), origin);
    }
}

#[test]
fn our_variable_beats_those_of_others_and_the_first_of_those_the_second() {
    let all = [("BN_BUCKET", "ours"), ("BUCKET", "first"), ("S3_BUCKET", "second")];
    for (set, expected) in [(&all[..], "ours"), (&all[1..], "first"), (&all[2..], "second")] {
        assert_eq!(layered(&[], set, "bucket = 'file'").unwrap().text("bucket"), Some(expected));
    }
}

#[test]
fn a_list_is_what_all_variables_of_others_say_together() {
    let values = layered(&[], &[("KEY", "a"), ("KEYS", "b,c\n")], "").unwrap();
    let list: Vec<(&str, String)> = values.list("recipient").map(|(text, place)| (text, place.to_string())).collect();
    let place = |name: &str| name.to_owned();
    assert_eq!(list, [("a", place("KEY")), ("b", place("KEYS")), ("c", place("KEYS"))]);
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    for empty in ["", " ", "\n"] {
        let values = layered(&[], &[("BN_BUCKET", empty), ("BUCKET", "x")], "").unwrap();
        assert_eq!(values.text("bucket"), Some("x"));
        assert_eq!(values.origin("bucket"), Some(&Origin::Env("BUCKET")));
        assert_eq!(layered(&[], &[("BUCKET", empty)], "").unwrap().text("bucket"), None);
    }
}

#[test]
fn the_newline_at_the_end_of_a_mounted_secret_is_not_part_of_the_value() {
    assert_eq!(layered(&[], &[("BN_BUCKET", "b\n")], "").unwrap().text("bucket"), Some("b"));
}

#[test]
fn lists_come_repeated_parted_or_as_arrays() {
    let list = |values: Values| values.list("recipient").map(|(text, _)| text.to_owned()).collect::<Vec<_>>();
    assert_eq!(list(layered(&[("recipient", &["a", "b"])], &[], "").unwrap()), ["a", "b"]);
    assert_eq!(list(layered(&[], &[("BN_RECIPIENT", "ssh-ed25519 x,\n b \n")], "").unwrap()), ["ssh-ed25519 x", "b"]);
    assert_eq!(list(layered(&[], &[], "recipient = ['a', 'b']").unwrap()), ["a", "b"]);
    assert_eq!(list(layered(&[], &[], "recipient = 'a'").unwrap()), ["a"]);
}

#[test]
fn an_unknown_key_is_an_error_that_suggests() {
    for (key, near) in [
        ("part_size", Some("part-size")),
        ("Bucket", Some("bucket")),
        ("buckt", Some("bucket")),
        ("recipients", Some("recipient")),
        ("s3-bucket", Some("bucket")),
        ("size", Some("part-size")),
        ("compression", None),
    ] {
        let error = layered(&[], &[], &format!("\n{key} = '8MiB'")).unwrap_err();
        assert_eq!(error.to_string(), format!("c.toml:2: unknown key `{key}`"));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "keys are the names of the flags without their dashes".to_owned(),
        };
        assert_eq!(error.hint(), Some(hint), "{key}");
    }
    assert!(layered(&[], &[], "[s3]\nbucket = 'x'").is_err());
}

#[test]
fn a_wrong_value_names_its_place() {
    let size = |values: Values| values.size("part-size", 1).unwrap_err().to_string();
    let wrong = "`large` is not a size such as 8MiB or 1GiB";
    assert_eq!(size(layered(&[], &[("BN_PART_SIZE", "large")], "").unwrap()), format!("BN_PART_SIZE: {wrong}"));
    assert_eq!(size(layered(&[("part-size", &["large"])], &[], "").unwrap()), format!("--part-size: {wrong}"));
    assert_eq!(size(layered(&[], &[], "\n\npart-size = 'large'").unwrap()), format!("c.toml:3: {wrong}"));

    for (file, expected) in [
        ("read-back = 'maybe'", "c.toml:1: `read-back` takes true or false"),
        ("part-size = 1.5", "c.toml:1: `part-size` takes one text or whole number"),
        ("recipient = [['a']]", "c.toml:1: `recipient` takes a list of texts"),
    ] {
        assert_eq!(layered(&[], &[], file).unwrap_err().to_string(), expected);
    }
    assert_eq!(layered(&[], &[("PATH_STYLE", "maybe")], "").unwrap_err().to_string(), "PATH_STYLE: `maybe`?");
}

#[test]
fn text_of_a_file_that_is_not_toml_is_not_repeated() {
    let error = layered(&[], &[], "bucket = 'a'\nAGE-SECRET-KEY-1XYZ hunter2").unwrap_err().to_string();
    assert!(error.starts_with("c.toml:2: not TOML: "), "{error}");
    assert!(!error.contains("SECRET") && !error.contains("hunter2"), "{error}");
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let values = layered(&[], &[("BN_PART_SIZE", "AGE-SECRET-KEY-1ABC")], "").unwrap();
    assert_eq!(values.size("part-size", 1).unwrap_err().to_string(), "BN_PART_SIZE: (masked: a private key)");
    let error = layered(&[], &[("PATH_STYLE", "AGE-SECRET-KEY-1ABC")], "").unwrap_err();
    assert_eq!(error.to_string(), "PATH_STYLE: (masked: a private key)");
}

#[test]
fn switches_are_true_when_given() {
    let on = |values: Values| values.switch("read-back").unwrap();
    assert!(on(layered(&[("read-back", &[])], &[], "").unwrap()));
    assert!(!on(layered(&[], &[("BN_READ_BACK", "False")], "").unwrap()));
    assert!(on(layered(&[], &[], "read-back = true").unwrap()));
    assert!(!on(layered(&[], &[], "").unwrap()));
    let error = layered(&[], &[("BN_READ_BACK", "maybe")], "").unwrap().switch("read-back").unwrap_err();
    assert_eq!(error.to_string(), "BN_READ_BACK: `maybe` is neither true nor false");
}

#[test]
fn the_printed_settings_say_where_they_came_from_and_mask_keys() {
    let env = [("KEY", "AGE-SECRET-KEY-1ABC"), ("KEYS", "age1x"), ("BUCKET", "http://me:hunter@2@x")];
    let printed = layered(&[("read-back", &[])], &env, "").unwrap().to_toml(SETTINGS);
    assert_eq!(
        printed,
        "bucket = \"http://(masked)@x\"  # BUCKET\n\
         recipient = [\"(masked: a private key)\", \"age1x\"]  # KEY, KEYS\n\
         part-size = \"8MiB\"  # default\n\
         read-back = true  # --read-back\n\
         # addressing is not set\n"
    );
}

#[test]
fn what_is_printed_can_be_used_as_the_file() {
    let env = [("BN_BUCKET", "a\"b\\c"), ("BN_RECIPIENT", "x,y"), ("BN_READ_BACK", "1"), ("PATH_STYLE", "true")];
    let values = layered(&[], &env, "").unwrap();
    let again = layered(&[], &[], &values.to_toml(SETTINGS)).unwrap();
    let texts = |values: &Values| -> Vec<Vec<String>> {
        let names = SETTINGS.iter().map(|setting| setting.name).filter(|name| *name != "read-back");
        names.map(|name| values.list(name).map(|(text, _)| text.to_owned()).collect()).collect()
    };
    assert_eq!(texts(&values), texts(&again));
    assert!(again.switch("read-back").unwrap());
}
