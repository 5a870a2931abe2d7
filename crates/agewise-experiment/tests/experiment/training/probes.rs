//! Policies that probe before they select, and that look at sketches: what they are told, what it costs, and that it
//! comes back.

use super::resuming::unbroken;
use super::worlds::{FIELD, PARAMETERS, bits, experiment, field, logs, play, run, small, trained};
use agewise_core::{Availability, Report, Selector};
use agewise_experiment::{Experiment, ExperimentParams, RoundLog, RunId, Summary, TrainingRun};
use agewise_train::Threads;
use agewise_train::checkpoint::Checkpoint;
use agewise_train::data::embedded_digits;

/// The selector that a run began with.
fn selector(experiment: &Experiment, id: RunId) -> Selector {
    let context = experiment.context(id.seed).unwrap();
    let policy = experiment.variant(id).unwrap().policy();
    Selector::from_variant(policy, context.setting.clone(), context.seed).unwrap()
}

/// Ends a round of a selector with everything that clients report in an experiment but sketches.
fn finish(experiment: &Experiment, selector: &mut Selector, log: &RoundLog) {
    let context = experiment.context(0).unwrap();
    let reports: Vec<Report<'_>> = log
        .clients
        .iter()
        .enumerate()
        .map(|(place, &client)| Report {
            loss: log.losses[place],
            duration: Some(context.durations[client as usize]),
            root_mean_square: log.root_mean_squares.get(place).copied().flatten(),
            ..Report::plain(client)
        })
        .collect();
    selector.finish(&reports).unwrap();
}

/// The mean loss of all images of a client.
fn loss(experiment: &Experiment, client: u32, model: &[f32]) -> f64 {
    experiment.task().unwrap().client_loss(experiment.partition_key(0), client, model).unwrap()
}

/// Of the candidates of each round those are chosen whose loss is highest under the model that the round begins with,
/// found by looking at all of their images.
#[test]
fn losses_are_those_under_the_present_model() {
    let experiment = experiment(ExperimentParams { rounds: 5, ..small(&["power-of-choice(d=7)"]) });
    let mut selector = selector(&experiment, run(0, 0));
    let mut run = TrainingRun::new(&experiment, run(0, 0)).unwrap();
    while !run.is_finished() {
        let probes = selector.probes(Availability::Everyone).unwrap();
        let mut candidates: Vec<u32> = probes.iter().map(|probe| probe.client).collect();
        assert_eq!(candidates.len(), 7);
        let key = |client: &u32| (-1e6 * loss(&experiment, *client, run.global())) as i64;
        candidates.sort_by_cached_key(key);
        let mut expected = candidates[..4].to_vec();
        expected.sort_unstable();
        run.play_round(Threads::new(2).unwrap()).unwrap();
        let log = run.logs().last().unwrap();
        assert_eq!(log.clients, expected, "round {}", log.round);
        finish(&experiment, &mut selector, log);
    }
}

/// What oort needs beyond the logs follows from the configuration: a selector that is told that chooses the same.
#[test]
fn durations_and_squares_reach_the_policy() {
    let params = ExperimentParams { policies: vec!["oort".to_string()], ..field() };
    let experiment = experiment(ExperimentParams { baseline: None, rounds: 12, ..params });
    let (records, _) = play(&experiment, 1);
    let mut selector = selector(&experiment, run(0, 0));
    for log in logs(&records[0]) {
        let cohort = selector.select(Availability::Everyone).unwrap();
        assert_eq!(cohort.clients, log.clients, "round {}", log.round);
        assert_eq!(log.root_mean_squares.len(), log.clients.len());
        for (root, loss) in log.root_mean_squares.iter().zip(&log.losses) {
            assert!(
                root.unwrap() >= 0.999 * loss.unwrap(),
                "the root of a mean square is not less"
            );
        }
        finish(&experiment, &mut selector, log);
    }
    assert!(selector.state().policy[1] > 0.0, "the pacer knows durations");
}

/// Everyone's valuation comes from all of its images under the model that the round began with, first by a question and
/// then from whoever trained; what is met while training is something else.
#[test]
fn active_hears_of_all_images_and_not_of_batches() {
    let experiment = experiment(ExperimentParams { rounds: 6, seeds: 1, ..small(&["active"]) });
    let mut selector = selector(&experiment, run(0, 0));
    let mut run = TrainingRun::new(&experiment, run(0, 0)).unwrap();
    while !run.is_finished() {
        let loss = |client: u32| loss(&experiment, client, run.global()) as f32;
        let losses: Vec<(u32, f32)> = (0..12).map(|client| (client, loss(client))).collect();
        run.play_round(Threads::new(2).unwrap()).unwrap();
        let log = run.logs().last().unwrap();
        if log.round == 0 {
            assert_eq!((&log.first_losses, log.probed), (&losses, 8));
            let said =
                losses.iter().map(|&(c, loss)| Report { loss: Some(loss), ..Report::plain(c) });
            selector.observe(&said.collect::<Vec<_>>()).unwrap();
        } else {
            assert!(log.first_losses.is_empty() && log.probed == 0);
        }
        assert_eq!(log.clients, selector.select(Availability::Everyone).unwrap().clients);
        let whole: Vec<f32> = log.clients.iter().map(|&c| losses[c as usize].1).collect();
        assert_eq!(log.whole_losses, whole, "round {}", log.round);
        assert!(log.losses.iter().zip(&whole).any(|(batches, whole)| *batches != Some(*whole)));
        let plain = |(&client, &loss)| Report { loss: Some(loss), ..Report::plain(client) };
        selector.finish(&log.clients.iter().zip(&whole).map(plain).collect::<Vec<_>>()).unwrap();
    }
}

/// `divfl` compares updates by length too, so what it asks for is what a client would send if it were chosen, and longer
/// than one step.
#[test]
fn divfl_asks_for_a_whole_round() {
    let policies = ["divfl", "clustered(by=2)", "age-herding"];
    let experiment = experiment(ExperimentParams { seeds: 1, ..small(&policies) });
    let first = |variant| unbroken(&experiment, run(0, variant)).1.swap_remove(1);
    let (asked, sent, one_step) = (first(0), first(1), first(2));
    assert_eq!((asked.sketched.len(), sent.sketched.len()), (12, 4));
    let of = |checkpoint: &Checkpoint, client: u32| {
        let place = checkpoint.sketched.iter().position(|&other| other == client).unwrap();
        checkpoint.sketches[place * PARAMETERS..][..PARAMETERS].to_vec()
    };
    for &client in &sent.sketched {
        assert_eq!(of(&asked, client), of(&sent, client), "client {client}");
    }
    let length = |sketch: Vec<f32>| sketch.iter().map(|number| number * number).sum::<f32>();
    let shorter = |&client: &u32| length(of(&one_step, client)) < length(of(&asked, client));
    assert!(asked.sketched.iter().filter(|client| shorter(client)).count() > 6);
}

#[test]
fn a_probe_is_counted_and_moves_a_model() {
    let policies = [
        "random",
        "power-of-choice",
        "power-of-choice(d=12)",
        "age-herding",
        "age-herding(probe=0)",
    ];
    let experiment = experiment(small(&policies));
    let (records, _) = play(&experiment, 2);
    let summary = Summary::new(&experiment, &records).unwrap();
    for record in &records {
        let probed: Vec<u32> = logs(record).iter().map(|log| log.probed).collect();
        let expected = match record.id.variant {
            // Of the candidates 4 are chosen and need no second copy.
            1 => [4; 7],
            2 => [8; 7],
            // All clients are probed for a sketch before the first round, and none later.
            3 => [8, 0, 0, 0, 0, 0, 0],
            _ => [0; 7],
        };
        assert_eq!(probed, expected, "{}", policies[record.id.variant]);
        let probed: u64 = expected.iter().sum::<u32>().into();
        assert_eq!(record.training.as_ref().unwrap().probed(), probed);
        // 7 rounds of 4 clients get a model and send one; a client that is only probed gets one.
        let bytes = (2 * 28 + probed) * 4 * PARAMETERS as u64;
        assert_eq!(experiment.bytes_moved(record), Some(bytes));
        let mean = &summary.policies[record.id.variant].means["bytes_moved"];
        assert_eq!(mean.mean, bytes as f64);
    }
}

/// What nobody looks at is not written down.
#[test]
fn logs_of_policies_that_do_not_probe_say_nothing_of_it() {
    let params = ExperimentParams { seeds: 1, ..small(&["random", "oldest-first"]) };
    let experiment = experiment(params);
    for record in play(&experiment, 1).0 {
        for log in logs(&record) {
            assert!(log.root_mean_squares.is_empty() && log.probed == 0);
        }
    }
    let run = TrainingRun::new(&experiment, run(0, 0)).unwrap();
    assert_eq!(run.sketches(), (vec![], vec![]));
}

#[test]
fn sketches_are_kept_of_whoever_trained() {
    let policies = ["clustered(by=2)", "age-herding(probe=0)"];
    let experiment = experiment(ExperimentParams { seeds: 1, ..small(&policies) });
    for variant in 0..policies.len() {
        let (run, kept) = unbroken(&experiment, run(0, variant));
        for (round, checkpoint) in kept.iter().enumerate() {
            let logs = &run.logs()[..round];
            let mut seen: Vec<u32> = logs.iter().flat_map(|log| log.clients.clone()).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(checkpoint.sketched, seen, "after {round} rounds");
            // The only layer of this model is small enough to be kept as it is.
            assert_eq!(checkpoint.sketches.len(), seen.len() * PARAMETERS);
        }
    }
}

/// A field that an error should name, and what is done to a checkpoint for it.
type Damage<'a> = (&'a str, &'a dyn Fn(&mut Checkpoint));

/// What is done to a checkpoint.
type Change<'a> = &'a dyn Fn(&mut Checkpoint);

#[test]
fn sketches_that_do_not_fit_are_refused() {
    let experiment = experiment(ExperimentParams { seeds: 1, ..small(&["age-herding", "random"]) });
    let (whole, kept) = unbroken(&experiment, run(0, 0));
    let good = &kept[3];
    assert_eq!((good.sketched.len(), good.sketches.len()), (12, 12 * PARAMETERS));
    let field = |variant: usize, change: Change<'_>| {
        let mut changed = good.clone();
        change(&mut changed);
        let logs = whole.logs().to_vec();
        let resumed = TrainingRun::resume(&experiment, run(0, variant), logs, changed);
        resumed.err().map(|error| error.field().to_string())
    };
    assert_eq!(field(0, &|_| ()), None);
    let wrong: [Damage<'_>; 6] = [
        ("checkpoint", &|c| c.sketches.truncate(12 * (PARAMETERS - 1))),
        ("checkpoint", &|c| c.sketches.push(0.0)),
        ("checkpoint", &|c| c.sketched.truncate(11)),
        ("client", &|c| c.sketched[11] = 12),
        ("client", &|c| c.sketched[0] = u32::MAX),
        ("sketch of client 0", &|c| c.sketches[5] = f32::NAN),
    ];
    for (case, (name, change)) in wrong.into_iter().enumerate() {
        assert_eq!(field(0, change).as_deref(), Some(name), "case {case}");
    }
    // A policy that looks at no sketches gets none; the logs of the other policy would do.
    assert_eq!(field(1, &|_| ()).as_deref(), Some("checkpoint"));
    assert_eq!(field(1, &|c| c.sketches.clear()).as_deref(), Some("checkpoint"));
    let nothing = |c: &mut Checkpoint| (c.sketched, c.sketches) = (vec![], vec![]);
    assert_eq!(field(1, &nothing), None);
}

/// Real images, and a layer that is folded into 512 numbers.
#[test]
fn on_the_digits_a_run_goes_on_as_if_nothing_had_happened() {
    let params = || {
        let params = ExperimentParams { clients: 20, seeds: 1, ..field() };
        trained(params, |training| training.partition = "shards:2".to_string())
    };
    let digits = || Experiment::with_data(params(), embedded_digits().unwrap()).unwrap();
    let experiment = digits();
    for (variant, policy) in FIELD.iter().enumerate() {
        let id = run(0, variant);
        let (whole, kept) = unbroken(&experiment, id);
        for round in [0, 1, 3, 6] {
            let fresh = digits();
            let logs = whole.logs().to_vec();
            let mut run = TrainingRun::resume(&fresh, id, logs, kept[round].clone()).unwrap();
            while !run.is_finished() {
                run.play_round(Threads::new(3).unwrap()).unwrap();
            }
            assert_eq!(run.logs(), whole.logs(), "{policy} from round {round}");
            assert_eq!(bits(run.global()), bits(whole.global()), "{policy} from round {round}");
            assert_eq!(run.sketches(), whole.sketches(), "{policy} from round {round}");
        }
    }
}
