//! The names that most programs need: `use agewise::prelude::*`.

pub use agewise_core::{
    Availability, Cohort, Draws, Error, Needs, Pick, Policy, PolicySpec, PolicyVariant, Population,
    Probe, ProbeKind, Report, Result, Round, Seed, Selector, Setting, SettingParams, Start, Stream,
    Weighting,
};
pub use agewise_experiment::{
    Callbacks, Experiment, ExperimentParams, NoCallbacks, RoundLog, RunDir, RunId, Summary,
    Variant, play, read,
};
pub use agewise_train::aggregation::{
    Aggregation, AggregationParams, Aggregator, Contribution, Rejected, UpdateSource, Verdict,
};
pub use agewise_train::local::{LocalReport, LocalTrainingParams, LocalWork};
pub use agewise_train::task::{PartitionKey, Task, TrainJob};
pub use agewise_train::{Evaluation, Metric, NativeTask, RoundEngine, RoundPlan, Threads};
pub use std::sync::atomic::AtomicBool;
