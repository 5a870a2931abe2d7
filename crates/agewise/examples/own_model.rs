//! A model of your own as a list of layers, and a listener that hears of every round.
//!
//! `cargo run --release -p agewise --example own_model`

use agewise::prelude::*;
use agewise::train::data::embedded_digits;
use agewise::train::model::{Layer, ModelSpec};
use std::sync::Mutex;

/// Keeps the rounds that it hears of; it could as well store or draw them.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<(RunId, u64)>>,
}

impl Callbacks for Listener {
    fn on_rounds(&self, id: RunId, rounds: u64, _: &[RoundLog]) {
        if let Ok(mut heard) = self.heard.lock() {
            heard.push((id, rounds));
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let digits = embedded_digits()?;
    let layers = vec![
        Layer::Convolution { channels: 8, kernel: 3, padding: 1 },
        Layer::Relu,
        Layer::MaxPool { size: 2, stride: 2, padding: 0 },
        Layer::Dense { units: 32 },
        Layer::Relu,
        // The outputs of the last layer are the scores of the classes.
        Layer::Dense { units: digits.train.classes() as usize },
    ];
    let model = ModelSpec { name: "small-cnn".into(), input: digits.train.shape(), layers };
    let local = LocalTrainingParams { work: LocalWork::Steps(5), ..Default::default() }.check()?;

    let experiment = Experiment::builder()
        .task(NativeTask::new(digits, model, local)?)
        .change(|params| params.policies = vec!["random".into(), "oldest-first".into()])
        .clients(20)
        .cohort(5)
        .rounds(12)
        .seeds(2)
        .targets([0.5])
        .build()?;
    let listener = Listener::default();
    let summary = play(&experiment, None, 2, &listener, &AtomicBool::default())?.summary()?;
    for policy in &summary.policies {
        println!("{}: {:.3} at the end", policy.policy, policy.means["final_accuracy"].mean);
        assert!(policy.means["final_accuracy"].mean > 0.5);
    }
    let heard: u64 = listener.heard.lock().map_or(0, |heard| heard.iter().map(|(_, n)| n).sum());
    assert_eq!(heard, 2 * 2 * 12);
    Ok(())
}
