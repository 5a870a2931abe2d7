//! `agewise simulate`: how the policies load a population, by playing it.

use super::progress::Progress;
use super::run_args::RunArgs;
use super::table::table;
use super::{Failure, config, count, print, sizes};
use crate::core::{EmptyCohort, PolicySpec, Start, Weighting};
use crate::format::{number, with_half_width};
use crate::run_folder::{CONFIG, FolderError, RunFolder};
use crate::sim::{PolicySummary, Simulation, SimulationParams};
use crate::simulate::{
    Finished, SimulateError, clear, is_complete, pretty, side_by_side, write_config,
};
use clap::{Args, ValueEnum};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const ABOUT: &str = "Simulate how the policies load your clients, without training anything";

const TEACHING: &str = "\
Simulate how the policies load your clients, without training anything: the policies side by side, on common \
random numbers, calm or with clients that are offline, drop out, join and leave.

Prints a table and writes a run folder: config.toml (run it again with --config), summary.json, rounds.csv, \
intervals.csv, windows.csv, figures as SVG and PNG, and report.html, one page that explains what it shows.";

const EXAMPLES: &str = "\
Examples:
  agewise simulate --sizes zipf:2.0                     the paper's experiment
  agewise simulate --seeds 20                           with 95% intervals
  agewise simulate --policy markov-optimal --start cold
  agewise simulate --clients 1e6 --cohort 150000 --rounds 200 --policy markov-optimal,oldest-first
  agewise simulate --availability on-off:20,8 --dropout 0.1 --policy markov-optimal --calibrate
  agewise simulate --resume runs/simulate-001           go on where it was interrupted";

// Flags are independent of each other, whatever their number.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    /// Start from the parameters in this file; flags override them
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    config: Option<PathBuf>,

    /// n: clients at the beginning [default: 100]
    #[arg(long, value_name = "N", value_parser = count::parse, allow_negative_numbers = true)]
    clients: Option<u64>,

    /// m: clients per round [default: 15]
    #[arg(long, value_name = "M", value_parser = count::parse, allow_negative_numbers = true)]
    cohort: Option<u64>,

    /// m': the age at which an age law stops changing [default: 10]
    #[arg(long, value_name = "AGE", value_parser = count::parse, allow_negative_numbers = true)]
    max_age: Option<u64>,

    /// Rounds to play [default: 1000]
    #[arg(long, value_parser = count::parse, allow_negative_numbers = true)]
    rounds: Option<u64>,

    /// Rounds at the beginning that are played and not recorded [default: 0]
    #[arg(long, value_name = "ROUNDS", value_parser = count::parse, allow_negative_numbers = true)]
    warmup: Option<u64>,

    /// Data sizes: equal, zipf:A (the paper has 2.0), lognormal:S, or a FILE of numbers [default: equal]
    #[arg(long, value_name = "LAW|FILE")]
    sizes: Option<String>,

    /// Policies, separated by commas [default: the paper's four, oldest-first and phased]
    #[arg(long, value_name = "NAME,...")]
    policy: Option<String>,

    /// Weigh the clients of all policies this way [default: each policy's own]
    #[arg(long, value_name = "uniform|data-size|draw-count|unbiased")]
    weighting: Option<String>,

    /// Ages at the beginning: drawn from each policy's steady state, or all 0 as in the paper
    #[arg(long, value_enum)]
    start: Option<StartArg>,

    /// What happens if nobody takes part in a round
    #[arg(long, value_enum)]
    empty_cohort: Option<super::theory::EmptyCohortArg>,

    /// The first seed; sizes are drawn from it too [default: 0]
    #[arg(long, value_parser = count::parse, allow_negative_numbers = true)]
    seed: Option<u64>,

    /// How many seeds; two or more give 95% intervals [default: 1]
    #[arg(long, value_parser = count::parse, allow_negative_numbers = true)]
    seeds: Option<u64>,

    /// When clients are online: always, bernoulli:P, on-off:UP,DOWN or diurnal:PERIOD,DEPTH (in rounds)
    #[arg(long, value_name = "MODEL")]
    availability: Option<String>,

    /// The probability that a selected client never reports; its age is not reset
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    dropout: Option<f64>,

    /// Clients that join per round, as a share of the first population, and the probability that a client
    /// leaves for good in a round
    #[arg(long, value_name = "JOIN,LEAVE", allow_hyphen_values = true)]
    churn: Option<String>,

    /// Let age laws learn the target interval from the number of reports
    #[arg(long)]
    calibrate: bool,

    #[command(flatten)]
    run: RunArgs,
}

/// Keys of a configuration that are not written where they are empty.
const KEYS_LEFT_OUT: &[&str] = &["weighting", "size_list"];

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StartArg {
    /// Each first age is drawn from the policy's steady state
    Stationary,
    /// All ages are 0
    Cold,
}

impl From<StartArg> for Start {
    fn from(start: StartArg) -> Self {
        match start {
            StartArg::Stationary => Self::Stationary,
            StartArg::Cold => Self::Cold,
        }
    }
}

impl From<SimulateError> for Failure {
    fn from(error: SimulateError) -> Self {
        let message = error.to_string();
        match error {
            SimulateError::Folder(error) if error.is_bad_name() => Self::BadInput(message),
            SimulateError::Input(_) => Self::BadInput(message),
            SimulateError::Draw(error) => error.into(),
            SimulateError::Folder(_) | SimulateError::Unreadable(_) | SimulateError::Stopped => {
                Self::Trouble(message)
            }
        }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        SimulateError::Folder(error).into()
    }
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    match args.run.threads {
        None => run_here(args),
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(usize::from(threads))
            .build()
            .map_err(|error| Failure::Trouble(format!("cannot start {threads} threads: {error}")))?
            .install(|| run_here(args)),
    }
}

fn run_here(args: &SimulateArgs) -> Result<(), Failure> {
    let (simulation, folder) = match &args.run.resume {
        Some(path) => begun_before(args, path)?,
        None => begin(args)?,
    };
    if args.run.resume.is_some() && is_complete(&folder)? {
        return print(&format!("{} is complete already.\n", folder.path().display()));
    }
    let params = simulation.params();
    let runs = simulation.policies().len() as u64 * u64::from(params.seeds);
    let progress = Progress::new(runs * params.rounds, "simulating", args.run.quiet);
    let advance = |rounds: u64| {
        progress.advance(rounds);
        true
    };
    let finished = Finished::play(simulation, Some(&folder), &advance)?;
    progress.finish();
    finished.write(&folder)?;
    if args.run.json {
        return print(&pretty(&finished.summary)?);
    }
    print(&text(&finished, &folder))
}

fn begin(args: &SimulateArgs) -> Result<(Simulation, RunFolder), Failure> {
    let params = match &args.config {
        Some(path) => config::read(path, KEYS_LEFT_OUT)?,
        None => SimulationParams::default(),
    };
    let simulation = with_flags(args, params)?.check()?;
    check_memory(&simulation)?;
    let folder = RunFolder::create(args.run.out.as_deref(), "simulate", args.run.force)?;
    clear(&folder)?;
    write_config(&simulation, &folder)?;
    Ok((simulation, folder))
}

/// Refuses what cannot fit, before it takes the machine down; says nothing where the memory is not known.
fn check_memory(simulation: &Simulation) -> Result<(), Failure> {
    let needed = simulation.memory(side_by_side(simulation));
    let Some(available) = available_memory() else {
        return Ok(());
    };
    if needed <= available {
        return Ok(());
    }
    let params = simulation.params();
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    Err(Failure::BadInput(format!(
        "clients = {}, rounds = {}, policies = {}, seeds = {}: expected a simulation that fits into the {:.1} GB of \
         memory that are free; this one takes about {:.1} GB",
        params.clients,
        params.rounds,
        params.policies.len(),
        params.seeds,
        gigabytes(available),
        gigabytes(needed)
    )))
}

/// What the system says can be used without swapping.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn begun_before(args: &SimulateArgs, path: &Path) -> Result<(Simulation, RunFolder), Failure> {
    let folder = RunFolder::open(path)?;
    let params: SimulationParams = config::read(&path.join(CONFIG), KEYS_LEFT_OUT)?;
    if with_flags(args, params.clone())? != params {
        let message = "resume: the run goes on as it was begun; expected no flags that change it";
        return Err(Failure::BadInput(message.to_string()));
    }
    Ok((params.check()?, folder))
}

/// What the flags say instead.
fn with_flags(
    args: &SimulateArgs,
    mut params: SimulationParams,
) -> Result<SimulationParams, Failure> {
    let numbers = [
        (&mut params.clients, args.clients),
        (&mut params.cohort, args.cohort),
        (&mut params.max_age, args.max_age),
        (&mut params.rounds, args.rounds),
        (&mut params.warmup, args.warmup),
        (&mut params.seed, args.seed),
    ];
    for (param, flag) in numbers {
        *param = flag.unwrap_or(*param);
    }
    if let Some(seeds) = args.seeds {
        params.seeds = u32::try_from(seeds).map_err(|_| {
            Failure::BadInput(format!("seeds = {seeds}: expected a whole number from 1 to 10000"))
        })?;
    }
    if let Some(list) = &args.policy {
        let policies = PolicySpec::parse_list(list)?;
        params.policies = policies.iter().map(PolicySpec::to_string).collect();
    }
    if let Some(text) = &args.weighting {
        params.weighting = Some(text.parse::<Weighting>()?);
    }
    if let Some(start) = args.start {
        params.start = start.into();
    }
    if let Some(rule) = args.empty_cohort {
        params.empty_cohort = EmptyCohort::from(rule);
    }
    if let Some(model) = &args.availability {
        params.availability.clone_from(model);
    }
    if let Some(dropout) = args.dropout {
        params.dropout = dropout;
    }
    if let Some(churn) = &args.churn {
        (params.join, params.leave) = parse_churn(churn)?;
    }
    params.calibrate |= args.calibrate;
    if let Some(text) = &args.sizes {
        (params.sizes, params.size_list) = sizes::law_or_list(text)?;
    }
    Ok(params)
}

fn parse_churn(text: &str) -> Result<(f64, f64), Failure> {
    let parse = |number: &str| number.trim().parse::<f64>().ok();
    let pair = text.split_once(',').and_then(|(join, leave)| Some((parse(join)?, parse(leave)?)));
    pair.ok_or_else(|| {
        let expected =
            "two numbers such as 0.045,0.01: the share that joins and the chance to leave";
        Failure::BadInput(format!("churn = {text}: expected {expected}"))
    })
}

fn text(finished: &Finished, folder: &RunFolder) -> String {
    let columns = [
        "policy",
        "E[X]",
        "Var[X]",
        "Sigma",
        "in theory",
        "cohort",
        "sd",
        "range",
        "Jain",
        "never",
        "longest wait",
    ];
    let table = table(columns, 1..=10, finished.summary.policies.iter().map(row));
    let params = finished.simulation.params();
    let mut text = format!(
        "{} clients, {} per round, maximum age {}, sizes {}, {} rounds, {} {}\n{table}\n",
        params.clients,
        params.cohort,
        params.max_age,
        finished.simulation.sizes(),
        params.rounds,
        params.seeds,
        if params.seeds == 1 { "seed" } else { "seeds" },
    );
    if params.seeds > 1 {
        text += "Means over seeds ± half of the 95% interval.\n";
    }
    text += "X: rounds between two selections of a client. Sigma: sum of the variances of the weights. Jain: 1 \
             if all\nclients take part equally often. Never: clients that never took part.\n";
    let _ = writeln!(text, "\nReport: {}", folder.path().join("report.html").display());
    text
}

fn row(policy: &PolicySummary) -> [String; 11] {
    let estimate = |name: &str, value: Option<f64>| {
        let half_width = policy.half_width.get(name).copied();
        value.map_or("-".to_string(), |value| with_half_width(value, half_width))
    };
    [
        policy.policy.clone(),
        estimate("mean_interval", policy.mean_interval),
        estimate("var_interval", policy.var_interval),
        estimate("sigma", policy.sigma),
        policy.sigma_theory.map_or("-".to_string(), number),
        estimate("cohort_mean", Some(policy.cohort_mean)),
        estimate("cohort_sd", Some(policy.cohort_sd)),
        format!("{}..{}", policy.cohort_min, policy.cohort_max),
        estimate("jain", policy.jain),
        estimate("never_selected", Some(policy.never_selected)),
        policy.longest_wait.to_string(),
    ]
}
