//! `agewise theory`: what the policies do to a population, in closed form.

use super::run_args::{EMPTY_COHORTS, max_age};
use super::{Failure, print, print_json, sizes, table, whole_number};
use agewise_core::theory::PhaseTheory;
use agewise_core::{
    EmptyCohort, MaxAge, PolicySpec, Seed, Setting, SettingParams, Weighting, find_policy,
};
use agewise_experiment::ExperimentParams;
use agewise_report::format::number;
use agewise_report::theory::{PolicyReport, TheoryReport, TheoryRequest, default_policies};
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;

const ABOUT: &str = "Show what each policy does to your clients, in closed form";

const TEACHING: &str = "\
Show what each policy does to your clients, in closed form: nothing is simulated, a billion clients of \
equal size take less than a second.

The age of a client is the number of rounds since its last accepted report. For each policy:

  E[X], Var[X]  X is the number of rounds from one participation of a client to its next. Policies select \
a client every n/m rounds on average; the variance says how even the load is. Random selection has \
n(n-m)/m^2; the least possible is c(1-c), c being the fraction of n/m.
  Sigma         the sum over clients of the variance of the aggregation weight, by which a policy \
enters the variance term of the convergence bound (Theorem 1). With equal weights it is at least 1/m - 1/n.
  cohort sd     how much the number of clients per round varies. With clients that decide alone it is \
that of a binomial distribution, with `phased` nearly 0.
  longest wait  the longest possible X.";

const EXAMPLES: &str = "\
Examples:
  # The setting of the paper
  agewise theory
  agewise theory --clients 1e9 --cohort 1e6
  agewise theory --sizes zipf:2.0 \\
    --policy random,probabilistic,oldest-first
  agewise theory --figure laws.png --policy \\
    'markov-optimal,markov-custom(p=[0, 0.1, 0.5, 1])'
  agewise theory --policy markov-optimal --cold-start 30
  agewise theory --json | python3 -m json.tool";

#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
pub(crate) struct TheoryArgs {
    /// n: the number of clients [1000000, 1_000_000 and 1e6 are all fine]
    #[arg(long, value_name = "N", default_value_t = ExperimentParams::default().clients,
          value_parser = whole_number::parse, allow_negative_numbers = true)]
    clients: u64,

    /// m: how many clients train in a round, on average
    #[arg(long, value_name = "M", default_value_t = ExperimentParams::default().cohort,
          value_parser = whole_number::parse, allow_negative_numbers = true)]
    cohort: u64,

    /// m': the age at which an age law stops changing; older clients keep its last probability; auto: as large as n/m asks
    #[arg(long, value_name = "auto|AGE", default_value_t = ExperimentParams::default().max_age,
          value_parser = max_age, allow_negative_numbers = true)]
    max_age: MaxAge,

    /// Data sizes of the clients: equal, zipf:A (the paper has 2.0), lognormal:S, or a FILE of numbers
    #[arg(long, value_name = "DISTRIBUTION|FILE", default_value_t = ExperimentParams::default().sizes)]
    sizes: String,

    /// Policies, separated by commas; options in brackets, as in phased(reshuffle=0.05) [default: all]
    #[arg(long, value_name = "NAME,...")]
    policy: Option<String>,

    /// Weigh the clients of all policies this way [default: each policy's own, as in the paper]
    #[arg(long, value_name = "uniform|data-size|draw-count|unbiased")]
    weighting: Option<String>,

    /// If no client takes part in a round: force-one, a random client has to, as in the paper, or skip the round
    #[arg(long, value_parser = EMPTY_COHORTS, default_value = EMPTY_COHORTS[0])]
    empty_cohort: String,

    /// Seed for drawing the sizes
    #[arg(long, default_value_t = ExperimentParams::default().seed, value_parser = whole_number::parse,
          allow_negative_numbers = true)]
    seed: u64,

    /// Also show the cohort size of each age law in the first ROUNDS rounds when all ages start at 0
    #[arg(long, value_name = "ROUNDS", default_value = "0",
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    cold_start: u32,

    /// Draw the laws and the distributions of X into this file (.svg or .png)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,

    /// Replace a figure that exists
    #[arg(long)]
    force: bool,

    /// Print one JSON document with full precision instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &TheoryArgs) -> Result<(), Failure> {
    if let Some(path) = args.figure.as_ref().filter(|path| !args.force && path.exists()) {
        let shown = path.display();
        let message =
            format!("figure = {shown}: expected a file that does not exist yet, or --force");
        return Err(Failure::BadInput(message));
    }
    let report = TheoryReport::new(&request(args)?)?;
    if let Some(path) = &args.figure {
        report.figure().save(path)?;
    }
    if args.json {
        return print_json(&report);
    }
    let mut text = theory_table(&report);
    if args.cold_start > 0 {
        text += &cold_start_table(&report);
    }
    if let Some(path) = &args.figure {
        let _ = writeln!(text, "\nFigure: {}", path.display());
    }
    print(&text)
}

fn request(args: &TheoryArgs) -> Result<TheoryRequest, Failure> {
    let policies = match &args.policy {
        None => default_policies(),
        Some(list) => PolicySpec::parse_list(list)?,
    };
    for policy in &policies {
        find_policy(policy.name())?;
    }
    let weighting = args.weighting.as_deref().map(str::parse::<Weighting>).transpose()?;
    let skips = args.empty_cohort == EMPTY_COHORTS[1];
    let empty_cohort = if skips { EmptyCohort::Skip } else { EmptyCohort::ForceOne };
    let params = SettingParams {
        empty_cohort,
        ..SettingParams::new(args.clients, args.cohort, args.max_age)
    };
    // Check the numbers before sizes are drawn or read for them.
    let setting: Setting = params.clone().check()?;
    let described = sizes::load(&args.sizes, setting.clients(), Seed(args.seed))?;
    let setting = SettingParams { sizes: Some(described.sizes), ..params }.check()?;
    let sizes = described.description;
    Ok(TheoryRequest { setting, sizes, policies, weighting, cold_start_rounds: args.cold_start })
}

fn theory_table(report: &TheoryReport) -> String {
    let row = |policy: &PolicyReport| {
        let theory = &policy.theory;
        vec![
            policy.policy.clone(),
            number(theory.mean_interval),
            number(theory.var_interval),
            sigma(policy),
            policy.weighting.to_string(),
            number(theory.cohort_mean),
            number(theory.cohort_sd),
            theory.longest_wait.map_or("no bound".to_string(), |wait| wait.to_string()),
        ]
    };
    let columns =
        ["policy", "E[X]", "Var[X]", "Sigma", "weights", "cohort", "cohort sd", "longest wait"];
    let table = table::numbers(&columns, report.policies.iter().map(row));
    let (n, m) = (f64::from(report.clients), f64::from(report.cohort));
    let title = format!(
        "{} clients, {} per round, maximum age {}, sizes {}",
        report.clients, report.cohort, report.max_age, report.sizes
    );
    let mut text = format!("{}\n{table}\n", table::prose(&title));
    let width = report.policies.iter().map(|policy| policy.policy.len()).max().unwrap_or(0);
    for policy in &report.policies {
        text += &table::labelled(&policy.policy, width, &explanation(policy, m));
        text.push('\n');
    }
    let fraction = (n / m).fract();
    let costs = report.policies.iter().filter_map(|policy| {
        policy.max_age_cost.as_ref().map(|cost| format!("{}: {cost}.", policy.policy))
    });
    let mut notes = costs.collect::<Vec<String>>();
    notes.extend([
        format!(
            "X: rounds from one selection of a client to its next; n/m = {}, least possible Var[X] {}.",
            number(n / m),
            number(fraction * (1.0 - fraction))
        ),
        format!(
            "Sigma: sum of the variances of the weights; 1/m - 1/n = {} is the least with equal weights and m clients on \
             average.",
            number(report.sigma_floor)
        ),
    ]);
    if report.policies.iter().any(|policy| policy.theory.empty_probability > 1e-3) {
        notes.push(
            "Rounds in which no client takes part are not rare here. A forced client is not in E[X], Var[X] and cohort, and \
             only to first order in Sigma: take these as a guide, and simulate."
                .to_string(),
        );
    }
    if report.policies.iter().any(|policy| !policy.theory.sigma_exact) {
        notes.push(
            "~: computed with similar sizes taken together, or over part of a long period."
                .to_string(),
        );
    }
    for note in notes {
        let _ = write!(text, "\n{}", table::prose(&note));
    }
    text.push('\n');
    text
}

/// The policy's sentence, and what the figures of this setting add to it.
fn explanation(policy: &PolicyReport, target: f64) -> String {
    let theory = &policy.theory;
    let mut text = policy.summary.to_string();
    let off = (theory.cohort_mean - target).abs() > 0.001 * target;
    if off && theory.probabilities.is_some() {
        let _ = write!(text, " It calls {} clients per round.", number(theory.cohort_mean));
    }
    if let Some(phases) = &theory.phases {
        text += &in_step(phases);
    }
    if theory.empty_probability > 1e-6 {
        let chance = number(theory.empty_probability);
        let _ = write!(text, " A round is empty with probability {chance}.");
    }
    text
}

/// How long clients stay in step, and what a client gains by waiting.
fn in_step(phases: &PhaseTheory) -> String {
    let mut text = format!(
        " Two clients of one cohort are in the same cohort at their next participation with probability {}",
        number(phases.meet_again)
    );
    if let Some(correlation) = phases.cohort_correlation {
        let _ =
            write!(text, ", cohort sizes n/m rounds apart correlate by {}", number(correlation));
    }
    match phases.forgetting_rounds {
        Some(rounds) => {
            let _ = write!(text, ", and the mixing time is {} rounds", number(rounds));
        }
        None if phases.meet_again > 1.0 - 1e-9 => text += ", and the schedule never mixes",
        // The law is too long to tell.
        None => {}
    }
    text.push('.');
    if phases.greatest_probability < 1.0 {
        let chance = number(phases.greatest_probability);
        let _ = write!(
            text,
            " No client takes part with a probability above {chance}, however long it has waited."
        );
    }
    text
}

fn sigma(policy: &PolicyReport) -> String {
    match policy.theory.sigma {
        None => "-".to_string(),
        Some(sigma) if policy.theory.sigma_exact => number(sigma),
        Some(sigma) => format!("~{}", number(sigma)),
    }
}

fn cold_start_table(report: &TheoryReport) -> String {
    let started: Vec<&PolicyReport> =
        report.policies.iter().filter(|policy| !policy.cold_start.is_empty()).collect();
    if started.is_empty() {
        let text = "None of these policies is an age law: there is no cold start to show.";
        return format!("\n{}\n", table::prose(text));
    }
    let names = started.iter().map(|policy| policy.policy.as_str());
    let columns: Vec<&str> = std::iter::once("round").chain(names).collect();
    let rows = (0..started[0].cold_start.len()).map(|round| {
        let cells = started.iter().map(|policy| {
            let cold = &policy.cold_start[round];
            format!("{} [{}, {}]", number(cold.mean), cold.low, cold.high)
        });
        std::iter::once(round.to_string()).chain(cells).collect()
    });
    let table = table::numbers(&columns, rows);
    format!("\nClients per round from a cold start: mean [95% range]\n{table}")
}
