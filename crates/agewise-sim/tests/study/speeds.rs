//! Simulated durations: what they are, and whom they reach.

use crate::worlds::{play, small, study};
use agewise_sim::study::{Record, SpeedLaw, Study, StudyParams};

fn with_speeds(speeds: &str, policies: &[&str]) -> Study {
    let sizes = "lognormal:0.7".to_string();
    study(StudyParams { speeds: speeds.to_string(), sizes, rounds: 10, ..small(policies) })
}

#[test]
fn a_duration_is_samples_over_speed() {
    let equal = with_speeds("equal", &["random"]);
    assert_eq!(equal.speeds(), SpeedLaw::Equal);
    let sizes = equal.scene(0).unwrap().partition.sizes();
    let seconds = |samples: usize| (samples as f64 / 1000.0) as f32;
    // 3 batches of 5, where the last of a pass over the images may be smaller.
    let trained = |size: usize| {
        let (mut samples, mut left) = (0, size);
        for _ in 0..3 {
            let batch = left.min(5);
            samples += batch;
            left = if left == batch { size } else { left - batch };
        }
        samples
    };
    for (&size, &duration) in sizes.iter().zip(&equal.scene(0).unwrap().durations) {
        assert_eq!(duration, seconds(trained(size)), "{size} images");
    }
    let epochs = StudyParams { local_work: "2 epochs".to_string(), ..equal.params().clone() };
    let epochs = study(epochs);
    for (size, &duration) in sizes.iter().zip(&epochs.scene(0).unwrap().durations) {
        assert_eq!(duration, seconds(2 * size));
    }
    let [one, other] = [&["random"][..], &["oort", "phased"][..]]
        .map(|policies| with_speeds("lognormal:1", policies));
    let durations = |study: &Study, seed| study.scene(seed).unwrap().durations.clone();
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
    let [equal, slow] = ["equal", "lognormal:2"].map(|speeds| {
        let study = with_speeds(speeds, &policies);
        play(&study, 2).0
    });
    let cohorts = |record: &Record| -> Vec<Vec<u32>> {
        record.logs.iter().map(|log| log.clients.clone()).collect()
    };
    for (one, other) in equal.iter().zip(&slow) {
        let same = cohorts(one) == cohorts(other);
        assert_eq!(same, one.id.contender < 2, "{:?}", one.id);
    }
}

#[test]
fn a_round_takes_as_long_as_its_slowest_client() {
    let study = with_speeds("lognormal:1", &["random"]);
    let scene = study.scene(0).unwrap();
    for log in &play(&study, 1).0[0].logs {
        let mut durations: Vec<f32> =
            log.clients.iter().map(|&client| scene.durations[client as usize]).collect();
        durations.sort_by(f32::total_cmp);
        assert_eq!(scene.seconds(log), f64::from(durations[3]));
    }
}
