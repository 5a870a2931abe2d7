//! When is selection by age worth it in seconds, and when is asynchrony? Policies times schedules on phones that differ,
//! with links that differ, and people who sleep at night.
//!
//! The model is the softmax, so that 400 runs take minutes; it stands for one of 20 MB of which a phone trains a sample a
//! second. Its 31 kB go over links that are slower in the same proportion as it is smaller: 20 and 5 Mbit/s over 640.

use super::Preset;
use crate::clock::Unit;
use crate::params::{ClockParams, ExperimentParams, TrainingParams, WorldParams};

const POLICIES: [&str; 4] = ["random", "oldest-first", "age-herding", "oort"];

struct Setting {
    name: &'static str,
    about: &'static str,
    partition: &'static str,
    clients: u64,
    cohort: u64,
    /// The schedules: the buffer takes half a cohort.
    schedules: [&'static str; 5],
    targets: [f64; 3],
    usual_rounds: u64,
    rounds: u64,
}

const SETTINGS: [Setting; 2] = [
    Setting {
        name: "mnist-shards",
        about: "2 shards per client, 10 of 100 at work",
        partition: "shards:2",
        clients: 100,
        cohort: 10,
        schedules: ["sync", "deadline:0.8", "over-select:1.3", "buffered:5", "async"],
        targets: [0.8, 0.85, 0.88],
        usual_rounds: 36,
        rounds: 150,
    },
    Setting {
        name: "mnist-writers",
        about: "a client per writer, 20 of 539 at work",
        partition: "clients",
        clients: 539,
        cohort: 20,
        schedules: ["sync", "deadline:0.8", "over-select:1.3", "buffered:10", "async"],
        targets: [0.85, 0.88, 0.9],
        usual_rounds: 28,
        rounds: 150,
    },
];

/// All of them.
pub(super) fn presets() -> impl Iterator<Item = Preset> {
    SETTINGS.iter().map(|setting| {
        let variants = setting.schedules.iter().flat_map(|&schedule| {
            POLICIES.iter().map(move |policy| match schedule {
                "sync" => (*policy).to_string(),
                other => format!("{policy}/{other}"),
            })
        });
        let params = ExperimentParams {
            clients: setting.clients,
            cohort: setting.cohort,
            policies: variants.collect(),
            rounds: setting.rounds,
            seed: 1_000,
            seeds: 20,
            world: WorldParams {
                availability: "diurnal:86400s,0.8".to_string(),
                ..WorldParams::default()
            },
            training: Some(TrainingParams {
                data: "mnist".to_string(),
                partition: setting.partition.to_string(),
                speeds: "phones@1".to_string(),
                model: "softmax".to_string(),
                local_work: "5 steps".to_string(),
                // A step of a schedule without rounds is a part of a round.
                decay: 1.0,
                eval_every: 2,
                eval_from: 2,
                targets: setting.targets.to_vec(),
                stop_at_target: true,
                ..TrainingParams::default()
            }),
            clock: Some(ClockParams {
                links: "phones@0.03125,0.0078125".to_string(),
                unit: Unit::Seconds,
                ..ClockParams::default()
            }),
            ..ExperimentParams::comparison()
        };
        let last = 100.0 * setting.targets[2];
        Preset {
            name: format!("clock-{}", setting.name),
            about: format!("phones, night and day: mnist, {}, to {last:.0}%", setting.about),
            paper_rounds: None,
            usual_rounds: setting.usual_rounds,
            params,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Schedule;

    #[test]
    fn every_schedule_fits_its_population() {
        for Preset { params, .. } in presets() {
            assert_eq!(params.policies.len(), 20);
            for variant in &params.policies {
                let schedule = variant.split_once('/').map_or("sync", |(_, schedule)| schedule);
                let schedule: Schedule = schedule.parse().unwrap();
                schedule.check(params.clients, params.cohort).unwrap();
            }
        }
    }
}
