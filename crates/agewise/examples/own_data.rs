//! Data of your own: any small pictures with labels, shared among clients, with one of our models.
//!
//! `cargo run --release -p agewise --example own_data`

use agewise::prelude::*;
use agewise::train::data::{Dataset, ImageShape, Images};

/// Pictures of 8 by 8 pixels with a bright row; the row is the label.
fn rows(count: u32) -> Result<Images> {
    let draws = Draws::new(Seed(5), Stream::custom(1 << 16), u64::from(count));
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for picture in 0..count {
        let label = picture % 8;
        for pixel in 0..64 {
            let noise = draws.of(u64::from(picture * 64 + pixel)).unit() * 160.0;
            pixels.push(noise as u8 + if pixel / 8 == label { 80 } else { 0 });
        }
        labels.push(label as u8);
    }
    Images::new(ImageShape::new(1, 8, 8), 8, pixels, labels)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let data = Dataset::new("rows", rows(2_400)?, rows(800)?);
    let mut params = ExperimentParams::comparison();
    params.policies = vec!["random".into(), "markov-optimal".into(), "oldest-first".into()];
    let experiment = Experiment::builder()
        .params(params)
        .data(data)
        .clients(60)
        .cohort(6)
        .rounds(30)
        .seeds(3)
        .targets([0.9])
        .build()?;
    let summary = play(&experiment, None, 2, &NoCallbacks, &AtomicBool::default())?.summary()?;
    for policy in &summary.policies {
        let accuracy = policy.means["final_accuracy"].mean;
        println!("{:15} {:.1}%", policy.policy, 100.0 * accuracy);
        assert!(accuracy > 0.8);
    }
    Ok(())
}
