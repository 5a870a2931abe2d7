//! What a record says, against brute force over the raw logs.

use super::worlds::{CLASSES, PARAMETERS, experiment, logs, play, run, small, trained};
use agewise_core::{Selector, Weighting};
use agewise_experiment::{Experiment, ExperimentParams, Record, RunId, TestScore};
use agewise_train::Threads;
use std::collections::BTreeMap;

const POLICIES: [&str; 5] =
    ["random", "probabilistic", "markov-optimal@cold", "oldest-first", "phased(reshuffle=0.5)"];

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-10 * one.abs().max(1.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of these values, not an estimate for more.
fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<f64>>())
}

fn varied() -> Experiment {
    let params = ExperimentParams { sizes: "zipf:2".to_string(), rounds: 18, ..small(&POLICIES) };
    experiment(trained(params, |training| {
        (training.eval_every, training.eval_from) = (3, 2);
        training.targets = vec![0.3, 0.5, 0.7, 0.95];
    }))
}

/// The ages before the first round.
fn initial_ages(experiment: &Experiment, id: RunId) -> Vec<u64> {
    let context = experiment.context(id.seed).unwrap();
    let policy = experiment.variant(id).unwrap().policy();
    let selector = Selector::from_variant(policy, context.setting.clone(), context.seed).unwrap();
    (0..12).map(|client| selector.ages().of(client)).collect()
}

#[test]
fn participation_is_what_its_definitions_say() {
    let experiment = varied();
    for record in play(&experiment, 2).0 {
        let (rounds, logs) = (record.rounds.len(), logs(&record));
        let mut ages = initial_ages(&experiment, record.id);
        let mut intervals: Vec<f64> = Vec::new();
        let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
        let mut weights = vec![vec![0.0; rounds]; 12];
        let mut counts = [0.0; 12];
        let mut met = BTreeMap::new();
        for (round, log) in logs.iter().enumerate() {
            assert_eq!(log.round, round as u64);
            assert!(log.clients.is_sorted_by(|a, b| a < b) && !log.clients.is_empty());
            assert!(close(log.weights.iter().sum(), 1.0));
            for (&client, &weight) in log.clients.iter().zip(&log.weights) {
                let client = client as usize;
                intervals.push((ages[client] + 1) as f64);
                *histogram.entry(ages[client] + 1).or_default() += 1;
                weights[client][round] = weight;
                counts[client] += 1.0;
                for &other in log.clients.iter().filter(|&&other| (other as usize) < client) {
                    *met.entry((other as usize, client)).or_insert(0) += 1;
                }
            }
            for (client, age) in (0..).zip(&mut ages) {
                *age = if log.clients.contains(&client) { 0 } else { *age + 1 };
            }
        }
        let seen = record.load.as_ref().unwrap();
        let sizes: Vec<f64> = logs.iter().map(|log| log.clients.len() as f64).collect();
        let sigma: f64 = weights.iter().map(|of_client| variance(of_client)).sum();
        // The estimate from a finite run is that of `agewise simulate`: about 1/n where all clients are weighed alike,
        // with T/(T - 1) where no round depends on another, else about the means that were measured.
        let (variant, played) = (experiment.variant(record.id).unwrap().policy(), rounds as f64);
        let squares = weights.iter().flatten().map(|weight| weight * weight).sum::<f64>() / played;
        let sigma = match variant.name() {
            "random" | "markov-optimal@cold" | "oldest-first"
                if variant.weighting() == Weighting::Uniform =>
            {
                squares - 1.0 / 12.0
            }
            "random" | "probabilistic" => sigma * played / (played - 1.0),
            _ => sigma,
        };
        let squares: f64 = counts.iter().map(|count| count * count).sum();
        let longest = intervals.iter().copied().fold(0.0, f64::max);
        let longest = longest.max(ages.iter().copied().max().unwrap() as f64);
        for (name, value, expected) in [
            ("E[X]", seen.mean_interval.unwrap(), mean(&intervals)),
            ("Var[X]", seen.var_interval.unwrap(), variance(&intervals)),
            ("cohort mean", seen.cohort_mean, mean(&sizes)),
            ("cohort sd", seen.cohort_sd, variance(&sizes).sqrt()),
            ("Jain", seen.jain.unwrap(), counts.iter().sum::<f64>().powi(2) / (12.0 * squares)),
            ("longest wait", seen.longest_wait as f64, longest),
            ("never met", seen.never_together.unwrap(), (66 - met.len()) as f64 / 66.0),
        ] {
            assert!(close(value, expected), "{name} of {:?}: {value}, {expected}", record.id);
        }
        // Sums of weights are kept in 32 bits.
        assert!((seen.sigma.unwrap() / sigma - 1.0).abs() < 1e-5, "{:?}: {sigma}", record.id);
        let never = counts.iter().filter(|&&count| count == 0.0).count();
        assert_eq!(seen.never_reached, never as u64);
        assert_eq!(seen.intervals, histogram.into_iter().collect::<Vec<_>>());
        let training = record.training.as_ref().unwrap();
        for (client, of_client) in training.clients.iter().enumerate() {
            assert_eq!(f64::from(of_client.selections), counts[client]);
            assert_eq!(of_client.age, ages[client]);
        }
        let selections: u64 = counts.iter().sum::<f64>() as u64;
        assert_eq!((record.reported(), record.selected()), (selections, selections));
        for (row, log) in record.rounds.iter().zip(logs) {
            assert_eq!((row.available, row.interval), (Some(12), 3.0));
            assert_eq!((row.selected, row.reported), (log.selected(), log.clients.len() as u64));
        }
        // Four bytes for each parameter, there and back.
        let bytes = selections * PARAMETERS as u64 * 4 * 2;
        assert_eq!(experiment.bytes_moved(&record), Some(bytes));
        assert_eq!(training.rejected(), 0);
    }
}

/// The share of test images that were recognised after each evaluated round, counted from 1.
fn accuracies(record: &Record) -> BTreeMap<u64, f64> {
    let tests = logs(record).iter().filter_map(|log| Some((log.round + 1, log.test.as_ref()?)));
    let share = |test: &TestScore| test.class_correct.iter().sum::<u64>() as f64 / 200.0;
    tests.map(|(round, test)| (round, share(test))).collect()
}

#[test]
fn learning_is_what_its_definitions_say() {
    let experiment = varied();
    let (records, models) = play(&experiment, 2);
    let task = experiment.task().unwrap();
    let native = task.as_native().unwrap();
    for record in records {
        let seen = accuracies(&record);
        let training = record.training.as_ref().unwrap();
        // From round 2 on every third, and the last.
        assert!(seen.keys().copied().eq([2, 5, 8, 11, 14, 17, 18]));
        let curve = training.curve.iter().map(|point| (point.round, point.score));
        assert!(curve.eq(seen.iter().map(|(&round, &accuracy)| (round, accuracy))));
        for target in [0.0, 0.3, 0.5, 0.7, 0.95, 1.0] {
            let first = seen.iter().find(|(_, accuracy)| **accuracy >= target);
            assert_eq!(training.rounds_to(target), first.map(|(&round, _)| round), "{target}");
        }
        // Straight lines from one evaluation to the next: the mean over half-rounds from 2 to 18.
        let at = |half: u64| {
            let before = seen.range(..=half / 2).next_back().unwrap();
            let after = seen.range(half.div_ceil(2)..).next().unwrap();
            let width = (after.0 - before.0) as f64;
            let share =
                if width > 0.0 { (half as f64 / 2.0 - *before.0 as f64) / width } else { 0.0 };
            before.1 + share * (after.1 - before.1)
        };
        // In the middle of each of the 16 rounds in between.
        let every: Vec<f64> = (2..18).map(|round| at(2 * round + 1)).collect();
        assert!(close(training.area().unwrap(), mean(&every)));
        assert_eq!(training.final_score(), Some(seen[&18]));
        let model: Vec<f32> = models[&record.id].iter().map(|&bits| f32::from_bits(bits)).collect();
        let score = task.evaluate_all(&model, Threads::ONE).unwrap();
        let last = logs(&record)[17].test.as_ref().unwrap();
        assert_eq!(last.class_correct, score.class_correct);
        assert!(close(last.loss.unwrap(), score.loss()));
        let partition = native.partition(experiment.partition_key(record.id.seed)).unwrap();
        let mut each: Vec<f64> = (0..12)
            .map(|client| {
                let images = partition.of(client);
                assert_eq!(training.clients[client].samples, images.len() as u64);
                let train = native.images().unwrap().0;
                let label = |&image: &u32| usize::from(train.label(image as usize));
                let per_class = 200 / CLASSES;
                let right = |image| last.class_correct[label(image)] as f64 / per_class as f64;
                let accuracy = mean(&images.iter().map(right).collect::<Vec<f64>>());
                assert!(close(training.clients[client].accuracy.unwrap(), accuracy));
                accuracy
            })
            .collect();
        each.sort_by(f64::total_cmp);
        // A tenth of twelve clients is two of them, as one would be less than a tenth.
        assert!(close(training.worst_tenth().unwrap(), mean(&each[..2])));
    }
}

#[test]
fn a_run_that_has_not_begun_says_nothing() {
    let experiment = experiment(small(&["random"]));
    let record = Record::of_training(&experiment, run(1, 0), Vec::new()).unwrap();
    assert!(!record.finished && record.load.is_none() && record.rounds.is_empty());
    let training = record.training.as_ref().unwrap();
    let scores = (training.rounds_to(0.0), training.area(), training.final_score());
    assert_eq!(scores, (None, None, None));
    assert_eq!((training.worst_tenth(), record.reported(), training.rejected()), (None, 0, 0));
    assert!(training.objectives.is_none() && training.curve.is_empty());
    assert!(training.clients.iter().all(|client| client.selections == 0));
}

/// Age is credited by an accepted report: whoever's update was not taken goes on waiting.
#[test]
fn an_update_that_was_not_taken_is_counted_and_credits_nobody() {
    let experiment = experiment(ExperimentParams { seeds: 1, ..small(&["random@cold"]) });
    let (records, _) = play(&experiment, 1);
    let mut logs = logs(&records[0]).to_vec();
    let rejected = logs[6].clients[2];
    logs[6].losses[2] = None;
    logs[5].losses[0] = None;
    let last = |client: u32| {
        let taken = logs.iter().rev().find(|log| {
            let place = log.clients.iter().position(|&other| other == client);
            place.is_some_and(|place| log.losses[place].is_some())
        });
        taken.map_or(7, |log| 6 - log.round)
    };
    let ages: Vec<u64> = (0..12).map(last).collect();
    assert!(ages[rejected as usize] > 0);
    let record = Record::of_training(&experiment, records[0].id, logs).unwrap();
    let training = record.training.as_ref().unwrap();
    assert_eq!(training.rejected(), 2);
    assert!(training.clients.iter().map(|client| client.age).eq(ages));
    assert_eq!(record.reported(), 28);
}
