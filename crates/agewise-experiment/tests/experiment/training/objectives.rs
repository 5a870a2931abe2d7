//! Selection skew (Definition 1) and the bound of Theorem 1 along real runs.

use super::worlds::{experiment, logs, play, small, trained};
use agewise_experiment::objective::ObjectiveRecord;
use agewise_experiment::{Experiment, ExperimentParams, Record, RoundLog};

/// F_k of every client at a model: mean cross-entropy and half the weight decay times the squared norm.
fn objectives(experiment: &Experiment, seed: u32, model: &[f32]) -> Vec<f64> {
    let square: f64 = model.iter().map(|&value| f64::from(value).powi(2)).sum();
    let decay = experiment.training().unwrap().weight_decay as f32;
    let penalty = f64::from(decay) / 2.0 * square;
    let (task, key) = (experiment.task().unwrap(), experiment.partition_key(seed));
    (0..12).map(|client| task.client_loss(key, client, model).unwrap() + penalty).collect()
}

fn objectives_of(record: &Record) -> &ObjectiveRecord {
    record.training.as_ref().unwrap().objectives.as_ref().unwrap()
}

/// The skew of a round for equal shares, by its definition.
fn skew_of(losses: &[f64], least: &[f64], weights: &[f64]) -> f64 {
    let gaps: Vec<f64> = losses.iter().zip(least).map(|(loss, least)| loss - least).collect();
    let weighted: f64 = gaps.iter().zip(weights).map(|(gap, weight)| gap * weight).sum();
    weighted / (gaps.iter().sum::<f64>() / gaps.len() as f64)
}

/// Five standard deviations of the skew of `random`, whose expected weights are means over so many cohorts drawn again:
/// the mean gap of m of n clients has the variance (n - m) / (n - 1) / m of a gap.
fn tolerance(losses: &[f64], least: &[f64], redraws: f64) -> f64 {
    let gaps: Vec<f64> = losses.iter().zip(least).map(|(loss, least)| loss - least).collect();
    let mean = gaps.iter().sum::<f64>() / 12.0;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 12.0;
    5.0 * (variance * 8.0 / 11.0 / 4.0 / redraws).sqrt() / mean
}

fn plain(logs: &[RoundLog]) -> Vec<RoundLog> {
    logs.iter()
        .map(|log| RoundLog { objectives: None, final_losses: None, ..log.clone() })
        .collect()
}

#[test]
fn skew_follows_from_the_logs_and_is_one_for_chance() {
    let policies = ["random", "oldest-first", "markov-optimal"];
    let without = ExperimentParams { rounds: 5, ..small(&policies) };
    let params = trained(without.clone(), |training| training.skew = true);
    let (watched, models) = play(&experiment(params.clone()), 2);
    let (unwatched, other_models) = play(&experiment(without), 2);
    assert_eq!(models, other_models);
    let experiment = experiment(params);
    for (record, unwatched) in watched.iter().zip(&unwatched) {
        let logs = logs(record);
        assert_eq!(plain(logs), super::worlds::logs(unwatched), "looking changes nothing");
        let first = logs[0].objectives.as_ref().unwrap();
        let least = &first.optima.as_ref().unwrap().local;
        let end = logs[4].final_losses.as_ref().unwrap();
        let context = experiment.context(record.id.seed).unwrap();
        let begin = objectives(&experiment, record.id.seed, &context.first_model);
        let model: Vec<f32> = models[&record.id].iter().map(|&bits| f32::from_bits(bits)).collect();
        let last = objectives(&experiment, record.id.seed, &model);
        for (one, other) in [(&first.losses, &begin), (end, &last)] {
            assert!(one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-9));
        }
        let mut skews = Vec::new();
        let mut at_the_end = Vec::new();
        for log in logs {
            let gaps = log.objectives.as_ref().unwrap();
            assert!((gaps.expected_weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(gaps.losses.iter().zip(least).all(|(loss, least)| loss > least));
            skews.push(skew_of(&gaps.losses, least, &gaps.expected_weights));
            at_the_end.push(skew_of(end, least, &gaps.expected_weights));
            if record.id.variant == 0 {
                for (skew, losses) in [(skews.last(), &gaps.losses), (at_the_end.last(), end)] {
                    let off = (skew.unwrap() - 1.0).abs();
                    let allowed = tolerance(losses, least, 200.0);
                    assert!(off < allowed && allowed < 0.25, "{off}, {allowed}");
                }
            }
        }
        let seen = objectives_of(record).skew.unwrap();
        let smallest = |skews: &[f64]| skews.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = at_the_end.iter().copied().fold(0.0, f64::max);
        let mean = skews.iter().sum::<f64>() / 5.0;
        for (value, expected) in [
            (seen.min, smallest(&skews)),
            (seen.mean, mean),
            (seen.min_at_optimum, smallest(&at_the_end)),
            (seen.max, largest),
        ] {
            assert!((value.unwrap() - expected).abs() < 1e-9, "{seen:?}");
        }
    }
}

#[test]
fn the_bound_lies_above_the_error() {
    let policies = ["random", "markov-optimal", "oldest-first"];
    let params = ExperimentParams { rounds: 12, ..small(&policies) };
    let experiment = experiment(trained(params, |training| {
        (training.weight_decay, training.batch, training.bound) = (0.1, 10, true);
    }));
    let records = play(&experiment, 2).0;
    for record in &records {
        let context = experiment.context(record.id.seed).unwrap();
        let gaps = objectives_of(record);
        let constants = gaps.constants.as_ref().unwrap();
        // Before the first round, after each, and F* from the optimum itself.
        assert!(gaps.error.iter().map(|&(rounds, _)| rounds).eq(0..=12));
        let mean = |model: &[f32]| {
            objectives(&experiment, record.id.seed, model).iter().sum::<f64>() / 12.0
        };
        let least = mean(&constants.optimum);
        assert!((least - constants.optimum_value).abs() < 1e-6);
        let begin = mean(&context.first_model) - least;
        assert!((gaps.error[0].1 - begin).abs() < 1e-6, "{begin}, {:?}", gaps.error);
        let bound = experiment.bound(record.id.variant, context, gaps).unwrap();
        for &(rounds, error) in &gaps.error {
            let above = bound.proven(rounds).total();
            assert!(error > -1e-9 && error < above, "after {rounds}: {error}, {above}");
        }
        assert!(gaps.error[12].1 < gaps.error[0].1, "{:?}", gaps.error);
    }
    // One seed has one set of constants, whoever asked first.
    for pair in records.windows(2).filter(|pair| pair[0].id.seed == pair[1].id.seed) {
        let constants = |record: &Record| objectives_of(record).constants.clone();
        assert_eq!(constants(&pair[0]), constants(&pair[1]));
    }
}

#[test]
fn without_being_asked_nothing_is_looked_at() {
    for record in play(&experiment(small(&["random"])), 1).0 {
        assert!(record.training.as_ref().unwrap().objectives.is_none());
        assert!(logs(&record).iter().all(|log| log.objectives.is_none()));
    }
}

/// Evaluations after rounds 2, 4, 6: a run that ends at one of them has a last model, so it has a skew.
#[test]
fn a_run_that_stops_at_its_target_has_a_skew() {
    let params = ExperimentParams { rounds: 40, seeds: 1, ..small(&["random"]) };
    let experiment = experiment(trained(params, |training| {
        (training.eval_every, training.eval_from) = (2, 2);
        (training.targets, training.stop_at_target) = (vec![0.5], true);
        training.skew = true;
    }));
    for record in play(&experiment, 1).0 {
        let rounds = record.rounds.len();
        assert!(record.finished && rounds < 40, "{rounds} rounds");
        assert!(objectives_of(&record).skew.is_some());
    }
}
