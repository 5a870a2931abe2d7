//! Simulated time: what a round costs on devices and links that differ.
//!
//! A client that is asked downloads the model, trains, and uploads its update; how long each takes follows from its speed,
//! its bandwidth and the size of the model ([`ClientTimes`]). A [`Schedule`] says when a round ends and whose updates
//! count. [`RoundClock`] puts both together, and gives each round its [`RoundCosts`]: the simulated seconds that it took,
//! the seconds that clients worked, and the bytes that were moved. All of it follows from the configuration and the seed.

mod client_times;
mod costs;
mod in_flight;
mod links;
mod phones;
pub(crate) mod rate_file;
mod rates;
mod round_clock;
mod schedule;
mod unit;
mod waits;

pub use client_times::ClientTimes;
pub use costs::{ClockLog, Power, RoundCosts};
pub use links::LinkDistribution;
pub use rates::{RateDistribution, Spread};
pub use schedule::{Buffered, Deadline, FedAsync, Schedule};
pub use unit::Unit;
pub use waits::SecondsRecord;

pub(crate) use in_flight::{Answer, AtWork, Fleet, InFlight, Step};
pub(crate) use round_clock::{Asked, RoundClock};
pub(crate) use waits::SecondsWaits;
