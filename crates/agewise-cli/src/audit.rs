//! `agewise audit`: does every cohort of a run follow from law, ages and seeds?

use super::data::DataDir;
use super::progress::Progress;
use super::{Failure, print, print_json};
use agewise_server::coordinator::audit::{Audit, AuditOptions, RolledBack, audit_with, settings};
use agewise_server::native::coordinator_task;
use agewise_train::data::load;
use agewise_train::{NativeTask, Task, Threads};
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

const AFTER: &str = "\
The exit code is 0 if nothing was found, and 1 if something was.

Example:
  agewise audit try/state";

#[derive(Debug, Args)]
#[command(
    about = "Replay the ledger of a run: verify every proof, every age and every seed",
    after_help = AFTER
)]
pub(crate) struct AuditArgs {
    /// The state folder of a coordinator
    #[arg(value_name = "RUN")]
    state: PathBuf,

    #[command(flatten)]
    place: DataDir,

    /// Print one JSON document instead of the text
    #[arg(long)]
    json: bool,
}

/// The task of a run, if its data are here: what is missing is told, and models are not evaluated again then.
fn task(args: &AuditArgs) -> Result<NativeTask, Failure> {
    let params = settings(&args.state)?;
    let training = params.training.check()?;
    let dataset = load(&params.model.data, &args.place.folders())?;
    Ok(coordinator_task(&params.model, training, dataset)?)
}

/// Runs the command.
pub(crate) fn run(args: &AuditArgs) -> Result<(), Failure> {
    let found = task(args);
    let task = found.as_ref().ok().map(|task| (task as &dyn Task, Threads::default()));
    let options = AuditOptions { task, ..AuditOptions::default() };
    let mut progress = None;
    let audited = audit_with(&args.state, &options, |_, of| {
        progress.get_or_insert_with(|| Progress::new(of, "auditing", false)).advance(1);
    });
    if let Some(progress) = progress {
        progress.finish();
    }
    let audited = audited?;
    if let Err(Failure::BadInput(why) | Failure::Io(why)) = &found {
        eprintln!("Kept models are not evaluated again: {why}");
    }
    if args.json {
        print_json(&as_json(&audited))?;
    } else {
        print(&as_text(&audited))?;
    }
    match audited.findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Io("1 finding".to_string())),
        count => Err(Failure::Io(format!("{count} findings"))),
    }
}

fn as_text(audited: &Audit) -> String {
    let Audit { run, policy, draws, rounds, clients, joins, proofs, invited, fallbacks, .. } =
        audited;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "run        {run}");
    let _ = writeln!(text, "policy     {policy}, draws {draws}");
    let _ =
        writeln!(text, "replayed   {rounds} rounds, {clients} clients, {joins} round memberships");
    let _ = writeln!(
        text,
        "verified   {proofs} proofs of draws, {invited} clients selected or invited by the coordinator"
    );
    let _ = writeln!(
        text,
        "computed   {} weights, {} kept models, {} of them evaluated",
        audited.weights, audited.models, audited.evaluations
    );
    if *fallbacks > 0 {
        let _ = writeln!(
            text,
            "forced     {fallbacks} rounds in which no client had joined, so one was invited"
        );
    }
    for RolledBack { round, model } in &audited.rollbacks {
        let _ = writeln!(text, "rollback   from round {round} on, to model {model}");
    }
    let refused: Vec<String> =
        audited.refused.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if !refused.is_empty() {
        let _ = writeln!(text, "refused    {}", refused.join(", "));
    }
    if audited.findings.is_empty() {
        text += "findings   none: every cohort follows from law, ages and seeds\n";
    }
    for finding in &audited.findings {
        let _ = writeln!(text, "found      {finding}");
    }
    text
}

fn as_json(audited: &Audit) -> serde_json::Value {
    let mut json = json!(audited);
    json["refused"] = audited.refused.iter().cloned().collect();
    json
}
