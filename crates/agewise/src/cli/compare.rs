//! `agewise compare`: policies side by side, by training.

use super::live::Live;
use super::run_args::RunArgs;
use super::simulate::StartArg;
use super::theory::EmptyCohortArg;
use super::{Failure, compare_table, config, count, print};
use crate::compare::{self, CompareError, Comparison, KEYS_LEFT_OUT, presets};
use crate::core::{Error, PolicySpec, Weighting};
use crate::data::folders;
use crate::run_folder::{CONFIG, FolderError, RunFolder};
use crate::sim::study::{Study, StudyParams};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ABOUT: &str = "Train with several policies side by side, and say what differs";

const TEACHING: &str = "\
Train with several policies side by side: which learns faster, which loads the clients more evenly, and is the \
difference real? Without arguments: the embedded digits, 100 clients of which 15 train per round, about two minutes.

Paired by design: for one seed every policy gets the same split, the same first model and the same client batches. \
Prints a table and writes a run folder: config.toml, rounds.csv, clients.csv, summary.json, models, TensorBoard event \
files, figures as SVG and PNG, and report.html, one page that explains what it shows.

Ctrl-C ends it with what there is; --resume RUN goes on and ends with the same bytes as if nothing had happened.";

const EXAMPLES: &str = "\
Examples:
  agewise compare
  agewise compare --policy random,oldest-first,phased --seeds 20
  agewise compare --policy markov-optimal@cold,markov-optimal --baseline markov-optimal@cold
  agewise compare --weighting uniform --sizes zipf:2.0      same weights, other selection
  agewise compare my-study.toml --rounds 300
  agewise compare --preset paper-mnist-noniid-steps --data-dir DIR
  agewise compare --resume runs/compare-001                 go on where it was interrupted";

// Flags are independent of each other, whatever their number.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Start from the parameters in this file; flags override them
    #[arg(value_name = "FILE.toml", conflicts_with_all = ["resume", "preset"])]
    config: Option<PathBuf>,

    /// Start from a comparison that has a name: see `agewise presets`
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    preset: Option<String>,

    /// The data set: digits (embedded), mnist, fashion-mnist, cifar-10, cifar-100 [default: digits]
    #[arg(long, value_name = "NAME")]
    data: Option<String>,

    /// A folder with data sets, looked into before AGEWISE_DATA and the default folder
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// How pixels become numbers: unit or standardised [default: standardised]
    #[arg(long, value_name = "SCALE")]
    pixels: Option<String>,

    /// How labels are spread over clients: iid, dirichlet:ALPHA or shards:K [default: dirichlet:0.3]
    #[arg(long, value_name = "LAW")]
    partition: Option<String>,

    /// How data sizes are spread over clients: equal, zipf:A or lognormal:S [default: equal]
    #[arg(long, value_name = "LAW")]
    sizes: Option<String>,

    /// How fast clients train in simulated time: equal or lognormal:S [default: equal]
    #[arg(long, value_name = "LAW")]
    speeds: Option<String>,

    /// n: the number of clients [default: 100]
    #[arg(long, value_name = "N", value_parser = count::parse, allow_negative_numbers = true)]
    clients: Option<u64>,

    /// m: clients per round [default: 15]
    #[arg(long, value_name = "M", value_parser = count::parse, allow_negative_numbers = true)]
    cohort: Option<u64>,

    /// m': the age at which an age law stops changing [default: 10]
    #[arg(long, value_name = "AGE", value_parser = count::parse, allow_negative_numbers = true)]
    max_age: Option<u64>,

    /// Policies, separated by commas; @cold or @stationary behind a name sets its first ages
    /// [default: the paper's four, oldest-first and age-herding]
    #[arg(long, value_name = "NAME,...")]
    policy: Option<String>,

    /// The policy with which the others are compared [default: random]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,

    /// Weigh the clients of all policies this way [default: each policy's own]
    #[arg(long, value_name = "uniform|data-size|draw-count|unbiased")]
    weighting: Option<String>,

    /// Ages at the beginning: drawn from each policy's steady state, or all 0 as in the paper
    #[arg(long, value_enum)]
    start: Option<StartArg>,

    /// What happens if nobody takes part in a round
    #[arg(long, value_enum)]
    empty_cohort: Option<EmptyCohortArg>,

    /// The model: softmax, 2nn, cnn or cnn-cifar [default: 2nn]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Passes over its data that a client trains in a round
    #[arg(long, conflicts_with = "steps", allow_negative_numbers = true)]
    epochs: Option<u32>,

    /// Batches that a client trains in a round [default: 5]
    #[arg(long, allow_negative_numbers = true)]
    steps: Option<u32>,

    /// Samples of a batch [default: 20]
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    batch: Option<u32>,

    /// Learning rate in the first round [default: 0.1]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    learning_rate: Option<f64>,

    /// The learning rate is multiplied by this from round to round [default: 0.998]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    decay: Option<f64>,

    /// Momentum of local training [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    momentum: Option<f64>,

    /// L2 penalty [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    weight_decay: Option<f64>,

    /// FedProx: pull towards the global model [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    proximal: Option<f64>,

    /// Random crops and mirrored images while training
    #[arg(long)]
    augment: bool,

    /// Rounds to train, at most [default: 100]
    #[arg(long, value_parser = count::parse, allow_negative_numbers = true)]
    rounds: Option<u64>,

    /// Rounds from one evaluation to the next [default: 1]
    #[arg(long, value_name = "ROUNDS", value_parser = count::parse, allow_negative_numbers = true)]
    eval_every: Option<u64>,

    /// The first round after which there is an evaluation [default: 1]
    #[arg(long, value_name = "ROUND", value_parser = count::parse, allow_negative_numbers = true)]
    eval_from: Option<u64>,

    /// Test accuracies, separated by commas: how many rounds until each is reached? [default: 0.85,0.9]
    #[arg(long, value_name = "ACCURACY,...", allow_hyphen_values = true)]
    target: Option<String>,

    /// End a run when it has reached the last target
    #[arg(long)]
    stop_at_target: bool,

    /// The first seed [default: 0]
    #[arg(long, value_parser = count::parse, allow_negative_numbers = true)]
    seed: Option<u64>,

    /// How many seeds; two or more give intervals [default: 12]
    #[arg(long, value_parser = count::parse, allow_negative_numbers = true)]
    seeds: Option<u64>,

    /// Estimate the selection skew (Definition 1): local optima of all clients, losses of all clients in every round
    #[arg(long)]
    skew: bool,

    /// Draw the convergence bound of Theorem 1 over the measured error (softmax with weight decay); trains with the
    /// theorem's own learning rate
    #[arg(long, conflicts_with_all = ["learning_rate", "decay"])]
    bound: bool,

    #[command(flatten)]
    run: RunArgs,
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        let message = error.to_string();
        match error {
            CompareError::Folder(error) if error.is_bad_name() => Self::BadInput(message),
            CompareError::Input(_) | CompareError::Unreadable(_) => Self::BadInput(message),
            CompareError::Data(error) => error.into(),
            CompareError::Draw(error) => error.into(),
            CompareError::Folder(_) => Self::Trouble(message),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (study, folder) = match &args.run.resume {
        Some(path) => begun_before(args, path)?,
        None => begin(args)?,
    };
    // Held until the end.
    let _lock = folder.lock()?;
    let threads = args.run.threads.map_or_else(cores, usize::from);
    let stop = stop_on_interrupt()?;
    let live = Live::new(&study, args.run.quiet);
    let comparison = Comparison::play(study, &folder, threads, &live, &stop);
    live.finish();
    let comparison = comparison.map_err(|error| hint(error, &folder))?;
    let summary = comparison.summary();
    comparison.write(&folder, &summary).map_err(|error| hint(error, &folder))?;
    if args.run.json {
        print(&compare::pretty(&summary)?)?;
    } else {
        print(&compare_table::text(&comparison, &summary, &folder)?)?;
    }
    if comparison.is_finished() {
        return Ok(());
    }
    Err(Failure::Interrupted(format!("stopped early; {}", resume_hint(&folder))))
}

fn resume_hint(folder: &RunFolder) -> String {
    format!("go on with `agewise compare --resume {}`", folder.path().display())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a folder that cannot be written to means for the run, and what to do.
fn hint(error: CompareError, folder: &RunFolder) -> Failure {
    match error {
        CompareError::Folder(FolderError::Io(..)) => Failure::Trouble(format!(
            "{error}\nNothing that was written is lost: {}",
            resume_hint(folder)
        )),
        error => error.into(),
    }
}

/// A flag that is set by the first Ctrl-C; the second one ends the program at once.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Trouble(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(stop)
}

fn begin(args: &CompareArgs) -> Result<(Study, RunFolder), Failure> {
    let params = match (&args.config, &args.preset) {
        (Some(path), _) => config::read(path, KEYS_LEFT_OUT)?,
        (None, Some(name)) => presets::named(name)?.params,
        (None, None) => StudyParams::default(),
    };
    let params = with_flags(args, params)?;
    let study = compare::prepare(params, &folders(args.data_dir.as_deref()))?;
    let folder = RunFolder::create(args.run.out.as_deref(), "compare", args.run.force)?;
    // With --force there may be a run in it, and someone may be working on that.
    let _lock = if folder.path().join(CONFIG).exists() { Some(folder.lock()?) } else { None };
    compare::clear(&folder)?;
    compare::write_config(study.params(), &folder)?;
    Ok((study, folder))
}

fn begun_before(args: &CompareArgs, path: &Path) -> Result<(Study, RunFolder), Failure> {
    let folder = RunFolder::open(path)?;
    let params: StudyParams = config::read(&path.join(CONFIG), KEYS_LEFT_OUT)?;
    if with_flags(args, params.clone())? != params {
        let message = "resume: the run goes on as it was begun; expected no flags that change it";
        return Err(Failure::BadInput(message.to_string()));
    }
    Ok((compare::prepare(params, &folders(args.data_dir.as_deref()))?, folder))
}

/// What the flags say instead.
fn with_flags(args: &CompareArgs, mut params: StudyParams) -> Result<StudyParams, Failure> {
    fn set<T: Clone>(param: &mut T, flag: Option<&T>) {
        if let Some(flag) = flag {
            param.clone_from(flag);
        }
    }
    let counts = [
        (&mut params.clients, args.clients),
        (&mut params.cohort, args.cohort),
        (&mut params.max_age, args.max_age),
        (&mut params.rounds, args.rounds),
        (&mut params.eval_every, args.eval_every),
        (&mut params.eval_from, args.eval_from),
        (&mut params.seed, args.seed),
    ];
    for (param, flag) in counts {
        set(param, flag.as_ref());
    }
    let texts = [
        (&mut params.data, &args.data),
        (&mut params.partition, &args.partition),
        (&mut params.sizes, &args.sizes),
        (&mut params.speeds, &args.speeds),
        (&mut params.baseline, &args.baseline),
        (&mut params.model, &args.model),
    ];
    for (param, flag) in texts {
        set(param, flag.as_ref());
    }
    let numbers = [
        (&mut params.learning_rate, args.learning_rate),
        (&mut params.decay, args.decay),
        (&mut params.momentum, args.momentum),
        (&mut params.weight_decay, args.weight_decay),
        (&mut params.proximal, args.proximal),
    ];
    for (param, flag) in numbers {
        set(param, flag.as_ref());
    }
    set(&mut params.batch, args.batch.as_ref());
    let work = [(args.epochs, "epochs"), (args.steps, "steps")];
    if let Some((count, unit)) = work.into_iter().find_map(|(count, unit)| Some((count?, unit))) {
        params.local_work = format!("{count} {unit}");
    }
    if let Some(seeds) = args.seeds {
        let expected = "a whole number from 1 to 10000";
        params.seeds = u32::try_from(seeds).map_err(|_| Error::new("seeds", seeds, expected))?;
    }
    if let Some(list) = &args.policy {
        let entries = PolicySpec::split_list(list);
        params.policies = entries.into_iter().map(|entry| entry.trim().to_string()).collect();
        // The usual baseline may not be among them.
        if args.baseline.is_none() && !params.policies.contains(&params.baseline) {
            params.baseline = params.policies.first().cloned().unwrap_or_default();
        }
    }
    if let Some(text) = &args.weighting {
        params.weighting = Some(text.parse::<Weighting>()?);
    }
    if let Some(text) = &args.pixels {
        params.pixels = text.parse()?;
    }
    if let Some(start) = args.start {
        params.start = start.into();
    }
    if let Some(rule) = args.empty_cohort {
        params.empty_cohort = rule.into();
    }
    if let Some(text) = &args.target {
        params.targets = text.split(',').map(target).collect::<Result<_, _>>()?;
    }
    params.stop_at_target |= args.stop_at_target;
    params.augment |= args.augment;
    params.skew |= args.skew;
    params.bound |= args.bound;
    Ok(params)
}

fn target(text: &str) -> Result<f64, Failure> {
    let wrong = || Error::new("target", text, "accuracies such as 0.8,0.85");
    Ok(text.trim().parse().map_err(|_| wrong())?)
}
