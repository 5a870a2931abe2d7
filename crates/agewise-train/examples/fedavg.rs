//! FedAvg as in the paper's experiments: 100 clients with equal shares of the data, 15 of them at random in each round,
//! 5 local epochs, batches of 50, learning rate 0.1. Prints the test accuracy after every round.
//!
//! `cargo run --release -p agewise-train --example fedavg -- [DATA] [MODEL] [ROUNDS] [SEED]`, by default the embedded
//! digits, `cnn`, 6 rounds, seed 1. AGEWISE_DATA names a folder with data sets such as `mnist`.

use agewise_core::{Availability, PolicySpec, Seed, Selector, SettingParams, Start};
use agewise_train::aggregation::{Aggregation, Contribution};
use agewise_train::data::{self, PixelScale};
use agewise_train::local::LocalTrainingParams;
use agewise_train::task::{PartitionKey, Task};
use agewise_train::{NativeTask, RoundEngine, RoundPlan, Threads};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |index: usize, default| arguments.get(index).map_or(default, |text: &String| text.as_str());
    let (data, model) = (argument(0, "digits"), argument(1, "cnn"));
    let (rounds, seed) = (argument(2, "6").parse()?, Seed(argument(3, "1").parse()?));
    let folders: Vec<PathBuf> =
        std::env::var_os("AGEWISE_DATA").map(PathBuf::from).into_iter().collect();

    let training = LocalTrainingParams { decay: 1.0, ..Default::default() }.check()?;
    let task = NativeTask::named(data::load(data, &folders)?, model, training)?;
    let task = task.with_pixel_scale(PixelScale::Unit);
    let key = PartitionKey { seed, clients: 100 };
    let setting = SettingParams::new(100, 15, 10).check()?;

    let mut server = RoundEngine::new(task.initial(seed)?, &Aggregation::default())?;
    let mut selector =
        Selector::new(&PolicySpec::named("random"), setting, seed, Start::Stationary)?;
    for round in 0..rounds {
        let cohort = selector.select(Availability::Everyone)?;
        let cohort = Contribution::of_cohort(&cohort);
        let report =
            server.round(&task, RoundPlan::new(key, round), &cohort, Threads::default())?;
        selector.finish(&report.accepted())?;
        let test = task.evaluate_all(server.global(), Threads::default())?;
        let (accuracy, loss) = (100.0 * test.accuracy(), test.loss());
        println!("round {:>3}: accuracy {accuracy:.2}%, loss {loss:.4}", round + 1);
    }
    Ok(())
}
