//! What a record says, against brute force over the raw logs.

use crate::worlds::{CLASSES, PARAMETERS, play, small, study};
use agewise_core::Selector;
use agewise_learn::train::Crew;
use agewise_sim::study::{Record, RunId, Study, StudyParams};
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

fn varied() -> Study {
    study(StudyParams {
        sizes: "zipf:2".to_string(),
        eval_every: 3,
        eval_from: 2,
        rounds: 18,
        targets: vec![0.3, 0.5, 0.7, 0.95],
        ..small(&POLICIES)
    })
}

/// The ages before the first round.
fn first_ages(study: &Study, id: RunId) -> Vec<u64> {
    let contender = &study.contenders()[id.contender];
    let scene = study.scene(id.seed).unwrap();
    let setting = scene.setting.clone();
    let selector = Selector::new(&contender.spec, setting, scene.seed, contender.start).unwrap();
    (0..12).map(|client| selector.ages().of(client)).collect()
}

#[test]
fn participation_is_what_its_definitions_say() {
    let study = varied();
    for record in play(&study, 2).0 {
        let rounds = record.logs.len();
        let mut ages = first_ages(&study, record.id);
        let mut intervals: Vec<f64> = Vec::new();
        let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
        let mut weights = vec![vec![0.0; rounds]; 12];
        let mut counts = [0.0; 12];
        let mut met = BTreeMap::new();
        for (round, log) in record.logs.iter().enumerate() {
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
        let seen = record.participation.as_ref().unwrap();
        let sizes: Vec<f64> = record.logs.iter().map(|log| log.clients.len() as f64).collect();
        let sigma: f64 = weights.iter().map(|of_client| variance(of_client)).sum();
        let squares: f64 = counts.iter().map(|count| count * count).sum();
        let longest = intervals.iter().copied().fold(0.0, f64::max);
        let longest = longest.max(ages.iter().copied().max().unwrap() as f64);
        for (name, value, expected) in [
            ("E[X]", seen.mean_interval, mean(&intervals)),
            ("Var[X]", seen.var_interval, variance(&intervals)),
            ("peak age", seen.mean_peak_age, mean(&intervals) - 1.0),
            ("Sigma", seen.sigma, sigma),
            ("cohort mean", seen.cohort_mean, mean(&sizes)),
            ("cohort sd", seen.cohort_sd, variance(&sizes).sqrt()),
            ("Jain", seen.jain, counts.iter().sum::<f64>().powi(2) / (12.0 * squares)),
            ("longest wait", seen.longest_wait as f64, longest),
            ("never met", seen.never_met, (66 - met.len()) as f64 / 66.0),
            ("rounds", seen.rounds as f64, rounds as f64),
        ] {
            assert!(close(value, expected), "{name} of {:?}: {value}, {expected}", record.id);
        }
        let never = counts.iter().filter(|&&count| count == 0.0).count();
        assert_eq!(seen.never_selected, never as u64);
        assert_eq!(record.intervals, histogram.into_iter().collect::<Vec<_>>());
        for (client, of_client) in record.clients.iter().enumerate() {
            assert_eq!(f64::from(of_client.selections), counts[client]);
            assert_eq!(of_client.age, ages[client]);
        }
        let selections: u64 = counts.iter().sum::<f64>() as u64;
        assert_eq!(record.selections(), selections);
        // Four bytes for each parameter, there and back.
        let bytes = selections * PARAMETERS as u64 * 4 * 2;
        assert_eq!(study.bytes_moved(record.selections(), record.asked()), bytes);
        assert_eq!(record.rejected(), 0);
    }
}

/// The share of test images that were recognised after each evaluated round, counted from 1.
fn accuracies(record: &Record) -> BTreeMap<u64, f64> {
    let logs = record.logs.iter().filter_map(|log| Some((log.round + 1, log.test.as_ref()?)));
    logs.map(|(round, test)| (round, test.correct.iter().sum::<u64>() as f64 / 200.0)).collect()
}

#[test]
fn learning_is_what_its_definitions_say() {
    let study = varied();
    let (records, models) = play(&study, 2);
    let data = study.dataset();
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    for record in records {
        let seen = accuracies(&record);
        // From round 2 on every third, and the last.
        assert!(seen.keys().copied().eq([2, 5, 8, 11, 14, 17, 18]));
        let curve = record.curve.iter().map(|point| (point.round, point.accuracy));
        assert!(curve.eq(seen.iter().map(|(&round, &accuracy)| (round, accuracy))));
        for target in [0.0, 0.3, 0.5, 0.7, 0.95, 1.0] {
            let first = seen.iter().find(|(_, accuracy)| **accuracy >= target);
            assert_eq!(record.rounds_to(target), first.map(|(&round, _)| round), "{target}");
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
        assert!(close(record.area().unwrap(), mean(&every)));
        assert_eq!(record.final_accuracy(), Some(seen[&18]));
        let model: Vec<f32> = models[&record.id].iter().map(|&bits| f32::from_bits(bits)).collect();
        let score = crew.evaluate(&model, &study.test_samples()).unwrap();
        let last = record.logs[17].test.as_ref().unwrap();
        assert_eq!(last.correct, score.class_correct);
        assert!(close(last.loss.unwrap(), score.loss()));
        let scene = study.scene(record.id.seed).unwrap();
        let mut each: Vec<f64> = (0..12)
            .map(|client| {
                let images = scene.partition.of(client);
                assert_eq!(record.clients[client].samples, images.len());
                let label = |&image: &u32| usize::from(data.train.label(image as usize));
                let per_class = 200 / CLASSES;
                let right = |image| last.correct[label(image)] as f64 / per_class as f64;
                let accuracy = mean(&images.iter().map(right).collect::<Vec<f64>>());
                assert!(close(record.clients[client].accuracy.unwrap(), accuracy));
                accuracy
            })
            .collect();
        each.sort_by(f64::total_cmp);
        // A tenth of twelve clients is two of them, as one would be less than a tenth.
        assert!(close(record.worst_tenth().unwrap(), mean(&each[..2])));
    }
}

#[test]
fn a_run_that_has_not_begun_says_nothing() {
    let study = study(small(&["random"]));
    let record = Record::new(&study, RunId { seed: 1, contender: 0 }, Vec::new()).unwrap();
    assert!(!record.finished && record.curve.is_empty() && record.participation.is_none());
    assert_eq!((record.rounds_to(0.0), record.area(), record.final_accuracy()), (None, None, None));
    assert_eq!((record.worst_tenth(), record.selections(), record.rejected()), (None, 0, 0));
    assert!(record.gaps.is_none() && record.intervals.is_empty());
    assert!(record.clients.iter().all(|client| client.selections == 0));
}

/// Age is credited by an accepted report: whoever's update was not taken goes on waiting.
#[test]
fn an_update_that_was_not_taken_is_counted_and_credits_nobody() {
    let study = study(StudyParams { seeds: 1, ..small(&["random@cold"]) });
    let (mut records, _) = play(&study, 1);
    let record = records.remove(0);
    let mut logs = record.logs;
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
    let record = Record::new(&study, record.id, logs).unwrap();
    assert_eq!(record.rejected(), 2);
    assert!(record.clients.iter().map(|client| client.age).eq(ages));
    assert_eq!(record.selections(), 28);
}
