//! The main job from Rust: the default policies under clients that come and go, with a run directory.
//!
//! `cargo run --release -p agewise --example compare`

use agewise::prelude::*;
use agewise::train::data::embedded_digits;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut params = ExperimentParams::comparison();
    params.policies = vec!["random".into(), "oldest-first".into()];
    params.world.availability = "bernoulli:0.8".into();
    params.world.dropout = 0.05;
    let experiment = Experiment::builder()
        .params(params)
        .data(embedded_digits()?)
        .clients(50)
        .cohort(10)
        .rounds(20)
        .seeds(3)
        .targets([0.7])
        .build()?;

    let folder = std::env::temp_dir().join(format!("agewise-example-{}", std::process::id()));
    let run = RunDir::create(Some(&folder), "compare", false)?;
    run.write_config(experiment.params())?;
    let results = play(&experiment, Some(&run), 2, &NoCallbacks, &AtomicBool::default())?;
    let summary = results.summary()?;
    results.write_tables(&run, &summary)?;

    for policy in &summary.policies {
        let reached = policy.means["never_reached"].mean;
        println!("{:13} never reached: {reached:.1} of 50 clients", policy.policy);
    }
    assert!(folder.join("summary.json").is_file());
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
