//! The command line. Bad input ends with exit code 2, anything else that fails with 1.

mod count;
mod data;
mod progress;
mod simulate;
mod sizes;
mod table;
mod theory;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user can fix it: a value, a file name, a file's contents.
    BadInput(String),
    /// The machine is in the way: a disk, a permission.
    Trouble(String),
    /// Whoever read our output has seen enough; not an error.
    ReaderLeft,
}

impl From<crate::core::Error> for Failure {
    fn from(error: crate::core::Error) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<crate::report::DrawError> for Failure {
    fn from(error: crate::report::DrawError) -> Self {
        use crate::report::DrawError;
        let message = error.to_string();
        match error {
            DrawError::UnknownFormat { .. } => Self::BadInput(message),
            // A folder that does not exist was mistyped; any other failure is the disk's.
            DrawError::Write { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::BadInput(message)
            }
            _ => Self::Trouble(message),
        }
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "agewise",
    version,
    about = "Who trains next? Balanced client participation in federated learning.",
    after_help = "Start with `agewise theory`: it shows what each policy does to your clients, \
                  before you run anything."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Theory(theory::TheoryArgs),
    // Boxed: it has many more flags than the others.
    Simulate(Box<simulate::SimulateArgs>),
    Data(data::DataArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Theory(args) => theory::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Data(args) => data::run(&args),
    };
    match result {
        Ok(()) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(Failure::BadInput(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
        Err(Failure::Trouble(message)) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

fn complain(message: &str) {
    // If even standard error is closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "error: {message}");
}

/// Prints a finished text; a closed pipe (`| head`) ends the program quietly.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
        Err(error) => Err(Failure::Trouble(format!("cannot write to standard output: {error}"))),
    }
}
