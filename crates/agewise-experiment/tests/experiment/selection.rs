//! Experiments without a task: what is refused, what is kept, and that a run goes on.

use crate::training::worlds::Dir;
use agewise_core::{Seed, Weighting};
use agewise_experiment::{Experiment, ExperimentParams, RunId};
use agewise_train::aggregation::AggregationRule;

fn experiment(change: impl Fn(&mut ExperimentParams)) -> agewise_core::Result<Experiment> {
    let mut params = ExperimentParams::default();
    change(&mut params);
    Experiment::builder().params(params).build()
}

#[test]
fn the_default_is_the_papers_experiment() {
    let experiment = experiment(|_| {}).unwrap();
    assert_eq!(experiment.setting().clients(), 100);
    assert!(experiment.is_calm());
    let spec = experiment.selection(RunId { seed: 3, variant: 2 }).unwrap();
    assert_eq!(spec.world.seed, Seed(3));
}

#[test]
fn what_is_wrong_is_named() {
    let field = |change: &dyn Fn(&mut ExperimentParams)| {
        experiment(change).err().unwrap().field().to_string()
    };
    assert_eq!(field(&|p| p.rounds = 0), "rounds");
    assert_eq!(field(&|p| p.warmup = 1_000), "warmup");
    assert_eq!(field(&|p| p.seeds = 0), "seeds");
    assert_eq!(field(&|p| p.seed = u64::MAX), "seed");
    let far_apart = |p: &mut ExperimentParams| {
        (p.clients, p.cohort, p.calibrate) = (2_000_000, 1, Some(true));
    };
    assert_eq!(field(&far_apart), "interval");
    assert_eq!(field(&|p| p.world.dropout = 1.0), "dropout");
    assert_eq!(field(&|p| p.world.leave = f64::NAN), "leave");
    assert_eq!(field(&|p| p.world.join = -0.1), "join");
    assert_eq!(field(&|p| p.world.join = 1e5), "join");
    assert_eq!(field(&|p| p.sizes = "zipf".into()), "sizes");
    assert_eq!(field(&|p| p.world.availability = "never".into()), "availability");
    assert_eq!(field(&|p| p.policies.clear()), "policies");
    for policy in ["age-herding", "power-of-choice", "active", "clustered(by=2)", "divfl", "oort"] {
        assert_eq!(field(&|p| p.policies = vec![policy.into()]), "policy", "{policy}");
    }
    assert_eq!(field(&|p| p.policies = vec!["rnd".into()]), "policy");
    assert_eq!(field(&|p| p.policies = vec!["random".into(); 2]), "policies");
    // The usual rule need not be said.
    assert_eq!(
        field(&|p| p.policies = ["random", "random+mean"].map(String::from).into()),
        "policies"
    );
    let aggregated = "aggregation of random+median";
    assert_eq!(field(&|p| p.policies = vec!["random+median".into()]), aggregated);
    assert_eq!(field(&|p| p.aggregation.rule = AggregationRule::Median), "aggregation of random");
    assert_eq!(field(&|p| p.size_list = Some(vec![1.0])), "sizes");
    let unbiased = |p: &mut ExperimentParams| {
        p.calibrate = Some(true);
        p.weighting = Some(Weighting::Unbiased);
    };
    assert_eq!(field(&unbiased), "weighting");
}

fn restless() -> Experiment {
    let restless = |p: &mut ExperimentParams| {
        (p.rounds, p.seeds) = (120, 3);
        p.world.availability = "bernoulli:0.7".into();
        (p.world.dropout, p.world.join) = (0.1, 0.01);
    };
    experiment(restless).unwrap()
}

#[test]
fn runs_are_kept_when_they_are_finished_and_read_again() {
    let experiment = restless();
    let at_once = Dir::new(&experiment);
    let whole = at_once.play(&experiment, 2);
    assert!(whole.iter().all(|record| record.finished && record.rounds.len() == 120));
    let dir = Dir::new(&experiment);
    let mut stops = 0;
    loop {
        let records = dir.play_until(&experiment, 1 + stops % 3, 150);
        for (record, whole) in records.iter().zip(&whole) {
            assert!(record == whole || (!record.finished && record.rounds.is_empty()));
        }
        let read = agewise_experiment::read(&experiment, &dir.dir).unwrap();
        assert_eq!(read.records, records);
        if read.is_finished() {
            break;
        }
        stops += 1;
    }
    assert!(stops > 3, "{stops} stops");
    assert_eq!(dir.files(), at_once.files());
}

#[test]
fn a_damaged_line_counts_as_not_written_and_another_configuration_is_refused() {
    let experiment = restless();
    let dir = Dir::new(&experiment);
    let whole = dir.play(&experiment, 2);
    let path = dir.temporary.path().join("log/002-00001.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let read = agewise_experiment::read(&experiment, &dir.dir).unwrap();
    assert_eq!(read.records.iter().filter(|record| !record.finished).count(), 1);
    assert_eq!(dir.play(&experiment, 2), whole);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let other = ExperimentParams { cohort: 14, ..experiment.params().clone() };
    let other = Experiment::new(other, &[]).unwrap();
    let error = agewise_experiment::read(&other, &dir.dir).err().unwrap().to_string();
    assert!(error.contains("another configuration"), "{error}");
}

#[test]
fn memory_is_guessed_before_it_is_taken() {
    let large = |p: &mut ExperimentParams| {
        (p.clients, p.cohort, p.max_age) = (100_000_000, 15_000_000, 10.into());
    };
    let large = experiment(large).unwrap();
    assert_eq!((large.runs_at_once(8), restless().runs_at_once(8)), (1, 8));
    // 32 bytes for each client.
    assert!((3_200_000_000..3_210_000_000).contains(&large.memory(8)), "{}", large.memory(8));
}
