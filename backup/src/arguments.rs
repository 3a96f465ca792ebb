//! The command line, made from the table of settings.

use std::collections::BTreeMap;

use bronzenail_cli::config::{Flags, Kind};
use bronzenail_cli::{Exit, exit};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::{SETTINGS, described};

/// How a run can end.
const EXITS: [Exit; 4] = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Interrupted];

/// What was typed.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Flags of the table.
    pub flags: Flags,
    /// The TOML file.
    pub config: Option<String>,
    /// Print the settings and end.
    pub print_config: bool,
    /// No subcommand was given: what replaces talos-backup's image may be called so.
    pub bare: bool,
}

/// The whole command line.
pub fn command() -> Command {
    Command::new("bronzenail-backup")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Encrypted, verified etcd backups of Talos Linux clusters")
        .long_about(
            "Encrypted, verified etcd backups of Talos Linux clusters.\n\n\
             Without a subcommand it does what `run` does, if the environment of siderolabs/talos-backup or its own \
             says what: replacing the image in a CronJob is enough.",
        )
        .after_help(exit::help(&EXITS))
        .subcommand(run_command())
}

fn run_command() -> Command {
    let mut command = Command::new("run")
        .about("Take a snapshot, prove it, seal it, store it, read it back, and commit it")
        .after_help(format!(
            "Flags come before the environment, the environment before the file. S3 credentials come from the AWS SDK's own \
             chain (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, profile, web identity, instance metadata), never from a flag.\n\n\
             {}",
            exit::help(&EXITS)
        ))
        .arg(Arg::new("config").long("config").value_name("PATH").env("BRONZENAIL_CONFIG").help("TOML file; its keys are the names of the flags").help_heading("Output"))
        .arg(Arg::new("print-config").long("print-config").action(ArgAction::SetTrue).help("Print the settings in force and where each came from, and end").help_heading("Output"));
    for setting in SETTINGS {
        let variables = setting.legacy.iter().fold(setting.env.to_owned(), |text, legacy| text + ", " + legacy.env);
        let help = format!("{} [env: {variables}]", described(setting));
        let arg = Arg::new(setting.name).long(setting.name).help(help).help_heading(setting.heading);
        command = command.arg(match setting.kind {
            Kind::Switch => arg.action(ArgAction::SetTrue),
            Kind::Text => arg.value_name(setting.value),
            Kind::List => arg.value_name(setting.value).action(ArgAction::Append),
        });
    }
    command
}

/// Reads the command line.
///
/// # Errors
/// What clap says, `--help` and `--version` included.
pub fn parse<T: Into<std::ffi::OsString> + Clone>(
    arguments: impl IntoIterator<Item = T>,
) -> Result<Arguments, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    match matches.subcommand() {
        Some((_, run)) => Ok(read(run)),
        None => {
            let config = std::env::var("BRONZENAIL_CONFIG").ok().filter(|path| !path.is_empty());
            Ok(Arguments { bare: true, config, ..Arguments::default() })
        }
    }
}

fn read(run: &ArgMatches) -> Arguments {
    let mut flags = BTreeMap::new();
    for setting in SETTINGS {
        let given = match setting.kind {
            Kind::Switch => run.get_flag(setting.name).then(Vec::new),
            Kind::Text | Kind::List => {
                run.get_many::<String>(setting.name).map(|values| values.cloned().collect::<Vec<_>>())
            }
        };
        if let Some(values) = given {
            flags.insert(setting.name.to_owned(), values);
        }
    }
    let config = run.get_one::<String>("config").filter(|path| !path.is_empty()).cloned();
    Arguments { flags, config, print_config: run.get_flag("print-config"), bare: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn flags_arrive_under_their_names() {
        let typed = ["bronzenail-backup", "run", "--bucket", "b", "--recipient", "x", "--recipient", "y", "--json"];
        let arguments = parse(typed).unwrap();
        assert_eq!(arguments.flags["recipient"], ["x", "y"]);
        assert!(arguments.flags.contains_key("json") && !arguments.flags.contains_key("quiet"));
        assert!(!arguments.bare);
        assert!(parse(["bronzenail-backup"]).unwrap().bare);
    }

    #[test]
    fn there_is_no_flag_for_a_secret_and_none_that_turns_encryption_off() {
        for setting in SETTINGS {
            for word in ["secret", "password", "access-key", "identity", "token", "encrypt", "plain", "insecure"] {
                assert!(!setting.name.contains(word), "--{}", setting.name);
            }
        }
    }
}
