//! Bad parameters are named, and bad training ends nothing.

use super::worlds::{experiment, logs, made_up, play, run, small, trained};
use agewise_core::Weighting;
use agewise_experiment::{
    CurvePoint, Experiment, ExperimentParams, Summary, TrainingParams, TrainingRun,
};
use agewise_train::aggregation::{AggregationParams, ServerRule};

type Change = fn(&mut ExperimentParams);

fn t(params: &mut ExperimentParams) -> &mut TrainingParams {
    params.training.as_mut().unwrap()
}

/// The field that is named when one field is wrong.
fn named(change: Change) -> Option<String> {
    let mut params = small(&["random", "phased"]);
    change(&mut params);
    Experiment::with_data(params, made_up()).err().map(|error| error.field().to_string())
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
        ("partition", |p| t(p).partition = "dirichlet:0".to_string()),
        ("partition", |p| t(p).partition = "shards:99".to_string()),
        ("partition", |p| t(p).partition = String::new()),
        ("sizes", |p| p.sizes = "zipf:1".to_string()),
        ("sizes", |p| p.sizes = "uneven".to_string()),
        ("speeds", |p| t(p).speeds = "lognormal:-1".to_string()),
        ("speeds", |p| t(p).speeds = "lognormal:inf".to_string()),
        ("speeds", |p| t(p).speeds = "fast".to_string()),
        ("clients", |p| p.clients = 0),
        ("clients", |p| p.clients = 481),
        ("clients", |p| p.clients = u64::MAX),
        ("cohort", |p| p.cohort = 0),
        ("cohort", |p| p.cohort = 13),
        ("max_age", |p| p.max_age = 0.into()),
        ("max_age", |p| p.max_age = u64::MAX.into()),
        ("policies", |p| p.policies.clear()),
        ("policies", |p| p.policies[1] = " random".to_string()),
        ("policy", |p| p.policies[1] = "rnd".to_string()),
        ("policy", |p| p.policies[1] = "phased(".to_string()),
        ("start", |p| p.policies[1] = "phased@warm".to_string()),
        ("phased(reshuffle)", |p| p.policies[1] = "phased(reshuffle=2)".to_string()),
        ("markov-custom(p)", |p| p.policies[1] = "markov-custom".to_string()),
        ("baseline", |p| p.baseline = Some("oldest-first".to_string())),
        ("aggregation", |p| p.policies[1] = "phased+middle".to_string()),
        ("trim", |p| p.policies[1] = "phased+trimmed-mean(trim=0.5)".to_string()),
        ("size_list", |p| p.size_list = Some(vec![1.0; 12])),
        ("warmup", |p| p.warmup = 7),
        ("availability", |p| p.world.availability = "never".to_string()),
        ("dropout", |p| p.world.dropout = 1.0),
        ("clients", |p| p.world.join = 10.0),
        ("model", |p| t(p).model = "resnet".to_string()),
        ("local_work", |p| t(p).local_work = "5".to_string()),
        ("local_work", |p| t(p).local_work = "many steps".to_string()),
        ("local_work", |p| t(p).local_work = "-1 epochs".to_string()),
        ("local_work", |p| t(p).local_work = String::new()),
        ("batch", |p| t(p).batch = 0),
        ("batch", |p| t(p).batch = u32::MAX),
        ("decay", |p| t(p).decay = 0.0),
        ("decay", |p| t(p).decay = 1.5),
        ("decay", |p| t(p).decay = f64::NAN),
        ("offset", |p| t(p).offset = -1.0),
        ("offset", |p| t(p).offset = f64::INFINITY),
        ("momentum", |p| t(p).momentum = 1.0),
        ("momentum", |p| t(p).momentum = -0.1),
        ("momentum", |p| t(p).momentum = f64::NAN),
        ("proximal", |p| t(p).proximal = -1.0),
        ("proximal", |p| t(p).proximal = f64::NAN),
        ("rounds", |p| p.rounds = 0),
        ("rounds", |p| p.rounds = u64::MAX),
        ("eval_every", |p| t(p).eval_every = 0),
        ("eval_every", |p| t(p).eval_every = 8),
        ("eval_from", |p| t(p).eval_from = 0),
        ("eval_from", |p| t(p).eval_from = 8),
        ("targets", |p| t(p).targets = vec![0.0]),
        ("targets", |p| t(p).targets = vec![1.01]),
        ("targets", |p| t(p).targets = vec![f64::NAN]),
        ("targets", |p| t(p).targets = vec![0.5, 0.5]),
        ("targets", |p| t(p).targets = vec![0.7, 0.5]),
        ("targets", |p| (t(p).targets, t(p).stop_at_target) = (Vec::new(), true)),
        ("seed", |p| p.seed = u64::MAX),
        ("seeds", |p| p.seeds = 0),
        ("seeds", |p| p.seeds = u32::MAX),
        ("server learning rate", |p| {
            p.aggregation.server = ServerRule::Momentum { learning_rate: 0.0, beta: 0.9 };
        }),
        ("server beta", |p| {
            p.aggregation.server = ServerRule::Momentum { learning_rate: 1.0, beta: 1.0 };
        }),
    ]);
}

#[test]
fn what_the_bound_asks_for_is_named() {
    check(&[
        ("weight_decay", |p| t(p).bound = true),
        ("model", |p| {
            (t(p).bound, t(p).weight_decay, t(p).model) = (true, 0.1, "2nn".to_string());
        }),
        ("local_work", |p| {
            (t(p).bound, t(p).weight_decay, t(p).local_work) = (true, 0.1, "1 step".to_string());
        }),
        ("local_work", |p| {
            (t(p).bound, t(p).weight_decay, t(p).local_work) = (true, 0.1, "5 epochs".to_string());
        }),
        ("world", |p| {
            (t(p).bound, t(p).weight_decay, p.world.dropout) = (true, 0.1, 0.1);
        }),
        ("join", |p| (t(p).skew, p.world.join) = (true, 0.1)),
    ]);
    for change in [
        (|p| t(p).momentum = 0.5) as Change,
        |p| t(p).proximal = 0.5,
        |p| t(p).augment = true,
        |p| p.aggregation.server = ServerRule::Momentum { learning_rate: 1.0, beta: 0.9 },
    ] {
        let mut params = small(&["random"]);
        (t(&mut params).bound, t(&mut params).weight_decay) = (true, 0.1);
        assert!(Experiment::with_data(params.clone(), made_up()).is_ok());
        change(&mut params);
        assert!(Experiment::with_data(params, made_up()).is_err());
    }
}

#[test]
fn fields_have_the_names_of_the_configuration() {
    check(&[
        ("learning_rate", |p| t(p).learning_rate = f64::NAN),
        ("learning_rate", |p| t(p).learning_rate = -0.1),
        ("learning_rate", |p| t(p).learning_rate = 1e39),
        ("weight_decay", |p| t(p).weight_decay = -1.0),
        ("weight_decay", |p| t(p).weight_decay = f64::INFINITY),
        ("local_work", |p| t(p).local_work = "0 steps".to_string()),
        ("local_work", |p| t(p).local_work = "0 epochs".to_string()),
    ]);
}

#[test]
fn a_run_that_does_not_exist_is_an_error() {
    let experiment = experiment(small(&["random"]));
    assert!(experiment.context(2).is_err());
    assert!(TrainingRun::new(&experiment, run(0, 1)).is_err());
}

/// An experiment whose training leaves all bounds, to its end.
fn diverge(mut params: ExperimentParams) -> u64 {
    let model = t(&mut params).model.clone();
    let name = format!("{model} {:?} {:?}", params.weighting, params.aggregation);
    let rounds = params.rounds as usize;
    let experiment = experiment(params);
    let records = play(&experiment, 2).0;
    let mut rejected = 0;
    for record in &records {
        let training = record.training.as_ref().unwrap();
        assert!(record.finished && training.logs.len() == rounds, "{name}");
        for &CurvePoint { score, loss, .. } in &training.curve {
            assert!((0.0..=1.0).contains(&score), "{name}");
            assert!(loss.is_none_or(f64::is_finite), "{name}");
        }
        assert_eq!(training.curve.len(), rounds, "{name}");
        let losses = logs(record).iter().flat_map(|log| &log.losses);
        let missing = losses.clone().filter(|loss| loss.is_none()).count() as u64;
        assert_eq!(training.rejected(), missing, "{name}");
        assert!(losses.flatten().all(|loss| loss.is_finite()), "{name}");
        rejected += missing;
        if let Some(skew) = training.objectives.as_ref().and_then(|objectives| objectives.skew) {
            for value in [skew.min, skew.mean, skew.max].into_iter().flatten() {
                assert!(value.is_finite(), "{name}: {skew:?}");
            }
        }
    }
    let summary = Summary::new(&experiment, &records).unwrap();
    assert_eq!(summary.finished_runs, summary.runs, "{name}");
    for policy in &summary.policies {
        for (mean, estimate) in &policy.means {
            assert!(estimate.mean.is_finite(), "{name}: {mean}");
        }
    }
    rejected
}

fn wild(model: &str) -> ExperimentParams {
    let policies = ["random", "oldest-first", "markov-optimal"];
    trained(ExperimentParams { rounds: 12, ..small(&policies) }, |training| {
        (training.model, training.learning_rate) = (model.to_string(), 1e9);
    })
}

fn serving(server: ServerRule, params: ExperimentParams) -> ExperimentParams {
    let aggregation = AggregationParams { server, ..params.aggregation };
    ExperimentParams { aggregation, ..params }
}

#[test]
fn training_that_diverges_ends_nothing() {
    // The gradient of one layer is bounded, so only weight decay makes it explode.
    assert_eq!(diverge(wild("softmax")), 0);
    assert!(diverge(trained(wild("softmax"), |t| t.weight_decay = 1.0)) > 0);
    assert!(diverge(wild("2nn")) > 0);
    let weighting = Some(Weighting::Unbiased);
    assert!(diverge(ExperimentParams { weighting, ..wild("2nn") }) > 0);
}

#[test]
fn servers_with_a_memory_survive_divergence() {
    for server in [
        ServerRule::Momentum { learning_rate: 1.0, beta: 0.9 },
        ServerRule::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3 },
    ] {
        diverge(serving(server, wild("2nn")));
        let decaying = trained(wild("softmax"), |training| {
            (training.weight_decay, training.learning_rate) = (1.0, 30.0);
        });
        diverge(serving(server, decaying));
    }
}

#[test]
fn skew_of_training_that_diverges_is_a_number_or_nothing() {
    let few = ExperimentParams { clients: 6, cohort: 2, rounds: 5, seeds: 1, ..wild("2nn") };
    diverge(trained(few, |training| training.skew = true));
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
            let decaying = ExperimentParams { rounds: 20, ..wild("softmax") };
            let decaying = trained(decaying, |training| {
                (training.weight_decay, training.learning_rate) = (1.0, learning_rate);
            });
            let models = play(&experiment(serving(server, decaying)), 2).1;
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
        let params = ExperimentParams {
            policies: vec!["markov-linear".to_string()],
            baseline: None,
            rounds: 75,
            weighting: Some(Weighting::Unbiased),
            ..wild("softmax")
        };
        diverge(trained(params, |training| {
            training.local_work = "1 step".to_string();
            (training.weight_decay, training.decay) = (1.0, 1.0);
            training.learning_rate = 5.0 + 0.1 * f64::from(step);
        }));
    }
}

/// A policy has one label, however it is spelled, and the baseline is a policy.
#[test]
fn a_baseline_may_be_spelled_as_its_policy() {
    for policy in ["markov-custom(p=[0, 0.5, 1])", "phased(reshuffle=0.50)", " random"] {
        let params = small(&[policy, "oldest-first"]);
        assert!(Experiment::with_data(params, made_up()).is_ok(), "{policy}");
    }
}

/// A share that cuts no update of a cohort would be a plain mean under another name.
#[test]
fn a_trimmed_mean_that_cuts_nothing_is_refused() {
    let params = |cohort, rule: &str| {
        let aggregation = rule.parse().unwrap();
        ExperimentParams { cohort, aggregation, ..small(&["random"]) }
    };
    for (cohort, rule, words) in [
        (
            4,
            "trimmed-mean(trim=0.2)",
            "trim of trimmed-mean(trim=0.2) = 0.2: expected at least 0.25",
        ),
        (4, "trimmed-mean", "trim of trimmed-mean = 0.1: expected at least 0.25"),
        (3, "trimmed-mean(trim=0.3)", "expected at least 0.334"),
        (2, "trimmed-mean(trim=0.49)", "expected another rule"),
    ] {
        let error = Experiment::with_data(params(cohort, rule), made_up()).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
    for (cohort, rule) in
        [(4, "trimmed-mean(trim=0.25)"), (10, "trimmed-mean"), (2, "trimmed-mean(trim=0)")]
    {
        assert!(Experiment::with_data(params(cohort, rule), made_up()).is_ok(), "{rule}");
    }
    let twice = small(&["random", "random+mean"]);
    let error = Experiment::with_data(twice, made_up()).err().unwrap().to_string();
    assert!(error.starts_with("policies = random: expected each policy once"), "{error}");
}
