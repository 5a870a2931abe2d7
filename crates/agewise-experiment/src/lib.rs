//! Experiments: policies of client selection side by side, with or without training, from 100 clients to 10^8.
//!
//! An [`Experiment`] is a world, variants (a policy, its start and weighting, a rule of aggregation), rounds, seeds and,
//! if anything is trained, a task. [`play`] plays all its runs on a number of threads and gives [`Results`]; with a
//! [`RunDir`] everything is kept as it comes, so that a run can be stopped at any moment, goes on with the same bytes,
//! and can be asked for more when it is finished ([`run_dir::extend`]).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tolerances"))]
#![forbid(unsafe_code)]

mod callbacks;
mod clock;
mod engines;
mod error;
mod executor;
mod experiment;
mod log;
pub mod objective;
mod params;
pub mod presets;
mod probes;
mod record;
mod results;
mod run;
pub mod run_dir;
mod stats;
mod summary;
pub mod toml_file;
mod world;

pub use callbacks::{Callbacks, NoCallbacks};
pub use clock::{
    Buffered, ClientTimes, ClockLog, Deadline, FedAsync, LinkDistribution, Power, RateDistribution,
    RoundCosts, Schedule, SecondsRecord, Spread, Unit,
};
pub use error::ExperimentError;
pub use executor::{play, read};
pub use experiment::{Experiment, ExperimentBuilder, SeedContext, Variant};
pub use log::{AskLog, RoundLog, TestScore};
pub use params::{
    ClockParams, Difference, ExperimentParams, ModelParams, TrainingParams, WorldParams, load_data,
    prepare_data, read_params, split_partition,
};
pub use record::{
    ClientRecord, ClockRecord, CurvePoint, LoadRecord, Record, RoundRecord, RunId, TrainingRecord,
};
pub use results::Results;
pub use run::{SelectionRun, SelectionSpec, TrainingRun};
pub use run_dir::{RunDir, RunDirError};
pub use stats::{
    Estimate, Interval, PairedChange, PairedDifference, RoundsToTarget, Spent, Student, holm,
    median, quantile,
};
pub use summary::{
    CostTo, Measure, Pair, RoundsTo, Significance, Summary, TheorySummary, VariantSummary,
};
pub use world::{AvailabilityModel, RankedBy, RankedChance, TimedAvailability, World};
