//! An aggregation rule of your own beside ours, under the same policy: updates that moved much farther than
//! the others are left out, and the rest are averaged.
//!
//! `cargo run --release -p agewise --example own_aggregation`

use agewise::prelude::*;
use agewise::train::data::embedded_digits;

#[derive(Debug)]
struct NoOutliers;

impl Aggregator for NoOutliers {
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        _memory: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        let mut models = Vec::new();
        for member in 0..cohort.len() {
            let mut model = vec![0.0; global.len()];
            let read = updates.read(member, 0, &mut model);
            updates.release(member);
            models.push(read.map(|()| model));
        }
        let distance = |model: &Vec<f32>| -> f32 {
            model.iter().zip(&*global).map(|(new, old)| (new - old).powi(2)).sum::<f32>().sqrt()
        };
        let mut distances: Vec<f32> = models.iter().flatten().map(distance).collect();
        distances.sort_by(f32::total_cmp);
        let Some(&median) = distances.get(distances.len() / 2) else {
            return Ok(Vec::new());
        };
        let verdict = |(member, model): (&Contribution, &Result<Vec<f32>>)| {
            let reject = |why| Err(Rejected { client: member.client, why });
            match model {
                Err(error) => reject(error.to_string()),
                Ok(model) if distance(model) > 2.0 * median => reject("an outlier".to_string()),
                Ok(_) => Ok(()),
            }
        };
        let verdicts: Vec<Verdict> = cohort.iter().zip(&models).map(verdict).collect();
        let taken = models.into_iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_ok());
        let taken: Vec<Vec<f32>> = taken.filter_map(|(model, _)| model.ok()).collect();
        for (place, value) in global.iter_mut().enumerate() {
            *value = taken.iter().map(|model| model[place]).sum::<f32>() / taken.len() as f32;
        }
        Ok(verdicts)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let policy = PolicyVariant::from_spec(&PolicySpec::named("oldest-first"))?;
    let own = Aggregation::new("no-outliers", |_parameters| Ok(Box::new(NoOutliers)));
    let experiment = Experiment::builder()
        .data(embedded_digits()?)
        .variant(Variant::new(policy.clone(), "mean".parse()?))
        .variant(Variant::new(policy.clone(), "median".parse()?))
        .variant(Variant::new(policy, own))
        .clients(30)
        .cohort(10)
        .rounds(12)
        .seeds(2)
        .build()?;
    let summary = play(&experiment, None, 2, &NoCallbacks, &AtomicBool::default())?.summary()?;
    for variant in &summary.policies {
        println!("{:28} {:.3}", variant.policy, variant.means["final_accuracy"].mean);
    }
    assert_eq!(summary.policies.len(), 3);
    Ok(())
}
