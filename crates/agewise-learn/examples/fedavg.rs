//! FedAvg as in the paper's experiments: 100 clients with equal shares of the data, 15 of them at random in each round,
//! 5 local epochs, batches of 50, learning rate 0.1. Prints the test accuracy after every round.
//!
//! `cargo run --release -p agewise-learn --example fedavg -- [DATA] [MODEL] [ROUNDS] [SEED]`, by default the embedded
//! digits, `cnn`, 6 rounds, seed 1. AGEWISE_DATA names a folder with data sets such as `mnist`.

use agewise_core::{
    Availability, PolicySpec, Report, Seed, Selector, SettingParams, SizeLaw, Start,
};
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_learn::data::{self, PartitionLaw, PartitionParams, PixelScale, PixelTable};
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{Crew, Learner, LocalTrainingParams, Samples, Trainer};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |index: usize, default| arguments.get(index).map_or(default, |text: &String| text.as_str());
    let (name, model) = (argument(0, "digits"), argument(1, "cnn"));
    let (rounds, seed): (u64, u64) = (argument(2, "6").parse()?, argument(3, "1").parse()?);
    let seed = Seed(seed);

    let folders: Vec<PathBuf> =
        std::env::var_os("AGEWISE_DATA").map(PathBuf::from).into_iter().collect();
    let dataset = data::load(name, &folders)?;
    let pixels = PixelTable::new(PixelScale::Unit, &dataset.train);
    let params = PartitionParams {
        law: PartitionLaw::Iid,
        sizes: SizeLaw::Equal,
        clients: 100,
        least: 50,
        seed,
    };
    let partition = params.check(&dataset.train)?.split();

    let spec = ModelSpec::named(model, dataset.train.shape(), dataset.train.classes() as usize)?;
    let trainer = Trainer::new(Model::new(spec)?);
    let training = LocalTrainingParams { decay: 1.0, ..Default::default() }.check()?;
    let server = Server::new(ServerRule::Average, trainer.parameters())?;
    let mut federation = Federation::new(trainer.initial(seed), server)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut crew = Crew::new(&trainer, threads)?;

    let setting = SettingParams::new(100, 15, 10).check()?;
    let mut selector =
        Selector::new(&PolicySpec::named("random"), setting, seed, Start::Stationary)?;
    for round in 0..rounds {
        let begin = Instant::now();
        let cohort = selector.select(Availability::Everyone)?;
        let members: Vec<Member<'_>> = cohort
            .clients
            .iter()
            .zip(&cohort.weights)
            .map(|(&client, &weight)| {
                let indices = Some(partition.of(client as usize));
                let samples = Samples { images: &dataset.train, indices, pixels: &pixels };
                Member { client, weight, samples }
            })
            .collect();
        let plan = RoundPlan::new(&training, seed, round);
        federation.round(&mut crew, &members, plan)?;
        let reports: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
        selector.finish(&reports)?;
        let trained = begin.elapsed().as_secs_f64();
        let test = crew.evaluate(federation.global(), &Samples::all(&dataset.test, &pixels))?;
        println!(
            "round {:>3}: accuracy {:.2}%, loss {:.4}, {trained:.1} s",
            round + 1,
            100.0 * test.accuracy(),
            test.loss()
        );
    }
    Ok(())
}
