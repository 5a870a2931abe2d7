//! `agewise presets`: comparisons that have a name, and what each costs here.

use super::table::{prose, table};
use super::{Failure, print, print_json};
use agewise_experiment::presets::{Cost, Preset, presets};
use clap::Args;

#[derive(Debug, Args)]
#[command(about = "List the comparisons that have a name, with what each costs on this machine")]
pub(crate) struct PresetsArgs {
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &PresetsArgs) -> Result<(), Failure> {
    let cost = Cost::measure()?;
    let all = presets();
    if args.json {
        let entries: Vec<_> = all.iter().map(|preset| entry(preset, &cost)).collect();
        return print_json(&entries);
    }
    let rows = all.iter().map(|preset| {
        let paper = preset.paper_rounds;
        [
            preset.name.clone(),
            preset.about.clone(),
            paper.map_or("-".to_string(), |(random, markov)| format!("{random} / {markov}")),
            seconds(cost.of_round(preset)),
            seconds(cost.of_preset(preset)),
        ]
    });
    let columns = ["preset", "what", "paper: random / optimal", "a round", "all"];
    let note = format!(
        "Time on this machine ({} cores), from a short measurement: a round with its evaluation, and all policies with all \
         seeds, if each needs as many rounds as random selection (for a preset of the paper: as the paper reports). Settings can be overridden: \
         agewise compare --preset NAME --seeds 10",
        cost.cores()
    );
    print(&format!("{}\n{}\n", table(columns, 2..=4, rows), prose(&note)))
}

fn entry(preset: &Preset, cost: &Cost) -> serde_json::Value {
    serde_json::json!({
        "name": preset.name,
        "about": preset.about,
        "paper_rounds_random": preset.paper_rounds.map(|rounds| rounds.0),
        "paper_rounds_markov_optimal": preset.paper_rounds.map(|rounds| rounds.1),
        "seconds_per_round": cost.of_round(preset),
        "seconds": cost.of_preset(preset),
        "config": preset.params,
    })
}

/// A time for people, with two digits; of minutes, whole ones.
fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.1 => (s * 1e3, "ms"),
        s if s < 100.0 => (s, "s"),
        s if s < 3_600.0 => (s / 60.0, "min"),
        s => (s / 3_600.0, "h"),
    };
    let has_decimal = value < 10.0 && unit != "min";
    format!("{value:.*} {unit}", usize::from(has_decimal))
}
