//! Differences come from selection alone: one seed is one split, one first model and one set of batches.

use super::worlds::{bits, experiment, logs, made_up, play, run, small, trained};
use agewise_core::{
    Availability, PolicySpec, Seed, Selector, SettingParams, SizeDistribution, Start, Weighting,
};
use agewise_experiment::{Experiment, ExperimentParams, TrainingRun};
use agewise_train::aggregation::{Aggregation, AggregationParams, Contribution};
use agewise_train::data::{Dataset, PartitionDistribution, embedded_digits};
use agewise_train::local::{LocalTrainingParams, LocalWork};
use agewise_train::model::ModelSpec;
use agewise_train::task::PartitionKey;
use agewise_train::{NativeTask, RoundEngine, RoundPlan, Task, Threads};
use std::collections::BTreeMap;

const EVERY_KIND: [&str; 7] = [
    "random",
    "probabilistic",
    "markov-optimal",
    "markov-linear@cold",
    "oldest-first",
    "phased(reshuffle=0.3)",
    "round-robin",
];

#[test]
fn a_seed_is_one_split_and_one_first_model_for_all() {
    let one = experiment(small(&EVERY_KIND));
    let other = ExperimentParams { rounds: 2, ..small(&["phased"]) };
    let other = experiment(trained(other, |training| training.learning_rate = 0.3));
    let partition = |experiment: &Experiment, seed| {
        let native = experiment.task().unwrap().as_native().unwrap();
        native.partition(experiment.partition_key(seed)).unwrap()
    };
    for index in 0..2 {
        let (here, there) = (one.context(index).unwrap(), other.context(index).unwrap());
        assert_eq!(here.seed, Seed(5 + u64::from(index)));
        let images = partition(&one, index);
        assert_eq!(images, partition(&other, index));
        assert_eq!(bits(&here.first_model), bits(&there.first_model));
        for variant in 0..EVERY_KIND.len() {
            let run = TrainingRun::new(&one, run(index, variant)).unwrap();
            assert_eq!(bits(run.global()), bits(&here.first_model));
        }
        // Every image belongs to one client.
        let mut images: Vec<u32> = (0..12).flat_map(|k| images.of(k).to_vec()).collect();
        images.sort_unstable();
        assert_eq!(images, (0..480).collect::<Vec<u32>>());
    }
    let (first, second) = (one.context(0).unwrap(), one.context(1).unwrap());
    assert_ne!(partition(&one, 0), partition(&one, 1));
    assert_ne!(bits(&first.first_model), bits(&second.first_model));
    // The second seed of one experiment is the first of another that begins there.
    let later = experiment(ExperimentParams { seed: 6, ..small(&["random"]) });
    assert_eq!(partition(&later, 0), partition(&one, 1));
}

#[test]
fn whoever_chooses_a_client_in_the_first_round_hears_the_same_loss() {
    let experiment = experiment(ExperimentParams { rounds: 1, ..small(&EVERY_KIND) });
    let (records, _) = play(&experiment, 2);
    let mut heard: BTreeMap<(u32, u32), f32> = BTreeMap::new();
    let mut again = 0;
    for record in &records {
        let log = &logs(record)[0];
        for (&client, loss) in log.clients.iter().zip(&log.losses) {
            let loss = loss.unwrap();
            let before = heard.insert((record.id.seed, client), loss);
            again += u32::from(before.is_some());
            assert_eq!(before.unwrap_or(loss).to_bits(), loss.to_bits(), "{:?}", record.id);
        }
    }
    assert!(again > 20, "only {again} clients were chosen twice");
}

/// With next to no learning rate the model stays as it is but for rounding, so a client's loss in a round depends on its
/// batches alone.
#[test]
fn batches_depend_on_seed_round_and_client_alone() {
    let params = ExperimentParams { rounds: 12, ..small(&EVERY_KIND) };
    let params = trained(params, |training| training.learning_rate = 1e-30);
    let (records, _) = play(&experiment(params), 2);
    let mut heard: BTreeMap<(u32, u64, u32), f32> = BTreeMap::new();
    let mut of_a_client: BTreeMap<(u32, u32), Vec<f32>> = BTreeMap::new();
    for record in &records {
        for log in logs(record) {
            for (&client, loss) in log.clients.iter().zip(&log.losses) {
                let loss = loss.unwrap();
                let key = (record.id.seed, log.round, client);
                let before = heard.insert(key, loss).unwrap_or_else(|| {
                    of_a_client.entry((key.0, client)).or_default().push(loss);
                    loss
                });
                assert!((before - loss).abs() < 2e-5, "{key:?}: {before}, {loss}");
            }
        }
    }
    // The same client has other batches in other rounds.
    for losses in of_a_client.values().filter(|losses| losses.len() > 3) {
        let spread = losses.iter().map(|loss| (loss - losses[0]).abs()).fold(0.0, f32::max);
        assert!(spread > 1e-3, "{losses:?}");
    }
}

#[test]
fn who_chooses_the_same_cohorts_ends_with_the_same_bytes() {
    // The last probability of a law holds for all greater ages, and chance does not look at ages.
    let laws = ["markov-custom(p=[0, 0.5, 1])", "markov-custom(p=[0,0.5,1,1])"];
    let same = [&laws[..], &["random", "random@cold", "random@stationary"]].concat();
    let params = ExperimentParams { baseline: Some("random".to_string()), ..small(&same) };
    let (records, models) = play(&experiment(params), 2);
    let run = |seed: u32, variant: usize| {
        let record = &records[seed as usize * same.len() + variant];
        let id = run(seed, variant);
        assert_eq!(record.id, id);
        (logs(record), &models[&id])
    };
    for seed in 0..2 {
        assert_eq!(run(seed, 0), run(seed, 1));
        assert_eq!(run(seed, 2), run(seed, 3));
        assert_eq!(run(seed, 2), run(seed, 4));
        assert_ne!(run(seed, 0), run(seed, 2));
    }
    assert_ne!(run(0, 2), run(1, 2));
}

#[test]
fn with_equal_sizes_weightings_of_chance_are_one() {
    let played = |weighting| {
        let params = ExperimentParams { weighting, ..small(&["random"]) };
        let params = trained(params, |training| training.partition = "iid".to_string());
        let (records, models) = play(&experiment(params), 1);
        (records.iter().map(|record| logs(record).to_vec()).collect::<Vec<_>>(), models)
    };
    let own = played(None);
    for weighting in [Weighting::Uniform, Weighting::DataSize, Weighting::DrawCount] {
        assert_eq!(played(Some(weighting)), own, "{weighting}");
    }
}

/// FedAvg with random selection, written out: the last model and the hits of every round.
fn by_hand(data: &Dataset, params: &ExperimentParams, seed: Seed) -> (Vec<u32>, Vec<Vec<u64>>) {
    let asked = params.training.as_ref().unwrap();
    let classes = data.train.classes() as usize;
    let model = ModelSpec::named(&asked.model, data.train.shape(), classes).unwrap();
    let training = LocalTrainingParams {
        work: LocalWork::Epochs(1),
        batch: asked.batch,
        learning_rate: asked.learning_rate as f32,
        ..LocalTrainingParams::default()
    };
    let task = NativeTask::new(data.clone(), model, training.check().unwrap()).unwrap();
    let task = task.with_partition(PartitionDistribution::Dirichlet(0.3), SizeDistribution::Equal);
    let key = PartitionKey { seed, clients: params.clients as u32 };
    let average = Aggregation::from_params(AggregationParams::default()).unwrap();
    let mut engine = RoundEngine::new(task.initial(seed).unwrap(), &average).unwrap();
    let threads = Threads::new(2).unwrap();
    let setting = SettingParams::new(params.clients, params.cohort, params.max_age);
    let random = PolicySpec::named("random");
    let mut selector =
        Selector::new(&random, setting.check().unwrap(), seed, Start::Stationary).unwrap();
    let mut hits = Vec::new();
    for round in 0..params.rounds {
        let cohort = selector.select(Availability::Everyone).unwrap();
        let weight = 1.0 / cohort.clients.len() as f64;
        let members: Vec<Contribution> =
            cohort.clients.iter().map(|&client| Contribution::new(client, weight)).collect();
        let plan = RoundPlan::new(key, round);
        let report = engine.round(&task, plan, &members, threads).unwrap();
        selector.finish(&report.accepted()).unwrap();
        hits.push(task.evaluate_all(engine.global(), threads).unwrap().class_correct);
    }
    (bits(engine.global()), hits)
}

#[test]
fn random_is_the_fedavg_that_one_writes_by_hand() {
    let digits = ExperimentParams { clients: 60, ..small(&["random"]) };
    for (data, model, params) in [
        (made_up(), "softmax", small(&["random"])),
        (made_up(), "2nn", small(&["random"])),
        (embedded_digits().unwrap(), "softmax", digits),
    ] {
        let params = trained(ExperimentParams { rounds: 4, ..params }, |training| {
            training.model = model.to_string();
            training.local_work = "1 epoch".to_string();
            training.partition = "dirichlet:0.3".to_string();
            training.batch = 20;
        });
        let experiment = Experiment::with_data(params.clone(), data.clone()).unwrap();
        let (records, models) = play(&experiment, 2);
        for record in records {
            let (last, hits) = by_hand(&data, &params, experiment.seed(record.id.seed));
            assert_eq!(models[&record.id], last, "{model}");
            let images = data.test.len() as f64;
            for (round, (log, hits)) in logs(&record).iter().zip(hits).enumerate() {
                assert_eq!(log.test.as_ref().unwrap().class_correct, hits);
                let accuracy = hits.iter().sum::<u64>() as f64 / images;
                let point = record.training.as_ref().unwrap().curve[round];
                assert_eq!((point.round, point.score), (round as u64 + 1, accuracy));
            }
        }
    }
}
