//! Whole rounds, whose updates are in memory, against the same updates in files.

use super::{Outcome, Shelf, bits, models};
use agewise_core::{Result, Seed};
use agewise_train::aggregation::{Aggregation, UpdateSource, Verdict};
use agewise_train::local::LocalReport;
use agewise_train::task::{PartitionKey, Task, TrainJob};
use agewise_train::{Evaluation, RoundEngine, RoundPlan, Threads};

/// A task whose clients come back with what lies on a shelf; the number of a client is its place there, plus 100.
struct Replay(Shelf);

impl Task for Replay {
    fn parameters(&self) -> usize {
        self.0.updates[0].1.len()
    }

    fn initial(&self, _seed: Seed) -> Result<Vec<f32>> {
        Ok(vec![0.25; self.parameters()])
    }

    fn sizes(&self, _key: PartitionKey) -> Result<Vec<u64>> {
        Ok(vec![1; self.0.updates.len()])
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        self.0.clone().read(job.client as usize - 100, 0, parameters)?;
        Ok(LocalReport { steps: 1, samples: 1, loss: 0.0, mean_square: 0.0 })
    }

    fn evaluate(&self, _parameters: &[f32], _piece: usize) -> Result<Evaluation> {
        Ok(Evaluation::new(1))
    }
}

/// Rounds of an engine, whose updates are in memory, and aggregation of the same updates in files.
#[test]
fn rounds_in_memory_are_those_from_files() {
    let (members, parameters) = (12, 300);
    let mut shelf = Shelf::good(&models(members, parameters, 5));
    shelf.updates[2].0 = Outcome::Poisoned;
    shelf.updates[4].0 = Outcome::Missing;
    shelf.updates[7].0 = Outcome::CutOff(250);
    let mut weights: Vec<f64> = (1..=members).map(|member| member as f64 / 80.0).collect();
    weights[9] = -1.0;
    let cohort = shelf.offers(&weights);
    let task = Replay(shelf.clone());
    let key = PartitionKey { seed: Seed(0), clients: 200 };
    for text in [
        "mean",
        "mean(clip_norm=3)",
        "momentum(learning_rate=0.5)",
        "adam(learning_rate=0.1)",
        "median",
        "mean(max_norm=auto)",
        "mean(max_norm=17)",
        "median(clip_norm=3, max_norm=auto)+momentum",
        "trimmed-mean(trim=0.2, clip_norm=4)+momentum",
    ] {
        let aggregation: Aggregation = text.parse().unwrap();
        for threads in [1, 2, 4] {
            let threads = Threads::new(threads).unwrap();
            let mut global = task.initial(Seed(0)).unwrap();
            let mut engine = RoundEngine::new(global.clone(), &aggregation).unwrap();
            let mut from_files = aggregation.build(parameters).unwrap();
            for round in 0..4 {
                let plan = RoundPlan::new(key, round);
                let report = engine.round(&task, plan, &cohort, threads).unwrap();
                let found: Vec<Verdict> =
                    report.members.into_iter().map(|who| who.map(|_| ())).collect();
                let memory = [48, 100, 1_200, 1_000_000][round as usize];
                let expected =
                    from_files.aggregate(&cohort, &mut shelf, memory, &mut global).unwrap();
                assert_eq!(found, expected, "{text}");
                assert_eq!(bits(engine.global()), bits(&global), "{text}");
                assert_eq!(engine.aggregator().state(), from_files.state());
            }
        }
    }
}
