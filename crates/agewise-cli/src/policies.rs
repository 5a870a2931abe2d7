//! `agewise policies`: the registered policies, with their options.

use super::table::{prose, table};
use super::{Failure, print, print_json};
use agewise_core::{POLICIES, PolicyEntry, find_policy};
use clap::Args;
use std::fmt::Write as _;

#[derive(Debug, Args)]
#[command(
    about = "List the policies, or the options of one",
    after_help = "Options are written behind the name: agewise compare --policy 'random,age-herding(ahead=1, slack=3)'"
)]
pub(crate) struct PoliciesArgs {
    /// The policy whose options to list
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &PoliciesArgs) -> Result<(), Failure> {
    let one = args.name.as_deref().map(find_policy).transpose()?;
    if args.json {
        let value = match one {
            Some(entry) => json(entry),
            None => POLICIES.iter().map(json).collect(),
        };
        return print_json(&value);
    }
    if let Some(entry) = one {
        return print(&options(entry));
    }
    let rows = POLICIES.iter().map(|entry| {
        let options: Vec<&str> = entry.options.iter().map(|(name, _)| *name).collect();
        [entry.name.to_string(), options.join(", "), entry.summary.to_string()]
    });
    let table = table(["policy", "options", "what it does"], [], rows);
    print(&format!("{table}\nThe options of one: agewise policies NAME\n"))
}

fn options(entry: &PolicyEntry) -> String {
    let mut text = prose(&format!("{}: {}", entry.name, entry.summary)) + "\n";
    let _ = writeln!(text, "Weights, unless --weighting says otherwise: {}.", entry.weighting);
    if entry.options.is_empty() {
        text += "It has no options.\n";
    } else {
        let _ = writeln!(
            text,
            "{}",
            table(
                ["option", "meaning"],
                [],
                entry.options.iter().map(|(name, meaning)| [*name, *meaning])
            )
        );
    }
    text
}

fn json(entry: &PolicyEntry) -> serde_json::Value {
    let options: serde_json::Map<String, serde_json::Value> =
        entry.options.iter().map(|&(name, meaning)| (name.to_string(), meaning.into())).collect();
    serde_json::json!({
        "name": entry.name,
        "summary": entry.summary,
        "weighting": entry.weighting.to_string(),
        "needs_options": entry.needs_options,
        "options": options,
    })
}
