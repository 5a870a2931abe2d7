//! Blocks of rounds against one round after the other, for every engine and with clients that come and go.

use agewise_core::{PolicyVariant, Seed, SettingParams, SizeDistribution, Start, Weighting};
use agewise_experiment::{RoundRecord, SelectionRun, SelectionSpec, World};

#[test]
fn blocks_change_nothing() {
    for policy in ["random", "probabilistic", "markov-optimal", "oldest-first", "round-robin"] {
        for (clients, leave) in [(500, 0.0), (500, 0.01), (40_000, 0.0)] {
            let world = World { dropout: 0.1, join: 0.002, leave, ..World::calm(Seed(3)) };
            let sizes = SizeDistribution::Zipf(2.0).draw(clients, world.seed).unwrap();
            let clients = u64::from(clients);
            let setting = SettingParams {
                sizes: Some(sizes),
                ..SettingParams::new(clients, clients / 7, 10)
            };
            let weighting = Some(Weighting::DataSize);
            let spec = SelectionSpec {
                setting: setting.check().unwrap(),
                size_distribution: SizeDistribution::Zipf(2.0),
                policy: PolicyVariant::parse(policy, Start::Stationary, weighting).unwrap(),
                world,
                rounds: 75,
                warmup: 5,
                calibrate: true,
            };
            let mut single = SelectionRun::new(spec.clone()).unwrap();
            let rows: Vec<RoundRecord> = (0..75).map(|_| single.play().unwrap()).collect();
            let mut blocks = SelectionRun::new(spec).unwrap();
            let mut heard = Vec::new();
            let goes_on = |rows: &[RoundRecord]| {
                heard.extend_from_slice(rows);
                true
            };
            blocks.play_on(goes_on).unwrap();
            assert_eq!(heard, rows, "{policy}");
            assert_eq!(blocks.finish(), single.finish(), "{policy}");
        }
    }
}
