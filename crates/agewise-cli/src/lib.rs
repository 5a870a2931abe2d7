//! The command line. Bad input ends with exit code 2, an interruption with 130, anything else that fails with 1.

#![forbid(unsafe_code)]

mod admin;
mod audit;
mod client;
mod clock_args;
mod compare;
mod completions;
mod config;
mod config_coordinator;
mod config_keys;
mod coordinator;
mod data;
mod deployment_config;
mod doctor;
mod experiment;
mod live_report;
mod man;
mod network;
mod policies;
mod presets;
mod progress;
mod progress_table;
mod report;
mod run_args;
mod simulate;
mod sizes;
mod status;
mod swarm;
mod table;
mod theory;
mod time_left;
mod web_browser;
mod whole_number;

use agewise_experiment::{ExperimentError, RunDirError};
use agewise_report::ReportError;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user can fix it: a value, a file name, a file's contents.
    BadInput(String),
    /// The machine refuses: a disk is full, a permission is missing.
    Io(String),
    /// The user stopped it; what there is was written.
    Interrupted(String),
    /// The reader of our output has closed the pipe, as `head` does; not an error.
    BrokenPipe,
}

impl From<agewise_core::Error> for Failure {
    fn from(error: agewise_core::Error) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<agewise_plot::DrawError> for Failure {
    fn from(error: agewise_plot::DrawError) -> Self {
        use agewise_plot::DrawError;
        let message = error.to_string();
        match error {
            DrawError::UnknownFormat { .. } => Self::BadInput(message),
            // A folder that does not exist was mistyped; any other failure is the disk's.
            DrawError::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::BadInput(message)
            }
            _ => Self::Io(message),
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let message = error.to_string();
        match error {
            ExperimentError::Data(error) => error.into(),
            ExperimentError::RunDir(error) => error.into(),
            ExperimentError::Input(_) | ExperimentError::Unreadable(_) => Self::BadInput(message),
        }
    }
}

impl From<RunDirError> for Failure {
    fn from(error: RunDirError) -> Self {
        let message = error.to_string();
        if error.is_bad_name() { Self::BadInput(message) } else { Self::Io(message) }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Experiment(error) => error.into(),
            ReportError::Draw(error) => error.into(),
        }
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "agewise",
    version,
    about = "Who trains next? Balanced client participation in federated learning.",
    after_help = "Start with `agewise compare`: two minutes of training on embedded data, and a report."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Boxed: these have many more flags than the others.
    Compare(Box<compare::CompareArgs>),
    Theory(theory::TheoryArgs),
    Simulate(Box<simulate::SimulateArgs>),
    Report(report::ReportArgs),
    Policies(policies::PoliciesArgs),
    Presets(presets::PresetsArgs),
    Data(data::DataArgs),
    Config(config::ConfigArgs),
    Coordinator(coordinator::CoordinatorArgs),
    Client(client::ClientArgs),
    Swarm(swarm::SwarmArgs),
    Status(status::StatusArgs),
    Audit(audit::AuditArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(run_with(std::env::args_os()))
}

/// Runs the command with these arguments, of which the first is its name, and returns its exit code.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // If the stream that it belongs to is closed, there is nowhere left to write.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    // A name that means nothing is found before anything is done, whether the command trains or not.
    let result = agewise_train::selected_backend().map_err(Failure::from);
    let result = result.and_then(|_| run(cli.command));
    match result {
        Ok(()) | Err(Failure::BrokenPipe) => 0,
        Err(Failure::BadInput(message)) => {
            complain(&message);
            2
        }
        Err(Failure::Interrupted(message)) => {
            // As a shell reports a program that Ctrl-C has ended.
            let _ = writeln!(io::stderr(), "{message}");
            130
        }
        Err(Failure::Io(message)) => {
            complain(&message);
            1
        }
    }
}

/// Runs one command.
fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Compare(args) => compare::run(&args),
        Command::Theory(args) => theory::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Presets(args) => presets::run(&args),
        Command::Coordinator(args) => coordinator::run(args),
        Command::Client(args) => client::run(&args),
        Command::Swarm(args) => swarm::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

fn complain(message: &str) {
    // If standard error is closed too, there is nowhere left to write.
    let _ = writeln!(io::stderr(), "error: {message}");
}

/// Prints a value as one JSON document.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    print(&(text.map_err(|error| Failure::Io(format!("cannot write JSON: {error}")))? + "\n"))
}

/// Prints a finished text; a closed pipe (`| head`) ends the program quietly.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::Io(format!("cannot write to standard output: {error}"))),
    }
}
