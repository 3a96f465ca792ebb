//! `bronzenail-lab`: shows the main job end to end, and measures it.

use std::process::ExitCode;

use bronzenail_lab::{bench, demo};
use clap::{Parser, Subcommand};

/// The lab of bronzenail.
#[derive(Parser)]
#[command(name = "bronzenail-lab", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// The main job, end to end, on embedded defaults; needs nothing installed.
    Demo(demo::Options),
    /// Speeds and memory of the main job, as ratios within one run.
    Bench(bench::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Demo(options) => demo::run(options).await,
        Verb::Bench(options) => bench::run(options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", bronzenail_cli::report::error_text(error.as_ref(), None));
            ExitCode::FAILURE
        }
    }
}
