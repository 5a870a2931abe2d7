//! Experiments that train.

mod asynchronous;
mod availability;
mod clock;
mod objectives;
mod pairing;
mod probes;
mod records;
mod refusals;
mod resuming;
mod speeds;
mod summaries;
pub(crate) mod worlds;
