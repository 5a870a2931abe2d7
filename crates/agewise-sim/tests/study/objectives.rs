//! Selection skew (Definition 1) and the bound of Theorem 1 along real runs.

use crate::worlds::{play, small, study};
use agewise_learn::train::Crew;
use agewise_sim::study::{Record, RoundLog, Study, StudyParams};

/// F_k of every client at a model: mean cross-entropy and half the weight decay times the squared norm.
fn objectives(study: &Study, seed: u32, model: &[f32], crew: &mut Crew) -> Vec<f64> {
    let square: f64 = model.iter().map(|&value| f64::from(value).powi(2)).sum();
    let penalty = f64::from(study.params().weight_decay as f32) / 2.0 * square;
    let scene = study.scene(seed).unwrap();
    (0..12)
        .map(|client| crew.evaluate(model, &study.samples(scene, client)).unwrap().loss() + penalty)
        .collect()
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
    logs.iter().map(|log| RoundLog { gaps: None, final_losses: None, ..log.clone() }).collect()
}

#[test]
fn skew_follows_from_the_logs_and_is_one_for_chance() {
    let policies = ["random", "oldest-first", "markov-optimal"];
    let params = StudyParams { rounds: 5, skew: true, ..small(&policies) };
    let without = StudyParams { skew: false, ..params.clone() };
    let (watched, models) = play(&study(params.clone()), 2);
    let (unwatched, other_models) = play(&study(without), 2);
    assert_eq!(models, other_models);
    let study = study(params);
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    for (record, unwatched) in watched.iter().zip(&unwatched) {
        assert_eq!(plain(&record.logs), unwatched.logs, "looking changes nothing");
        let first = record.logs[0].gaps.as_ref().unwrap();
        let least = &first.optima.as_ref().unwrap().local;
        let end = record.logs[4].final_losses.as_ref().unwrap();
        let scene = study.scene(record.id.seed).unwrap();
        let begin = objectives(&study, record.id.seed, &scene.first, &mut crew);
        let model: Vec<f32> = models[&record.id].iter().map(|&bits| f32::from_bits(bits)).collect();
        let last = objectives(&study, record.id.seed, &model, &mut crew);
        for (one, other) in [(&first.losses, &begin), (end, &last)] {
            assert!(one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-9));
        }
        let mut skews = Vec::new();
        let mut at_the_end = Vec::new();
        for log in &record.logs {
            let gaps = log.gaps.as_ref().unwrap();
            assert!((gaps.expected_weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(gaps.losses.iter().zip(least).all(|(loss, least)| loss > least));
            skews.push(skew_of(&gaps.losses, least, &gaps.expected_weights));
            at_the_end.push(skew_of(end, least, &gaps.expected_weights));
            if record.id.contender == 0 {
                for (skew, losses) in [(skews.last(), &gaps.losses), (at_the_end.last(), end)] {
                    let off = (skew.unwrap() - 1.0).abs();
                    let allowed = tolerance(losses, least, 200.0);
                    assert!(off < allowed && allowed < 0.25, "{off}, {allowed}");
                }
            }
        }
        let seen = record.gaps.as_ref().unwrap().skew.unwrap();
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
    let study = study(StudyParams {
        rounds: 12,
        weight_decay: 0.1,
        batch: 10,
        bound: true,
        ..small(&policies)
    });
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    let records = play(&study, 2).0;
    for record in &records {
        let scene = study.scene(record.id.seed).unwrap();
        let gaps = record.gaps.as_ref().unwrap();
        let constants = gaps.constants.as_ref().unwrap();
        // Before the first round, after each, and F* from the optimum itself.
        assert!(gaps.error.iter().map(|&(rounds, _)| rounds).eq(0..=12));
        let mean = |model: &[f32], crew: &mut Crew| {
            objectives(&study, record.id.seed, model, crew).iter().sum::<f64>() / 12.0
        };
        let least = mean(&constants.optimum, &mut crew);
        assert!((least - constants.optimum_value).abs() < 1e-6);
        let begin = mean(&scene.first, &mut crew) - least;
        assert!((gaps.error[0].1 - begin).abs() < 1e-6, "{begin}, {:?}", gaps.error);
        let bound = study.bound(record.id.contender, scene, gaps).unwrap();
        for &(rounds, error) in &gaps.error {
            let above = bound.after(rounds).total();
            assert!(error > -1e-9 && error < above, "after {rounds}: {error}, {above}");
        }
        assert!(gaps.error[12].1 < gaps.error[0].1, "{:?}", gaps.error);
    }
    // One seed has one set of constants, whoever asked first.
    for pair in records.windows(2).filter(|pair| pair[0].id.seed == pair[1].id.seed) {
        let constants = |record: &Record| record.gaps.as_ref().unwrap().constants.clone();
        assert_eq!(constants(&pair[0]), constants(&pair[1]));
    }
}

#[test]
fn without_being_asked_nothing_is_looked_at() {
    for record in play(&study(small(&["random"])), 1).0 {
        assert!(record.gaps.is_none() && record.logs.iter().all(|log| log.gaps.is_none()));
    }
}

/// Evaluations after rounds 2, 4, 6: a run that ends at one of them has a last model, so it has a skew.
#[test]
fn a_run_that_stops_at_its_target_has_a_skew() {
    let study = study(StudyParams {
        rounds: 40,
        eval_every: 2,
        eval_from: 2,
        targets: vec![0.5],
        stop_at_target: true,
        skew: true,
        seeds: 1,
        ..small(&["random"])
    });
    for record in play(&study, 1).0 {
        assert!(record.finished && record.logs.len() < 40, "{} rounds", record.logs.len());
        assert!(record.gaps.unwrap().skew.is_some());
    }
}
