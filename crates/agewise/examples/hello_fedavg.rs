//! FedAvg (McMahan et al., 2017) as its pseudocode has it: select, train, average, repeat.
//!
//! `cargo run --release -p agewise --example hello_fedavg`

use agewise::prelude::*;
use agewise::train::data::embedded_digits;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let local = LocalTrainingParams { work: LocalWork::Steps(5), ..Default::default() };
    let task = NativeTask::named(embedded_digits()?, "2nn", local.check()?)?;
    let key = PartitionKey { seed: Seed(1), clients: 50 };

    let setting = SettingParams::new(50, 10, 10).check()?;
    let policy = PolicySpec::named("random");
    let mut selector = Selector::new(&policy, setting, key.seed, Start::Stationary)?;
    let mut server = RoundEngine::new(task.initial(key.seed)?, &"mean".parse()?)?;

    let threads = Threads::new(2)?;
    for round in 0..20 {
        let cohort = selector.select(Availability::Everyone)?;
        let plan = RoundPlan::new(key, round);
        let report = server.round(&task, plan, &Contribution::of_cohort(&cohort), threads)?;
        selector.finish(&report.accepted())?;
    }

    let accuracy = task.evaluate_all(server.global(), threads)?.accuracy();
    println!("{:.1}% of the test digits after 20 rounds", 100.0 * accuracy);
    assert!(accuracy > 0.8);
    Ok(())
}
