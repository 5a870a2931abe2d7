//! The flags of simulated time.

use super::run_args::parse;
use agewise_experiment::{Schedule, Unit};
use clap::Args;
use serde::Serialize;

/// Under which real conditions clients train. The fields have the names of the table `[clock]`, and each of them starts
/// the clock.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Real conditions")]
pub(crate) struct ClockArgs {
    /// Bandwidths: none, equal, lognormal:S or phones, each with @DOWN,UP in Mbit/s behind it for other medians than 20 and
    /// 5; or FILE.csv:DOWN,UP
    #[arg(long, value_name = "DISTRIBUTION")]
    links: Option<String>,

    /// When a round ends: sync, deadline:SECONDSs, deadline:QUANTILE or over-select:FACTOR; or no rounds: buffered:K, a
    /// step of the server with every K updates, or async, one with each
    #[arg(long, value_parser = parse::<Schedule>)]
    #[serde(serialize_with = "as_text")]
    schedule: Option<Schedule>,

    /// The unit in which the cost of a target is reported first: rounds, seconds, bytes, bytes-down, bytes-up, client-seconds or
    /// joules
    #[arg(long, value_parser = parse::<Unit>)]
    unit: Option<Unit>,

    /// Power of a training client in watts; energy is counted then
    #[arg(long, value_name = "WATTS", allow_negative_numbers = true)]
    power: Option<f64>,

    /// Power of a client that sends or receives, in watts [default: as --power]
    #[arg(long, value_name = "WATTS", allow_negative_numbers = true)]
    link_power: Option<f64>,
}

#[allow(clippy::ref_option, reason = "serde asks with a reference")]
fn as_text<S: serde::Serializer>(
    schedule: &Option<Schedule>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    schedule.as_ref().map(ToString::to_string).serialize(serializer)
}
