//! Simulated durations: what they are, and whom they reach.

use super::worlds::{experiment, logs, play, small, trained};
use agewise_experiment::{Experiment, ExperimentParams, Record};

fn with_speeds(speeds: &str, policies: &[&str]) -> Experiment {
    let sizes = "lognormal:0.7".to_string();
    let params = ExperimentParams { sizes, rounds: 10, ..small(policies) };
    experiment(trained(params, |training| training.speeds = speeds.to_string()))
}

#[test]
fn a_duration_is_samples_over_speed() {
    let equal = with_speeds("equal", &["random"]);
    assert!(equal.speeds().is_usual());
    let sizes = equal.context(0).unwrap().samples.clone();
    let seconds = |samples: u64| (samples as f64 / 1000.0) as f32;
    // 3 batches of 5, where the last of a pass over the images may be smaller.
    let per_round = |size: u64| {
        let (mut samples, mut left) = (0, size);
        for _ in 0..3 {
            let batch = left.min(5);
            samples += batch;
            left = if left == batch { size } else { left - batch };
        }
        samples
    };
    for (&size, &duration) in sizes.iter().zip(&equal.context(0).unwrap().durations) {
        assert_eq!(duration, seconds(per_round(size)), "{size} images");
    }
    let params = equal.params().clone();
    let epochs = experiment(trained(params, |t| t.local_work = "2 epochs".to_string()));
    for (size, &duration) in sizes.iter().zip(&epochs.context(0).unwrap().durations) {
        assert_eq!(duration, seconds(2 * size));
    }
    let [one, other] = [&["random"][..], &["oort", "phased"][..]]
        .map(|policies| with_speeds("lognormal:1", policies));
    let durations =
        |experiment: &Experiment, seed| experiment.context(seed).unwrap().durations.clone();
    assert_eq!(durations(&one, 0), durations(&other, 0), "the same for all policies");
    assert_ne!(durations(&one, 0), durations(&one, 1), "others under another seed");
    let first = durations(&one, 0);
    assert!(first.iter().all(|&duration| duration > 0.0 && duration.is_finite()));
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
    let widest = with_speeds("lognormal:5", &["oort"]);
    assert!(durations(&widest, 0).iter().all(|duration| duration.is_normal()));
}

#[test]
fn only_who_looks_at_durations_chooses_differently() {
    let policies = ["random", "oldest-first", "oort"];
    let [equal, slow] =
        ["equal", "lognormal:2"].map(|speeds| play(&with_speeds(speeds, &policies), 2).0);
    let cohorts = |record: &Record| -> Vec<Vec<u32>> {
        logs(record).iter().map(|log| log.clients.clone()).collect()
    };
    for (one, other) in equal.iter().zip(&slow) {
        let same = cohorts(one) == cohorts(other);
        assert_eq!(same, one.id.variant < 2, "{:?}", one.id);
    }
}

#[test]
fn a_round_takes_as_long_as_its_slowest_client() {
    let experiment = with_speeds("lognormal:1", &["random"]);
    let context = experiment.context(0).unwrap();
    for log in logs(&play(&experiment, 1).0[0]) {
        let mut durations: Vec<f32> =
            log.clients.iter().map(|&client| context.durations[client as usize]).collect();
        durations.sort_by(f32::total_cmp);
        assert_eq!(context.seconds(log), f64::from(durations[3]));
    }
}
