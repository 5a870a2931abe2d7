//! A task of your own: linear regression on made-up numbers, no images and none of our models.
//!
//! `cargo run --release -p agewise --example own_task`

use agewise::prelude::*;

/// Every client has points (x, y) with y = a x + b and a slope that differs a little from client to client.
struct Regression {
    clients: Vec<Vec<(f32, f32)>>,
}

impl Regression {
    fn new(clients: u32, points: u32) -> Self {
        let line = |client: u32| {
            let slope = 2.0 + 0.5 * (client as f32 * 2.4).sin();
            let x = move |point: u32| point as f32 / points as f32;
            (0..points).map(move |point| (x(point), slope * x(point) - 1.0)).collect()
        };
        Self { clients: (0..clients).map(line).collect() }
    }

    fn squared_error(points: &[(f32, f32)], model: &[f32]) -> f64 {
        let error = |&(x, y): &(f32, f32)| f64::from(model[0] * x + model[1] - y).powi(2);
        points.iter().map(error).sum()
    }
}

impl Task for Regression {
    fn parameters(&self) -> usize {
        2
    }

    fn initial(&self, _: Seed) -> Result<Vec<f32>> {
        Ok(vec![0.0; 2])
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        let clients = self.clients.iter().take(key.clients as usize);
        Ok(clients.map(|points| points.len() as u64).collect())
    }

    fn train(&self, job: &TrainJob, model: &mut [f32]) -> Result<LocalReport> {
        let points = &self.clients[job.client as usize];
        let loss = Self::squared_error(points, model) / points.len() as f64;
        for &(x, y) in points {
            let error = model[0] * x + model[1] - y;
            model[0] -= 0.1 * error * x;
            model[1] -= 0.1 * error;
        }
        let samples = points.len() as u64;
        Ok(LocalReport { steps: samples, samples, loss, mean_square: loss * loss })
    }

    // The points of all clients are the test.
    fn evaluate(&self, model: &[f32], _piece: usize) -> Result<Evaluation> {
        let errors = self.clients.iter().map(|points| Self::squared_error(points, model));
        let samples = self.clients.iter().map(|points| points.len() as u64).sum();
        Ok(Evaluation::regression(samples, errors.sum()))
    }

    fn metric(&self) -> Metric {
        Metric::Loss
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let experiment = Experiment::builder()
        .task(Regression::new(30, 20))
        .change(|params| params.policies = vec!["random".into(), "oldest-first".into()])
        .clients(30)
        .cohort(5)
        .rounds(20)
        .seeds(4)
        .targets([0.05])
        .build()?;
    let summary = play(&experiment, None, 2, &NoCallbacks, &AtomicBool::default())?.summary()?;
    println!("{}", serde_json::to_string_pretty(&summary.policies[1].rounds_to)?);
    Ok(())
}
