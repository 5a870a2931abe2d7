//! What a policy wants to know before it chooses, and the answers.
//!
//! Whoever is asked gets the present model and says something about it: its loss, or a sketch of what one step, or a whole
//! round, of training would change. Nobody is credited for that. The simulator answers every question; a policy has to do without
//! answers elsewhere.

use super::run::Selection;
use super::{Scene, Study};
use crate::objective::{Results, local_losses};
use agewise_core::{Availability, Report, Result, Selector};
use agewise_learn::sketch::Sketcher;
use agewise_learn::train::{
    Crew, LocalTask, LocalTraining, LocalTrainingParams, LocalWork, Samples,
};
use std::collections::BTreeSet;

/// Everyone who can answer, and the model that they are asked about.
pub(super) struct Questions<'a> {
    pub(super) study: &'a Study,
    pub(super) scene: &'a Scene,
    pub(super) global: &'a [f32],
}

impl Questions<'_> {
    /// Answers what the policy asks in this round. Returns who was sent the model for it.
    pub(super) fn answer(
        &self,
        selection: &mut Selection<'_>,
        crew: &mut Crew,
    ) -> Result<BTreeSet<u32>> {
        let Selection { selector, sketcher, .. } = selection;
        let mut asked: BTreeSet<u32> = self.answer_losses(selector, crew)?.into_iter().collect();
        if let Some(sketcher) = sketcher {
            asked.extend(self.answer_sketches(selector, sketcher, crew)?);
        }
        Ok(asked)
    }

    fn answer_losses(&self, selector: &mut Selector, crew: &mut Crew) -> Result<Vec<u32>> {
        let clients = selector.asks(Availability::Everyone)?;
        if clients.is_empty() {
            return Ok(clients);
        }
        let losses = self.losses(&clients, crew)?;
        let said = clients
            .iter()
            .zip(losses)
            .map(|(&client, loss)| Report { loss: Some(loss), ..Report::plain(client) });
        selector.note(&said.collect::<Vec<_>>())?;
        Ok(clients)
    }

    /// The mean loss of all samples of each client.
    pub(super) fn losses(&self, clients: &[u32], crew: &mut Crew) -> Result<Vec<f32>> {
        let samples: Vec<Samples<'_>> =
            clients.iter().map(|&client| self.study.samples(self.scene, client)).collect();
        let losses = local_losses(crew, self.global, &samples, 0.0)?;
        // What is no number is as bad as can be.
        let writable = |loss: f64| if loss.is_finite() { loss as f32 } else { f32::MAX };
        Ok(losses.into_iter().map(writable).collect())
    }

    /// How much those train who are asked for a sketch: one step is enough to tell clients apart.
    fn probing(&self, selector: &Selector) -> Result<LocalTraining> {
        let params = *self.study.training().params();
        if selector.policy().asks_whole_rounds() {
            return params.check();
        }
        LocalTrainingParams { work: LocalWork::Steps(1), ..params }.check()
    }

    /// What each client would change.
    fn answer_sketches(
        &self,
        selector: &mut Selector,
        sketcher: &Sketcher,
        crew: &mut Crew,
    ) -> Result<Vec<u32>> {
        let clients = selector.asks_sketches(Availability::Everyone)?;
        if clients.is_empty() {
            return Ok(clients);
        }
        let training = self.probing(selector)?;
        let round = selector.round();
        let sketches = Results::new(clients.len());
        crew.work(clients.len(), Vec::new, |worker, model: &mut Vec<f32>, place| {
            model.clear();
            model.extend_from_slice(self.global);
            let client = clients[place];
            let task = LocalTask {
                training: &training,
                samples: self.study.samples(self.scene, client),
                seed: self.scene.seed,
                round,
                client,
            };
            let trained = worker.train(&task, model);
            sketches.put(place, trained.map(|_| sketcher.sketch(self.global, model)));
        });
        let sketches = sketches.into_values()?;
        let said = clients
            .iter()
            .zip(&sketches)
            .map(|(&client, sketch)| Report { sketch: sketch.as_deref(), ..Report::plain(client) });
        selector.note(&said.collect::<Vec<_>>())?;
        Ok(clients)
    }
}
