//! `agewise simulate`: how the policies load a population, by playing it.

use super::experiment::{Kind, Request};
use super::run_args::{ExperimentArgs, RunArgs, table_of, with_default};
use super::{Failure, sizes, whole_number};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

const ABOUT: &str = "Simulate how the policies load your clients, without training anything";

const TEACHING: &str = "\
Simulate how the policies load your clients, without training anything: the policies side by side, on common \
random numbers, calm or with clients that are offline, drop out, join and leave.

Prints a table and writes a run folder: config.toml (`agewise simulate config.toml` runs it again), summary.json, rounds.csv, \
intervals.csv, windows.csv, figures as SVG and PNG, and report.html, one page that explains what it shows.

Ctrl-C ends it with what there is; --resume RUN goes on and ends with the same bytes as if nothing had happened.";

const EXAMPLES: &str = "\
Examples:
  # The paper's experiment
  agewise simulate --sizes zipf:2.0
  # With 95% intervals
  agewise simulate --seeds 20
  agewise simulate --policy markov-optimal --start cold
  agewise simulate --clients 1e6 --cohort 150000 \\
    --rounds 200 --policy markov-optimal,oldest-first
  agewise simulate --availability on-off:20,8 \\
    --dropout 0.1 --policy markov-optimal
  agewise simulate my-world.toml --rounds 300
  # Go on where it was interrupted
  agewise simulate --resume runs/simulate-001
  agewise simulate --extend runs/simulate-001 --seeds 20";

#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
#[command(mut_args(|flag| with_default(flag, &Kind::Simulate.defaults())))]
pub(crate) struct SimulateArgs {
    /// Start from the parameters in this file; flags override them
    #[arg(value_name = "FILE.toml", conflicts_with_all = ["resume", "extend"])]
    file: Option<PathBuf>,

    /// The same, as it was written until version 0.1
    #[arg(long, value_name = "FILE", hide = true, conflicts_with_all = ["resume", "extend", "file"])]
    config: Option<PathBuf>,

    #[command(flatten)]
    experiment: ExperimentArgs,

    #[command(flatten)]
    own: OwnArgs,

    #[command(flatten)]
    run: RunArgs,
}

/// What only simulations have.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Clients and policies")]
struct OwnArgs {
    /// Rounds at the beginning that are played and not recorded
    #[arg(long, value_name = "ROUNDS", value_parser = whole_number::parse, allow_negative_numbers = true)]
    warmup: Option<u64>,

    /// Data sizes: equal, zipf:A (the paper has 2.0), lognormal:S, or a FILE of numbers
    #[arg(long, value_name = "DISTRIBUTION|FILE")]
    #[serde(skip)]
    sizes: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let kind = Kind::Simulate;
    let mut flags = args.experiment.table()?;
    flags.extend(table_of(&args.own)?);
    let mut params =
        args.file.as_ref().or(args.config.as_ref()).map(|path| kind.read_file(path)).transpose()?;
    if let Some(text) = &args.own.sizes {
        let (law, list) = sizes::law_or_list(text)?;
        flags.insert("sizes".to_string(), law.into());
        if let Some(list) = list {
            flags.insert("size_list".to_string(), list.into());
        } else if let Some(params) = &mut params {
            params.size_list = None;
        }
    }
    let (run, experiment) = (&args.run, &args.experiment);
    Request { kind, run, params, experiment, flags, folders: Vec::new() }.run()
}
