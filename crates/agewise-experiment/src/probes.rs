//! What a policy wants to know before it selects, and the answers.
//!
//! A client that is probed gets the present model and says something about it: its loss, or a sketch of what one step, or
//! a whole round, of training would change. It is not credited for that. An experiment answers every probe; elsewhere a
//! policy has to do without.

use agewise_core::{Availability, Probe, ProbeKind, Report, Result, Selector};
use agewise_train::sketch::Sketcher;
use agewise_train::task::{Amount, PartitionKey, TrainJob};
use agewise_train::{Task, Threads};
use std::collections::BTreeMap;

/// The clients that can answer, and the model that they are asked about.
#[derive(Clone, Copy)]
pub(crate) struct Prober<'a> {
    pub(crate) task: &'a dyn Task,
    pub(crate) key: PartitionKey,
    pub(crate) global: &'a [f32],
    pub(crate) threads: Threads,
}

impl Prober<'_> {
    /// Answers the probes of the policy in the present round. Returns the clients that were sent the model for
    /// them, and what they were asked that takes longest.
    pub(crate) fn answer(
        &self,
        selector: &mut Selector,
        availability: Availability<'_>,
        sketcher: Option<&Sketcher>,
    ) -> Result<BTreeMap<u32, ProbeKind>> {
        let probes = selector.probes(availability)?;
        let (losses, updates): (Vec<Probe>, Vec<Probe>) =
            probes.into_iter().partition(|probe| probe.kind == ProbeKind::Loss);
        let clients: Vec<u32> = losses.iter().map(|probe| probe.client).collect();
        if !clients.is_empty() {
            let said = clients.iter().zip(self.losses(&clients)?);
            let said = said.map(|(&client, loss)| loss_report(client, loss));
            selector.observe(&said.collect::<Vec<_>>())?;
        }
        let mut probed: BTreeMap<u32, ProbeKind> =
            clients.into_iter().map(|client| (client, ProbeKind::Loss)).collect();
        if let Some(sketcher) = sketcher.filter(|_| !updates.is_empty()) {
            let sketches = self.sketches(&updates, selector.round(), sketcher)?;
            let said = updates.iter().zip(&sketches).map(|(probe, sketch)| Report {
                sketch: sketch.as_deref(),
                ..Report::plain(probe.client)
            });
            selector.observe(&said.collect::<Vec<_>>())?;
            probed.extend(updates.iter().map(|probe| (probe.client, probe.kind)));
        }
        Ok(probed)
    }

    /// The mean loss of all samples of each client.
    pub(crate) fn losses(&self, clients: &[u32]) -> Result<Vec<f32>> {
        self.threads.map(clients.len(), |place| {
            let loss = self.task.client_loss(self.key, clients[place], self.global)?;
            Ok(writable(loss))
        })
    }

    /// What each client would change.
    fn sketches(
        &self,
        probes: &[Probe],
        round: u64,
        sketcher: &Sketcher,
    ) -> Result<Vec<Option<Vec<f32>>>> {
        self.threads.map_with(probes.len(), Vec::new, |model: &mut Vec<f32>, place| {
            model.clear();
            model.extend_from_slice(self.global);
            let Probe { client, kind } = probes[place];
            let amount = match kind {
                ProbeKind::UpdateRound => Amount::Round,
                // One step is enough to tell clients apart.
                ProbeKind::UpdateStep | ProbeKind::Loss => Amount::OneStep,
            };
            let job = TrainJob { key: self.key, round, client, amount };
            self.task.train(&job, model)?;
            Ok(sketcher.sketch(self.global, model))
        })
    }
}

/// What a client says about its loss.
pub(crate) fn loss_report(client: u32, loss: f32) -> Report<'static> {
    Report { loss: Some(loss), ..Report::plain(client) }
}

/// A loss as a file holds it: no infinity, and nothing else is as bad.
pub(crate) fn writable(loss: f64) -> f32 {
    if loss.is_finite() { loss as f32 } else { f32::MAX }
}
