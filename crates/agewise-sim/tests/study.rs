//! The training simulator from the outside: what it promises, against first principles and brute force.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "study/objectives.rs"]
mod objectives;
#[path = "study/pairing.rs"]
mod pairing;
#[path = "study/questions.rs"]
mod questions;
#[path = "study/records.rs"]
mod records;
#[path = "study/refusals.rs"]
mod refusals;
#[path = "study/resuming.rs"]
mod resuming;
#[path = "study/speeds.rs"]
mod speeds;
#[path = "study/summaries.rs"]
mod summaries;
#[path = "study/worlds.rs"]
mod worlds;
