//! `bronzenail-backup`: the program that runs unattended in the cluster.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use bronzenail_backup::arguments::{self, Arguments};
use bronzenail_backup::config::{self, Config, Talk};
use bronzenail_backup::error::RunError;
use bronzenail_backup::outcome::{Outcome, failure_json, failure_line};
use bronzenail_backup::run::{self, Interrupt};
use bronzenail_backup::settings::SETTINGS;
use bronzenail_cli::config::is_private_key;
use bronzenail_cli::progress::Progress;
use bronzenail_cli::{Exit, Values, log, output, termination};
use chrono::Utc;
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) if is_private_key(&error.render().to_string()) => {
            // A key in PEM begins with dashes, so that clap takes it for a flag, and repeats flags that it does not know.
            let error = RunError::private_key("an argument");
            tell_failure(&error, &Talk::default());
            return error.exit().into();
        }
        Err(error) => {
            let _ = error.print();
            // clap's own code for an error is 2, and help is none.
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let mut talk = Talk::default();
    match program(&arguments, &mut talk) {
        Ok(()) => Exit::Done.into(),
        Err(error) => {
            tell_failure(&error, &talk);
            error.exit().into()
        }
    }
}

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn program(arguments: &Arguments, talk: &mut Talk) -> Result<(), RunError> {
    let values = config::values(arguments, &env).inspect_err(|_| {
        // How to tell it may stand in what could be read.
        let without_file = Arguments { config: None, ..arguments.clone() };
        let known = config::values(&without_file, &env).ok().and_then(|values| Talk::from_values(&values).ok());
        *talk = known.unwrap_or_default();
    })?;
    *talk = Talk::from_values(&values)?;
    log::start(talk.log, talk.format);
    if arguments.print_config {
        output::data(&(values.to_toml(SETTINGS) + &credentials_text()));
        return Ok(());
    }
    refuse_bare_call(arguments, &values)?;
    let config = Config::build(&values, &env, Utc::now())?;
    let runtime = runtime()?;
    let ended = runtime.block_on(run_until_signal(config, talk));
    // What is still looking up a name by then is not worth the rest of the grace time.
    runtime.shutdown_timeout(Duration::from_secs(1));
    tell(&ended?, talk);
    Ok(())
}

/// Which of the SDK's own variables are set: what they hold is nobody's business, that they are there is worth knowing.
fn credentials_text() -> String {
    const VARIABLES: [&str; 7] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_ROLE_ARN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    let is_set = |name: &&str| env(name).is_some_and(|value| !value.is_empty());
    let set: Vec<&str> = VARIABLES.into_iter().filter(is_set).collect();
    match set.as_slice() {
        [] => "# S3 credentials: no variable is set; the SDK goes on to profiles and instance metadata\n".to_owned(),
        set => format!("# S3 credentials: {} (set, not shown)\n", set.join(", ")),
    }
}

/// Called with nothing at all, it was probably called by a person who wants to know what it is.
fn refuse_bare_call(arguments: &Arguments, values: &Values) -> Result<(), RunError> {
    if arguments.bare && values.text("bucket").is_none() && values.text("dir").is_none() {
        return Err(RunError::Usage {
            what: "nothing to do: no subcommand and no settings in the environment".to_owned(),
            hint: "`bronzenail-backup run --help` lists everything".to_owned(),
        });
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime, RunError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|source| RunError::File {
        what: "the clock and the network from",
        path: "the system".to_owned(),
        source,
    })
}

async fn run_until_signal(config: Config, talk: &Talk) -> Result<Outcome, RunError> {
    // First of all: the kernel passes a signal without a handler over where the program is the first process of a pod.
    let signals = Signals::handled();
    let progress = if talk.quiet { Progress::none() } else { Progress::for_stderr(talk.format) };
    let interrupt = Interrupt::default();
    let running = run::run(config, &progress, &interrupt, &Utc::now);
    let ended = interrupt.guard(running, Signals::first(signals)).await;
    progress.finish();
    ended
}

/// The signals by which a person or a kubelet ends a program.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn handled() -> Option<Self> {
        let terminate = signal(SignalKind::terminate()).ok()?;
        Some(Self { terminate, interrupt: signal(SignalKind::interrupt()).ok()? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Waits for the first. Who asks twice does not want to wait for the store: a second one ends the program.
    async fn first(signals: Option<Self>) -> &'static str {
        // Without handlers the signals end the process the hard way; the manifest is still the last thing written.
        let Some(mut signals) = signals else { return std::future::pending().await };
        let name = signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(Exit::Interrupted.code().into());
        });
        name
    }
}

fn tell(outcome: &Outcome, talk: &Talk) {
    if talk.json {
        output::data(&format!("{:#}\n", outcome.to_json()));
    } else {
        output::data(&outcome.to_text());
    }
    termination::write(&talk.termination_log, &outcome.to_line());
}

fn tell_failure(error: &RunError, talk: &Talk) {
    if talk.json {
        output::data(&format!("{:#}\n", failure_json(error)));
    }
    output::failure(error, error.hint().as_deref(), talk.format);
    termination::write(&talk.termination_log, &failure_line(error));
}
