//! Training without rounds: a buffer, or a step for each update.

use super::worlds::{CLASSES, Dir, experiment, logs, made_up, play_in_memory, small, trained};
use agewise_core::Weighting;
use agewise_experiment::{ClockParams, Experiment, ExperimentParams, TestScore, Unit};
use agewise_train::Threads;
use agewise_train::task::TrainJob;
use std::collections::BTreeMap;

/// 12 clients of which 4 work at any moment, on devices and links that differ.
fn timed(policies: &[&str]) -> ExperimentParams {
    let params = trained(small(policies), |training| training.speeds = "lognormal:1".to_string());
    let links = "lognormal:0.5@0.05,0.02".to_string();
    let clock = ClockParams { links, ..ClockParams::default() };
    ExperimentParams { clock: Some(clock), rounds: 6, ..params }
}

/// Every policy that fills places, with every rule.
const POLICIES: [&str; 9] = [
    "random/buffered:3",
    "oldest-first/async",
    "round-robin/buffered:2(exponent=1)",
    "age-herding/buffered:3",
    "oort/async(mixing=0.9)",
    "power-of-choice/buffered:2",
    "active/buffered:2",
    "divfl/async",
    "clustered(by=2)/buffered:2",
];

#[test]
fn threads_and_interruptions_change_nothing() {
    let mut params = timed(&POLICIES);
    params.world.dropout = 0.2;
    params.world.availability = "on-off:5,1".to_string();
    (params.world.join, params.world.leave) = (0.02, 0.01);
    let experiment = experiment(ExperimentParams { seeds: 1, ..params });
    let whole = Dir::new(&experiment);
    let records = whole.play(&experiment, 2);
    assert!(records.iter().all(|record| record.finished));
    assert!(records.iter().flat_map(logs).any(|log| !log.dropped.is_empty()));
    for (threads, rounds) in [(1, 23), (3, 50)] {
        let broken = Dir::new(&experiment);
        broken.play_until(&experiment, threads, rounds);
        broken.play_until(&experiment, 1, 17);
        assert_eq!(broken.play(&experiment, threads), records);
        assert_eq!(broken.files(), whole.files());
    }
}

/// At any moment as many clients work as a cohort has, each once, and a step takes the updates of its buffer.
#[test]
fn places_are_filled_at_once() {
    let experiment = experiment(timed(&POLICIES));
    for record in play_in_memory(&experiment, 2) {
        let schedule = experiment.variant(record.id).unwrap().schedule();
        let updates = schedule.updates_per_step().unwrap() as usize;
        // By client, the step in which it was asked.
        let mut at_work = BTreeMap::new();
        for log in logs(&record) {
            let asked = log.asks.iter().flat_map(|ask| ask.clients.iter().copied());
            for client in asked {
                assert_eq!(at_work.insert(client, log.round), None, "one job at a time");
            }
            assert_eq!(log.clients.len(), updates);
            for (client, staleness) in log.clients.iter().zip(&log.staleness) {
                assert_eq!(at_work.remove(client), Some(log.round - staleness));
            }
            // The last update of a step leaves a place that the next step fills.
            assert_eq!(at_work.len(), 3);
        }
        // Six rounds of four updates.
        let steps = 24 / updates;
        assert_eq!(logs(&record).len(), steps);
        let asked: usize =
            logs(&record).iter().flat_map(|log| &log.asks).map(|a| a.clients.len()).sum();
        assert_eq!(asked, steps * updates + 3);
    }
}

/// The model of every step again, from who arrived and how stale: each client from the model that it was sent.
#[test]
fn the_model_moves_as_the_papers_say() {
    let experiment = experiment(ExperimentParams {
        weighting: Some(Weighting::Uniform),
        seeds: 1,
        ..timed(&[
            "random/buffered:3",
            "oldest-first/async(mixing=0.7)",
            "random/buffered:2(exponent=1)",
        ])
    });
    let dir = Dir::new(&experiment);
    let records = dir.play(&experiment, 2);
    let models = dir.models(&experiment);
    let (task, context) = (experiment.task().unwrap(), experiment.context(0).unwrap());
    for (record, (mixing, exponent)) in
        records.iter().zip([(None, 0.5), (Some(0.7), 0.5), (None, 1.0)])
    {
        let mut sent = vec![context.first_model.clone()];
        let mut staleness = 0;
        for log in logs(record) {
            let now = sent.last().unwrap().clone();
            let mut next = vec![0.0f64; now.len()];
            for (&client, &stale) in log.clients.iter().zip(&log.staleness) {
                staleness += stale;
                let begin = &sent[(log.round - stale) as usize];
                let mut update = begin.clone();
                let job = TrainJob::round(context.key, log.round - stale, client);
                task.train(&job, &mut update).unwrap();
                let discount = (1.0 + stale as f64).powf(-exponent);
                for (place, next) in next.iter_mut().enumerate() {
                    let (now, begin) = (f64::from(now[place]), f64::from(begin[place]));
                    let update = f64::from(update[place]);
                    let moved = match mixing {
                        None => discount * (update - begin),
                        Some(mixing) => mixing * discount * (update - now),
                    };
                    *next += (now + moved) / log.clients.len() as f64;
                }
            }
            sent.push(next.iter().map(|&value| value as f32).collect());
            let Some(told) = log.test.as_ref().and_then(TestScore::accuracy) else {
                continue;
            };
            let accuracy = task.evaluate_all(sent.last().unwrap(), Threads::ONE).unwrap();
            // A parameter that differs by a rounding may move an image across a border.
            let share = accuracy.class_correct.iter().sum::<u64>() as f64 / 200.0;
            assert!((told - share).abs() <= 0.01, "step {}: {told}, {share}", log.round);
        }
        assert!(staleness > 8, "{staleness}");
        let model: Vec<f32> = models[&record.id].iter().map(|&bits| f32::from_bits(bits)).collect();
        for (found, expected) in model.iter().zip(sent.last().unwrap()) {
            assert!((found - expected).abs() < 1e-4, "{found}, {expected}");
        }
    }
}

/// Who is free and oldest is asked next: in a calm fleet of equal clients everyone's turn comes in order.
#[test]
fn the_oldest_free_client_is_next() {
    let params = trained(timed(&["oldest-first@cold/buffered:2"]), |training| {
        training.speeds = "equal".to_string();
    });
    let mut params = ExperimentParams { rounds: 30, seeds: 1, ..params };
    params.clock.as_mut().unwrap().links = "none".to_string();
    let record = play_in_memory(&experiment(params), 1).pop().unwrap();
    let counts: Vec<u32> =
        record.training.as_ref().unwrap().clients.iter().map(|client| client.selections).collect();
    assert_eq!(counts, [10; 12]);
    // 12 clients, 2 updates per step: everyone is credited once in 6 steps, and from ages 0 for the first time after 1 to 6.
    let mean = (108.0 * 6.0 + 12.0 * 3.5) / 120.0;
    assert_eq!(record.load.as_ref().unwrap().mean_interval, Some(mean));
    assert_eq!(record.load.as_ref().unwrap().longest_wait, 6);
    assert!(logs(&record)[1].test.as_ref().unwrap().class_samples.len() == CLASSES);
}

/// A round is as many updates as a cohort has clients, whatever a step takes: runs are as long, and models are evaluated
/// after the same number of updates.
#[test]
fn schedules_are_compared_by_updates() {
    let policies =
        ["random", "random/buffered:2", "random/async", "random/buffered:3", "random/buffered:8"];
    let params = trained(timed(&policies), |training| {
        (training.eval_from, training.eval_every) = (2, 3);
    });
    let experiment = experiment(ExperimentParams { rounds: 9, seeds: 1, ..params });
    // Four updates are a round: 9 of them, or steps of 2, 1, 3 or 8.
    let steps = [9, 18, 36, 12, 5];
    // After rounds 2, 5 and 8, and at the end.
    let evaluated = [
        vec![2, 5, 8, 9],
        vec![4, 10, 16, 18],
        vec![8, 20, 32, 36],
        vec![3, 7, 11, 12],
        vec![1, 3, 4, 5],
    ];
    for record in play_in_memory(&experiment, 2) {
        let training = record.training.as_ref().unwrap();
        let variant = record.id.variant;
        assert_eq!(training.logs.len(), steps[variant]);
        let at: Vec<u64> = training.curve.iter().map(|point| point.step).collect();
        assert_eq!(at, evaluated[variant], "{}", policies[variant]);
        let rounds: Vec<u64> = training.curve.iter().map(|point| point.round).collect();
        // Steps of 8 updates are 2 rounds each.
        let expected = if variant == 4 { vec![2, 6, 8, 9] } else { vec![2, 5, 8, 9] };
        assert_eq!(rounds, expected);
        let spent = training.cost_to(1.0, Unit::Rounds).unwrap();
        let updates = training.logs.iter().map(|log| log.clients.len()).sum::<usize>();
        assert_eq!((spent.amount, spent.reached), (updates as f64 / 4.0, false));
    }
}

#[test]
fn what_has_no_meaning_without_rounds_is_refused() {
    let named = |change: &dyn Fn(&mut ExperimentParams)| {
        let mut params = timed(&["random/buffered:3"]);
        change(&mut params);
        params.baseline = None;
        let error = Experiment::with_data(params, made_up()).err();
        error.map_or(String::new(), |error| error.to_string())
    };
    let policy = |text: &str| {
        let text = text.to_string();
        named(&move |params: &mut ExperimentParams| params.policies[0].clone_from(&text))
    };
    assert_eq!(named(&|_| ()), "");
    assert_eq!(policy("random/buffered:8"), "");
    let error = policy("random/buffered:9");
    assert!(error.contains("schedule = buffered:9") && error.contains("at most 8"), "{error}");
    for name in ["markov-optimal/async", "phased/buffered:2"] {
        let error = policy(name);
        assert!(error.contains("fills free places"), "{error}");
    }
    let error = named(&|params| params.weighting = Some(Weighting::Unbiased));
    assert!(error.starts_with("weighting = unbiased"), "{error}");
    let error = named(&|params| params.training.as_mut().unwrap().skew = true);
    assert!(error.starts_with("skew = true"), "{error}");
}
