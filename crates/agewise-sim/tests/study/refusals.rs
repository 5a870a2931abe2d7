//! Bad parameters are named, and bad training ends nothing.

use crate::worlds::{made_up, play, small, study};
use agewise_core::Weighting;
use agewise_learn::aggregate::ServerRule;
use agewise_sim::study::{CurvePoint, RunId, Study, StudyParams, StudySummary, TrainingRun};

type Change = fn(&mut StudyParams);

/// The field that is named when one field is wrong.
fn named(change: Change) -> Option<String> {
    let mut params = small(&["random", "phased"]);
    change(&mut params);
    Study::new(params, made_up()).err().map(|error| error.field().to_string())
}

fn check(cases: &[(&str, Change)]) {
    let wrong: Vec<String> = cases
        .iter()
        .enumerate()
        .filter_map(|(case, (field, change))| {
            let found = named(*change);
            (found.as_deref() != Some(field)).then(|| format!("case {case}: {field}, {found:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_wrong_field_is_named() {
    assert_eq!(named(|_| ()), None);
    check(&[
        ("partition", |p| p.partition = "dirichlet:0".to_string()),
        ("partition", |p| p.partition = "shards:99".to_string()),
        ("partition", |p| p.partition = String::new()),
        ("sizes", |p| p.sizes = "zipf:1".to_string()),
        ("sizes", |p| p.sizes = "uneven".to_string()),
        ("speeds", |p| p.speeds = "lognormal:-1".to_string()),
        ("speeds", |p| p.speeds = "lognormal:inf".to_string()),
        ("speeds", |p| p.speeds = "fast".to_string()),
        ("clients", |p| p.clients = 0),
        ("clients", |p| p.clients = 481),
        ("clients", |p| p.clients = u64::MAX),
        ("cohort", |p| p.cohort = 0),
        ("cohort", |p| p.cohort = 13),
        ("max_age", |p| p.max_age = 0),
        ("max_age", |p| p.max_age = u64::MAX),
        ("policies", |p| p.policies.clear()),
        ("policies", |p| p.policies[1] = " random".to_string()),
        ("policy", |p| p.policies[1] = "rnd".to_string()),
        ("policy", |p| p.policies[1] = "phased(".to_string()),
        ("start", |p| p.policies[1] = "phased@warm".to_string()),
        ("phased(reshuffle)", |p| p.policies[1] = "phased(reshuffle=2)".to_string()),
        ("markov-custom(p)", |p| p.policies[1] = "markov-custom".to_string()),
        ("baseline", |p| p.baseline = "oldest-first".to_string()),
        ("model", |p| p.model = "resnet".to_string()),
        ("local_work", |p| p.local_work = "5".to_string()),
        ("local_work", |p| p.local_work = "many steps".to_string()),
        ("local_work", |p| p.local_work = "-1 epochs".to_string()),
        ("local_work", |p| p.local_work = String::new()),
        ("batch", |p| p.batch = 0),
        ("batch", |p| p.batch = u32::MAX),
        ("decay", |p| p.decay = 0.0),
        ("decay", |p| p.decay = 1.5),
        ("decay", |p| p.decay = f64::NAN),
        ("offset", |p| p.offset = -1.0),
        ("offset", |p| p.offset = f64::INFINITY),
        ("momentum", |p| p.momentum = 1.0),
        ("momentum", |p| p.momentum = -0.1),
        ("momentum", |p| p.momentum = f64::NAN),
        ("proximal", |p| p.proximal = -1.0),
        ("proximal", |p| p.proximal = f64::NAN),
        ("rounds", |p| p.rounds = 0),
        ("rounds", |p| p.rounds = u64::MAX),
        ("eval_every", |p| p.eval_every = 0),
        ("eval_every", |p| p.eval_every = 8),
        ("eval_from", |p| p.eval_from = 0),
        ("eval_from", |p| p.eval_from = 8),
        ("targets", |p| p.targets = vec![0.0]),
        ("targets", |p| p.targets = vec![1.01]),
        ("targets", |p| p.targets = vec![f64::NAN]),
        ("targets", |p| p.targets = vec![0.5, 0.5]),
        ("targets", |p| p.targets = vec![0.7, 0.5]),
        ("targets", |p| (p.targets, p.stop_at_target) = (Vec::new(), true)),
        ("seed", |p| p.seed = u64::MAX),
        ("seeds", |p| p.seeds = 0),
        ("seeds", |p| p.seeds = u32::MAX),
        ("server learning rate", |p| {
            p.server = ServerRule::Momentum { learning_rate: 0.0, beta: 0.9 };
        }),
        ("server beta", |p| p.server = ServerRule::Momentum { learning_rate: 1.0, beta: 1.0 }),
    ]);
}

#[test]
fn what_the_bound_asks_for_is_named() {
    check(&[
        ("weight_decay", |p| p.bound = true),
        ("model", |p| (p.bound, p.weight_decay, p.model) = (true, 0.1, "2nn".to_string())),
        ("local_work", |p| {
            (p.bound, p.weight_decay, p.local_work) = (true, 0.1, "1 step".to_string());
        }),
        ("local_work", |p| {
            (p.bound, p.weight_decay, p.local_work) = (true, 0.1, "5 epochs".to_string());
        }),
    ]);
    for change in [
        (|p| p.momentum = 0.5) as Change,
        |p| p.proximal = 0.5,
        |p| p.augment = true,
        |p| p.server = ServerRule::Momentum { learning_rate: 1.0, beta: 0.9 },
    ] {
        let mut params = StudyParams { bound: true, weight_decay: 0.1, ..small(&["random"]) };
        assert!(Study::new(params.clone(), made_up()).is_ok());
        change(&mut params);
        assert!(Study::new(params, made_up()).is_err());
    }
}

#[test]
fn fields_have_the_names_of_the_configuration() {
    check(&[
        ("learning_rate", |p| p.learning_rate = f64::NAN),
        ("learning_rate", |p| p.learning_rate = -0.1),
        ("learning_rate", |p| p.learning_rate = 1e39),
        ("weight_decay", |p| p.weight_decay = -1.0),
        ("weight_decay", |p| p.weight_decay = f64::INFINITY),
        ("local_work", |p| p.local_work = "0 steps".to_string()),
        ("local_work", |p| p.local_work = "0 epochs".to_string()),
    ]);
}

#[test]
fn a_run_that_does_not_exist_is_an_error() {
    let study = study(small(&["random"]));
    assert!(study.scene(2).is_err());
    assert!(TrainingRun::new(&study, RunId { seed: 0, contender: 1 }).is_err());
}

/// A study whose training leaves all bounds, to its end.
fn diverge(params: StudyParams) -> u64 {
    let name = format!("{} {:?} {:?}", params.model, params.weighting, params.server);
    let rounds = params.rounds as usize;
    let study = study(params);
    let records = play(&study, 2).0;
    let mut rejected = 0;
    for record in &records {
        assert!(record.finished && record.logs.len() == rounds, "{name}");
        for &CurvePoint { accuracy, loss, .. } in &record.curve {
            assert!((0.0..=1.0).contains(&accuracy), "{name}");
            assert!(loss.is_none_or(f64::is_finite), "{name}");
        }
        assert_eq!(record.curve.len(), rounds, "{name}");
        let losses = record.logs.iter().flat_map(|log| &log.losses);
        let missing = losses.clone().filter(|loss| loss.is_none()).count() as u64;
        assert_eq!(record.rejected(), missing, "{name}");
        assert!(losses.flatten().all(|loss| loss.is_finite()), "{name}");
        rejected += missing;
        if let Some(skew) = record.gaps.as_ref().and_then(|gaps| gaps.skew) {
            for value in [skew.min, skew.mean, skew.max].into_iter().flatten() {
                assert!(value.is_finite(), "{name}: {skew:?}");
            }
        }
    }
    let summary = StudySummary::new(&study, &records);
    assert_eq!(summary.finished_runs, summary.runs, "{name}");
    for policy in &summary.policies {
        for (mean, estimate) in &policy.means {
            assert!(estimate.mean.is_finite(), "{name}: {mean}");
        }
    }
    rejected
}

fn wild(model: &str) -> StudyParams {
    let policies = ["random", "oldest-first", "markov-optimal"];
    StudyParams { model: model.to_string(), learning_rate: 1e9, rounds: 12, ..small(&policies) }
}

#[test]
fn training_that_diverges_ends_nothing() {
    // The gradient of one layer is bounded, so only weight decay makes it explode.
    assert_eq!(diverge(wild("softmax")), 0);
    assert!(diverge(StudyParams { weight_decay: 1.0, ..wild("softmax") }) > 0);
    assert!(diverge(wild("2nn")) > 0);
    assert!(diverge(StudyParams { weighting: Some(Weighting::Unbiased), ..wild("2nn") }) > 0);
}

#[test]
fn servers_with_a_memory_survive_divergence() {
    for server in [
        ServerRule::Momentum { learning_rate: 1.0, beta: 0.9 },
        ServerRule::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3 },
    ] {
        diverge(StudyParams { server, ..wild("2nn") });
        let decaying = StudyParams { weight_decay: 1.0, learning_rate: 30.0, ..wild("softmax") };
        diverge(StudyParams { server, ..decaying });
    }
}

#[test]
fn skew_of_training_that_diverges_is_a_number_or_nothing() {
    diverge(StudyParams { skew: true, clients: 6, cohort: 2, rounds: 5, seeds: 1, ..wild("2nn") });
}

/// What is not finite is not taken, and what was taken does not make the model infinite either.
#[test]
fn the_model_stays_finite() {
    for server in [
        ServerRule::Average,
        ServerRule::Momentum { learning_rate: 1.0, beta: 0.9 },
        ServerRule::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3 },
    ] {
        for learning_rate in [10.0, 30.0, 100.0] {
            let decaying = StudyParams { weight_decay: 1.0, rounds: 20, ..wild("softmax") };
            let study = study(StudyParams { learning_rate, server, ..decaying });
            let models = play(&study, 2).1;
            let finite =
                |model: &Vec<u32>| model.iter().all(|&bits| f32::from_bits(bits).is_finite());
            assert!(models.values().all(finite), "{server:?} {learning_rate}");
        }
    }
}

/// Weights of an unbiased policy can add up to more than 1, and then an average of finite models can be infinite. Weight
/// decay makes parameters grow by a factor of about 4 per round here, so some run comes to just below the largest float.
#[test]
fn an_average_that_overflows_ends_nothing() {
    for step in 0..8 {
        diverge(StudyParams {
            policies: vec!["markov-linear".to_string()],
            baseline: "markov-linear".to_string(),
            local_work: "1 step".to_string(),
            weight_decay: 1.0,
            learning_rate: 5.0 + 0.1 * f64::from(step),
            decay: 1.0,
            rounds: 75,
            weighting: Some(Weighting::Unbiased),
            ..wild("softmax")
        });
    }
}

/// A policy has one label, however it is spelled, and the baseline is a policy.
#[test]
fn a_baseline_may_be_spelled_as_its_policy() {
    for policy in ["markov-custom(p=[0, 0.5, 1])", "phased(reshuffle=0.50)", " random"] {
        assert!(Study::new(small(&[policy, "oldest-first"]), made_up()).is_ok(), "{policy}");
    }
}
