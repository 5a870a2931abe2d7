//! The flags that both kinds of experiments have.

use super::{Failure, whole_number};
use agewise_core::{Error, MaxAge, PolicySpec, Weighting};
use agewise_experiment::{ClockParams, ExperimentParams};
use clap::{Arg, Args};
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use std::str::FromStr;
use toml::{Table, Value};

/// The names of first ages.
const STARTS: [&str; 2] = ["stationary", "cold"];
/// The names of rules for a round in which no client takes part.
pub(crate) const EMPTY_COHORTS: [&str; 2] = ["force-one", "skip"];

/// Where a run goes, and how it is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
pub(crate) struct RunArgs {
    /// The folder of the run [default: a new one under runs/]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "extend"])]
    pub(crate) out: Option<PathBuf>,

    /// Write into a folder that is not empty; a run in it is cleared
    #[arg(long, conflicts_with_all = ["resume", "extend"], requires = "out")]
    pub(crate) force: bool,

    /// Finish a run that was interrupted
    #[arg(long, value_name = "RUN", conflicts_with = "extend")]
    pub(crate) resume: Option<PathBuf>,

    /// Extend a run by more --seeds, more --rounds or further policies (--policy); only what is missing is played
    #[arg(long, value_name = "RUN")]
    pub(crate) extend: Option<PathBuf>,

    /// Threads to use [default: all cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Print the summary as one JSON document instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not show progress
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// What is played, whether anything is trained or not. The fields have the names of the configuration.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Clients and policies")]
pub(crate) struct ExperimentArgs {
    /// n: clients at the beginning
    #[arg(long, value_name = "N", value_parser = whole_number::parse, allow_negative_numbers = true)]
    clients: Option<u64>,

    /// m: clients per round
    #[arg(long, value_name = "M", value_parser = whole_number::parse, allow_negative_numbers = true)]
    cohort: Option<u64>,

    /// m': the age at which an age law stops changing; auto: as large as n/m asks
    #[arg(long, value_name = "auto|AGE", value_parser = max_age, allow_negative_numbers = true)]
    max_age: Option<MaxAge>,

    /// Policies, separated by commas; @cold or @stationary behind a name sets its first ages
    #[arg(id = "policies", long = "policy", value_name = "NAME,...")]
    #[serde(serialize_with = "split_list")]
    policies: Option<String>,

    /// Weigh the clients of all policies this way [default: each policy's own]
    #[arg(long, value_name = "uniform|data-size|draw-count|unbiased", value_parser = parse::<Weighting>)]
    weighting: Option<Weighting>,

    /// Ages at the beginning: stationary, drawn from each policy's steady state, or cold, all 0 as in the paper
    #[arg(long, value_parser = STARTS)]
    start: Option<String>,

    /// If no client takes part in a round: force-one, a random client has to, as in the paper, or skip the round
    #[arg(long, value_parser = EMPTY_COHORTS)]
    empty_cohort: Option<String>,

    /// Let age laws learn the target interval from the number of reports [default: where clients may be away, fail, join
    /// or leave]
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = parse_calibrate
    )]
    calibrate: Option<bool>,

    /// Make clients that fail repeatedly wait [default: on]
    #[arg(long, value_name = "on|off", value_parser = parse_backoff)]
    backoff: Option<bool>,

    /// Rounds to play, at most
    #[arg(long, value_parser = whole_number::parse, allow_negative_numbers = true)]
    rounds: Option<u64>,

    /// The first seed; data sizes are drawn from it too
    #[arg(long, value_parser = whole_number::parse, allow_negative_numbers = true)]
    seed: Option<u64>,

    /// How many seeds; two or more give 95% intervals
    #[arg(long, value_parser = whole_number::parse, allow_negative_numbers = true)]
    seeds: Option<u64>,

    #[command(flatten)]
    world: WorldArgs,
}

/// Reads a maximum age; numbers as people write them.
pub(crate) fn max_age(text: &str) -> Result<MaxAge, String> {
    if text == "auto" {
        return Ok(MaxAge::Auto);
    }
    let number = whole_number::parse(text).map(MaxAge::Fixed);
    number.map_err(|error| format!("{error}, or auto for as large as n/m asks"))
}

/// What happens to clients.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "The world")]
struct WorldArgs {
    /// When clients are online: always, bernoulli:P, on-off:UP,DOWN, diurnal:PERIOD,DEPTH, more-data-first:LEAST or
    /// slow-less:LEAST, in rounds; with the clock of `agewise compare` also in seconds: bernoulli:P,600s, on-off:3600s,600s, diurnal:86400s,0.8
    #[arg(long, value_name = "MODEL")]
    availability: Option<String>,

    /// The probability that a selected client never reports; its age is not reset
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    dropout: Option<f64>,

    /// The share of clients that are there, are selected and never report [default: 0]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    failing: Option<f64>,

    /// Clients that join per round, as a share of the first population
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    join: Option<f64>,

    /// The probability that a client leaves for good in a round
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    leave: Option<f64>,

    /// The same as --join JOIN --leave LEAVE
    #[arg(long, value_name = "JOIN,LEAVE", allow_hyphen_values = true, conflicts_with_all = ["join", "leave"])]
    #[serde(skip)]
    churn: Option<String>,
}

impl ExperimentArgs {
    /// The policies that were named.
    pub(crate) fn policies(&self) -> Option<Vec<String>> {
        let entries = |list: &String| {
            PolicySpec::split_list(list).iter().map(|entry| entry.trim().to_string()).collect()
        };
        self.policies.as_ref().map(entries)
    }

    /// What the flags say instead of a file or the defaults, as a table of a configuration.
    pub(crate) fn table(&self) -> Result<Table, Failure> {
        if let Some(seeds) = self.seeds.filter(|&seeds| seeds > u64::from(u32::MAX)) {
            return Err(Error::new("seeds", seeds, "a whole number from 1 to 10000").into());
        }
        let mut table = table_of(self)?;
        if let Some(churn) = &self.world.churn {
            let (join, leave) = parse_churn(churn)?;
            set(&mut table, "world", "join", join);
            set(&mut table, "world", "leave", leave);
        }
        // An empty table would stand in a configuration that has none.
        table.retain(|_, value| value.as_table().is_none_or(|inner| !inner.is_empty()));
        Ok(table)
    }
}

/// Flags as a table, without those that were not given.
pub(crate) fn table_of(flags: &impl Serialize) -> Result<Table, Failure> {
    Table::try_from(flags).map_err(|error| Failure::BadInput(error.to_string()))
}

/// Sets a key of an inner table.
pub(crate) fn set(table: &mut Table, inner: &str, key: &str, value: impl Into<Value>) {
    let inner = table.entry(inner).or_insert_with(|| Value::Table(Table::new()));
    if let Some(inner) = inner.as_table_mut() {
        inner.insert(key.to_string(), value.into());
    }
}

/// Reads a value in the core's own words.
pub(crate) fn parse<T: FromStr<Err = Error>>(text: &str) -> Result<T, Error> {
    text.parse()
}

#[allow(clippy::ref_option, reason = "serde asks with a reference")]
fn split_list<S: Serializer>(list: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let entries = list.as_deref().map(PolicySpec::split_list);
    let trimmed =
        entries.map(|entries| entries.iter().map(|entry| entry.trim()).collect::<Vec<_>>());
    trimmed.serialize(serializer)
}

fn parse_backoff(text: &str) -> Result<bool, Error> {
    parse_switch("backoff", text)
}

fn parse_calibrate(text: &str) -> Result<bool, Error> {
    parse_switch("calibrate", text)
}

fn parse_switch(field: &str, text: &str) -> Result<bool, Error> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Error::new(field, text, "on or off")),
    }
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

/// The help of a flag with the default that these parameters have, where the flag is called like one of them.
pub(crate) fn with_default(flag: Arg, params: &ExperimentParams) -> Arg {
    let table = Table::try_from(params).unwrap_or_default();
    let clock = Table::try_from(ClockParams::default()).unwrap_or_default();
    let inner = ["world", "training"].into_iter().filter_map(|name| table.get(name)?.as_table());
    let inner = inner.chain([&clock]);
    let key = flag.get_id().as_str();
    let found = std::iter::once(&table).chain(inner).find_map(|table| table.get(key));
    let work = params.training.as_ref().and_then(|training| training.local_work.split_once(' '));
    let text = match found {
        // Flags that are written otherwise than their keys.
        _ if key == "aggregation" => params.aggregation.to_string(),
        None => match work.filter(|(_, unit)| *unit == key) {
            Some((count, _)) => count.to_string(),
            None => return flag,
        },
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let text = |value: &Value| value.to_string().trim_matches('"').to_string();
            list.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        Some(Value::Integer(number)) => number.to_string(),
        Some(Value::Float(number)) => number.to_string(),
        // Switches are off, and tables are no flags.
        _ => return flag,
    };
    match flag.get_help() {
        Some(help) => {
            let help = format!("{help} [default: {text}]");
            flag.help(help)
        }
        None => flag,
    }
}
