//! `agewise compare`: policies side by side, by training.

use super::clock_args::ClockArgs;
use super::data::{DataDir, FileArgs};
use super::experiment::{Kind, Request};
use super::run_args::{ExperimentArgs, RunArgs, parse, set, table_of, with_default};
use super::{Failure, whole_number};
use agewise_core::Error;
use agewise_experiment::presets;
use agewise_train::Backend;
use agewise_train::aggregation::AggregationParams;
use agewise_train::data::PixelScale;
use clap::Args;
use serde::Serialize;
use std::ops::Not;
use std::path::PathBuf;
use toml::Value;

const ABOUT: &str = "Train with several policies side by side, and say what differs";

const TEACHING: &str = "\
Train with several policies side by side: which learns faster, which loads the clients more evenly, and is the \
difference real? Without arguments: the embedded digits, 100 clients of which 15 train per round, about two minutes.

Paired by design: for one seed every policy gets the same partition, the same first model and the same client batches. \
Prints a table and writes a run folder: config.toml, rounds.csv, clients.csv, summary.json, models, TensorBoard event \
files, figures as SVG and PNG, and report.html, one page that explains what it shows.

Ctrl-C ends it with what there is; --resume RUN goes on and ends with the same bytes as if nothing had happened.";

const EXAMPLES: &str = "\
Examples:
  agewise compare
  agewise compare --policy random,oldest-first --seeds 20
  # Two starts of one policy
  agewise compare --baseline markov-optimal@cold \\
    --policy markov-optimal@cold,markov-optimal
  # Data of your own; its column `user` says whose a row is
  agewise compare --data visits.csv --label bought \
    --client user --model mlp:64,32
  # Other rules of aggregation
  agewise compare \\
    --policy 'random,random+median,random+trimmed-mean'
  # Same weights, other selection
  agewise compare --weighting uniform --sizes zipf:2.0
  # Clients that are not always there
  agewise compare --availability on-off:20,8 \\
    --dropout 0.1
  # Devices and links that differ; time to the target
  agewise compare --speeds phones --links phones \
    --policy random,random/deadline:0.8 --unit seconds
  agewise compare my-study.toml --rounds 300
  agewise compare --preset paper-mnist-noniid-steps \\
    --data-dir DIR
  # Go on where it was interrupted
  agewise compare --resume runs/compare-001
  # More of a run that is finished
  agewise compare --extend runs/compare-001 --seeds 20";

const POLICY: &str = "Policies, separated by commas; behind a name, @cold or @stationary sets its first ages, +RULE \
                      how its updates are aggregated, and /SCHEDULE when its rounds end";

#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
#[command(mut_arg("policies", |flag| flag.help(POLICY)))]
#[command(mut_args(|flag| with_default(flag, &Kind::Compare.defaults())))]
pub(crate) struct CompareArgs {
    /// Start from the parameters in this file; flags override them
    #[arg(value_name = "FILE.toml", conflicts_with_all = ["resume", "extend", "preset"])]
    config: Option<PathBuf>,

    /// Start from a comparison that has a name: see `agewise presets`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "extend"])]
    preset: Option<String>,

    #[command(flatten)]
    place: DataDir,

    #[command(flatten)]
    experiment: ExperimentArgs,

    #[command(flatten)]
    own: OwnArgs,

    #[command(flatten)]
    training: TrainingArgs,

    #[command(flatten)]
    clock: ClockArgs,

    #[command(flatten)]
    run: RunArgs,

    /// Instruction set of the training kernels: avx512, avx2 or portable. They differ in speed, not in a single bit [default: the
    /// fastest of this machine, or AGEWISE_KERNELS]
    #[arg(long, value_name = "PATH", help_heading = "The run")]
    kernels: Option<Backend>,

    // A flag of the command that comes with the Python package, which takes it away before it calls this one.
    #[arg(long, value_name = "TRACKER", hide = true)]
    track: Option<String>,
}

/// What only comparisons have.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Clients and policies")]
struct OwnArgs {
    /// The policy with which the others are compared [default: random, or else the first]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,

    /// How data sizes are spread over clients: equal, zipf:A or lognormal:S
    #[arg(long, value_name = "DISTRIBUTION")]
    sizes: Option<String>,

    /// How updates become a model: mean, median, trimmed-mean(trim=0.2), each with clip_norm=C if wished, and behind a +
    /// momentum(beta=0.9) or adam(learning_rate=0.01)
    #[arg(long = "aggregate", value_name = "RULE", value_parser = parse::<AggregationParams>)]
    aggregation: Option<AggregationParams>,
}

/// What is trained. The fields have the names of the table `[training]`.
// Flags are independent of each other, whatever their number.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
struct TrainingArgs {
    /// The data set: digits (embedded), mnist, fashion-mnist, cifar-10, cifar-100 or audiomnist; or data of your own: a
    /// .csv, a .parquet, an .npz, an idx file or a folder of pictures
    #[arg(long, value_name = "NAME|FILE")]
    data: Option<String>,

    /// How pixels become numbers: unit or standardised
    #[arg(long, value_name = "SCALE", value_parser = parse::<PixelScale>)]
    pixels: Option<PixelScale>,

    /// How labels are spread over clients: iid, dirichlet:ALPHA or shards:K; or clients[:COLUMN], the clients of the data
    #[arg(long, value_name = "DISTRIBUTION")]
    partition: Option<String>,

    /// How fast clients train in simulated time: equal, lognormal:S, phones or phones-by-model, each with @MEDIAN behind it
    /// for another median than 1000 samples per second; or FILE.csv:COLUMN
    #[arg(long, value_name = "DISTRIBUTION")]
    speeds: Option<String>,

    /// The model: softmax, linear, mlp:64,32, 2nn, cnn or cnn-cifar; layer by layer in a file
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Passes over its data that a client trains in a round
    #[arg(long, conflicts_with = "steps", allow_negative_numbers = true)]
    #[serde(skip)]
    epochs: Option<u32>,

    /// Batches that a client trains in a round
    #[arg(long, allow_negative_numbers = true)]
    #[serde(skip)]
    steps: Option<u32>,

    /// Samples of a batch
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    batch: Option<u32>,

    /// Learning rate in the first round
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    learning_rate: Option<f64>,

    /// The learning rate is multiplied by this from round to round
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    decay: Option<f64>,

    /// Momentum of local training
    #[arg(long, allow_negative_numbers = true)]
    momentum: Option<f64>,

    /// L2 penalty
    #[arg(long, allow_negative_numbers = true)]
    weight_decay: Option<f64>,

    /// FedProx: pull towards the global model
    #[arg(long, allow_negative_numbers = true)]
    proximal: Option<f64>,

    /// Random crops and mirrored images while training
    #[arg(long)]
    #[serde(skip_serializing_if = "Not::not")]
    augment: bool,

    /// Rounds from one evaluation to the next
    #[arg(long, value_name = "ROUNDS", value_parser = whole_number::parse, allow_negative_numbers = true)]
    eval_every: Option<u64>,

    /// The first round after which there is an evaluation
    #[arg(long, value_name = "ROUND", value_parser = whole_number::parse, allow_negative_numbers = true)]
    eval_from: Option<u64>,

    /// Test accuracies (losses, where numbers are predicted), separated by commas: how many rounds until each is reached?
    #[arg(
        id = "targets",
        long = "target",
        value_name = "ACCURACY,...",
        allow_hyphen_values = true
    )]
    #[arg(value_delimiter = ',', value_parser = target)]
    targets: Option<Vec<f64>>,

    /// End a run when it has reached the last target
    #[arg(long)]
    #[serde(skip_serializing_if = "Not::not")]
    stop_at_target: bool,

    /// Estimate the selection skew (Definition 1): local optima of all clients, losses of all clients in every round
    #[arg(long)]
    #[serde(skip_serializing_if = "Not::not")]
    skew: bool,

    /// Draw the convergence bound of Theorem 1 over the measured error (softmax with weight decay); trains with the
    /// theorem's own learning rate
    #[arg(long, conflicts_with_all = ["learning_rate", "decay"])]
    #[serde(skip_serializing_if = "Not::not")]
    bound: bool,

    // At the end, because its heading stays for what follows.
    #[command(flatten)]
    #[serde(flatten)]
    files: FileArgs,
}

/// Runs the command.
pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    if let Some(track) = &args.track {
        return Err(Failure::BadInput(format!(
            "track = {track}: expected none, as trackers are packages of Python: the command `agewise` of the Python \
             package has this flag, and agewise.track_run(FOLDER, \"{track}\") logs a run of this program (docs/python.md)"
        )));
    }
    if let Some(kernels) = args.kernels {
        kernels.choose();
    }
    let kind = Kind::Compare;
    let params = match (&args.config, &args.preset) {
        (Some(path), _) => Some(kind.read_file(path)?),
        (None, Some(name)) => Some(presets::named(name)?.params),
        (None, None) => None,
    };
    let mut flags = args.experiment.table()?;
    flags.extend(table_of(&args.own)?);
    let training = table_of(&args.training)?;
    if !training.is_empty() {
        flags.insert("training".to_string(), Value::Table(training));
    }
    let clock = table_of(&args.clock)?;
    if !clock.is_empty() {
        flags.insert("clock".to_string(), Value::Table(clock));
    }
    let work = [(args.training.epochs, "epochs"), (args.training.steps, "steps")];
    for (count, unit) in work.into_iter().filter_map(|(count, unit)| Some((count?, unit))) {
        set(&mut flags, "training", "local_work", format!("{count} {unit}"));
    }
    let (run, experiment) = (&args.run, &args.experiment);
    Request { kind, run, params, experiment, flags, folders: args.place.folders() }.run()
}

fn target(text: &str) -> Result<f64, Error> {
    let wrong = || Error::new("target", text, "accuracies such as 0.8,0.85");
    text.trim().parse().map_err(|_| wrong())
}
