//! Policies that ask before they choose, and that look at sketches: what they are told, what it costs, and that it
//! comes back.

use crate::resuming::unbroken;
use crate::worlds::{FIELD, PARAMETERS, bits, field, play, small, study};
use agewise_core::{Availability, Report, Selector};
use agewise_learn::data::embedded_digits;
use agewise_learn::train::Crew;
use agewise_sim::study::{
    Checkpoint, RoundLog, RunId, Study, StudyParams, StudySummary, TrainingRun,
};

fn run_of(contender: usize) -> RunId {
    RunId { seed: 0, contender }
}

/// The selector that a run began with.
fn selector(study: &Study, id: RunId) -> Selector {
    let contender = &study.contenders()[id.contender];
    let scene = study.scene(id.seed).unwrap();
    let setting = scene.setting.clone();
    Selector::new(&contender.spec, setting, scene.seed, contender.start).unwrap()
}

/// Ends a round of a selector with everything that clients report in a study but sketches.
fn finish(study: &Study, selector: &mut Selector, log: &RoundLog) {
    let scene = study.scene(0).unwrap();
    let reports: Vec<Report<'_>> = log
        .clients
        .iter()
        .enumerate()
        .map(|(place, &client)| Report {
            loss: log.losses[place],
            duration: Some(scene.durations[client as usize]),
            root_mean_square: log.root_mean_squares.get(place).copied().flatten(),
            ..Report::plain(client)
        })
        .collect();
    selector.finish(&reports).unwrap();
}

/// Of the candidates of each round those are chosen whose loss is highest under the model that the round begins with,
/// found by looking at all of their images.
#[test]
fn losses_are_those_under_the_present_model() {
    let study = study(StudyParams { rounds: 5, ..small(&["power-of-choice(d=7)"]) });
    let mut crew = Crew::new(study.trainer(), 2).unwrap();
    let mut run = TrainingRun::new(&study, run_of(0)).unwrap();
    let mut selector = selector(&study, run_of(0));
    let scene = study.scene(0).unwrap();
    while !run.is_finished() {
        let mut candidates = selector.asks(Availability::Everyone).unwrap();
        assert_eq!(candidates.len(), 7);
        let mut loss = |client: u32| {
            crew.evaluate(run.global(), &study.samples(scene, client)).unwrap().loss()
        };
        candidates.sort_by_cached_key(|&client| (-1e6 * loss(client)) as i64);
        let mut expected = candidates[..4].to_vec();
        expected.sort_unstable();
        run.play_round(&mut crew).unwrap();
        let log = run.logs().last().unwrap();
        assert_eq!(log.clients, expected, "round {}", log.round);
        finish(&study, &mut selector, log);
    }
}

/// What oort needs beyond the logs follows from the configuration: a selector that is told that chooses the same.
#[test]
fn durations_and_squares_reach_the_policy() {
    let params = StudyParams { policies: vec!["oort".to_string()], ..field() };
    let study = study(StudyParams { baseline: "oort".to_string(), rounds: 12, ..params });
    let (records, _) = play(&study, 1);
    let mut selector = selector(&study, run_of(0));
    for log in &records[0].logs {
        let cohort = selector.select(Availability::Everyone).unwrap();
        assert_eq!(cohort.clients, log.clients, "round {}", log.round);
        assert_eq!(log.root_mean_squares.len(), log.clients.len());
        for (root, loss) in log.root_mean_squares.iter().zip(&log.losses) {
            assert!(
                root.unwrap() >= 0.999 * loss.unwrap(),
                "the root of a mean square is not less"
            );
        }
        finish(&study, &mut selector, log);
    }
    assert!(selector.state().memory[1] > 0.0, "the pacer knows durations");
}

/// Everyone's valuation comes from all of its images under the model that the round began with, first by a question and
/// then from whoever trained; what is met while training is something else.
#[test]
fn active_hears_of_all_images_and_not_of_batches() {
    let params = StudyParams { baseline: "active".to_string(), ..small(&["active"]) };
    let study = study(StudyParams { rounds: 6, seeds: 1, ..params });
    let mut crew = Crew::new(study.trainer(), 2).unwrap();
    let mut run = TrainingRun::new(&study, run_of(0)).unwrap();
    let mut selector = selector(&study, run_of(0));
    let scene = study.scene(0).unwrap();
    while !run.is_finished() {
        let mut loss = |client: u32| {
            let score = crew.evaluate(run.global(), &study.samples(scene, client)).unwrap();
            score.loss() as f32
        };
        let losses: Vec<(u32, f32)> = (0..12).map(|client| (client, loss(client))).collect();
        run.play_round(&mut crew).unwrap();
        let log = run.logs().last().unwrap();
        if log.round == 0 {
            assert_eq!((&log.first_losses, log.asked), (&losses, 8));
            let said =
                losses.iter().map(|&(c, loss)| Report { loss: Some(loss), ..Report::plain(c) });
            selector.note(&said.collect::<Vec<_>>()).unwrap();
        } else {
            assert!(log.first_losses.is_empty() && log.asked == 0);
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
    let params = StudyParams { baseline: "divfl".to_string(), ..small(&policies) };
    let study = study(StudyParams { seeds: 1, ..params });
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    let mut first = |contender| unbroken(&study, run_of(contender), &mut crew).1.swap_remove(1);
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
fn who_is_asked_is_counted_and_moves_a_model() {
    let policies = [
        "random",
        "power-of-choice",
        "power-of-choice(d=12)",
        "age-herding",
        "age-herding(probe=0)",
    ];
    let study = study(small(&policies));
    let (records, _) = play(&study, 2);
    let summary = StudySummary::new(&study, &records);
    for record in &records {
        let asked: Vec<u32> = record.logs.iter().map(|log| log.asked).collect();
        let expected = match record.id.contender {
            // Of the candidates 4 are chosen and need no second copy.
            1 => [4; 7],
            2 => [8; 7],
            // Everyone is asked for a sketch before the first round, and nobody later.
            3 => [8, 0, 0, 0, 0, 0, 0],
            _ => [0; 7],
        };
        assert_eq!(asked, expected, "{}", policies[record.id.contender]);
        let asked: u64 = expected.iter().sum::<u32>().into();
        assert_eq!(record.asked(), asked);
        // 7 rounds of 4 clients get a model and send one; who is only asked gets one.
        let bytes = (2 * 28 + asked) * 4 * PARAMETERS as u64;
        assert_eq!(study.bytes_moved(record.selections(), record.asked()), bytes);
        let mean = &summary.policies[record.id.contender].means["bytes_moved"];
        assert_eq!(mean.mean, bytes as f64);
    }
}

/// What nobody looks at is not written down.
#[test]
fn logs_of_policies_that_ask_nothing_are_as_they_were() {
    let study = study(StudyParams { seeds: 1, ..small(&["random", "oldest-first"]) });
    for record in play(&study, 1).0 {
        for log in &record.logs {
            assert!(log.root_mean_squares.is_empty() && log.asked == 0);
        }
    }
    let run = TrainingRun::new(&study, run_of(0)).unwrap();
    assert_eq!(run.sketches(), (vec![], vec![]));
}

#[test]
fn sketches_are_kept_of_whoever_trained() {
    let policies = ["clustered(by=2)", "age-herding(probe=0)"];
    let study = study(StudyParams { seeds: 1, ..small(&policies) });
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    for contender in 0..policies.len() {
        let (run, kept) = unbroken(&study, run_of(contender), &mut crew);
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
    let study = study(StudyParams { seeds: 1, ..small(&["age-herding", "random"]) });
    let mut crew = Crew::new(study.trainer(), 1).unwrap();
    let (whole, kept) = unbroken(&study, run_of(0), &mut crew);
    let good = &kept[3];
    assert_eq!((good.sketched.len(), good.sketches.len()), (12, 12 * PARAMETERS));
    let field = |contender: usize, change: Change<'_>| {
        let mut changed = good.clone();
        change(&mut changed);
        let logs = whole.logs().to_vec();
        let resumed = TrainingRun::resume(&study, run_of(contender), logs, changed);
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
    let params = || StudyParams {
        data: "digits".to_string(),
        clients: 20,
        partition: "shards:2".to_string(),
        seeds: 1,
        ..field()
    };
    let digits = || Study::new(params(), embedded_digits().unwrap()).unwrap();
    let study = digits();
    let mut one = Crew::new(study.trainer(), 1).unwrap();
    let mut three = Crew::new(study.trainer(), 3).unwrap();
    for (contender, policy) in FIELD.iter().enumerate() {
        let id = run_of(contender);
        let (whole, kept) = unbroken(&study, id, &mut one);
        for round in [0, 1, 3, 6] {
            let fresh = digits();
            let logs = whole.logs().to_vec();
            let mut run = TrainingRun::resume(&fresh, id, logs, kept[round].clone()).unwrap();
            while !run.is_finished() {
                run.play_round(&mut three).unwrap();
            }
            assert_eq!(run.logs(), whole.logs(), "{policy} from round {round}");
            assert_eq!(bits(run.global()), bits(whole.global()), "{policy} from round {round}");
            assert_eq!(run.sketches(), whole.sketches(), "{policy} from round {round}");
        }
    }
}
