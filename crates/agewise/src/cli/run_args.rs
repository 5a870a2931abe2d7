//! The flags of everything that has a run folder.

use clap::Args;
use std::path::PathBuf;

/// Where a run goes, and how it is shown.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The folder of the run [default: a new one under runs/]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,

    /// Write into a folder that is not empty; a run in it is cleared
    #[arg(long, conflicts_with = "resume", requires = "out")]
    pub(crate) force: bool,

    /// Finish a run that was interrupted
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<PathBuf>,

    /// Threads to use [default: all cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Print the summary as one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress
    #[arg(long)]
    pub(crate) quiet: bool,
}
