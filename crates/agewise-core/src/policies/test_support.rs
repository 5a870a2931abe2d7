//! A round for tests, made of whatever a test wants to say about it.

use crate::ages::Ages;
use crate::policies::build;
use crate::policy::Policy;
use crate::random::{Draws, Seed, Stream};
use crate::reports::{Report, Reports};
use crate::round::{Availability, Round};
use crate::setting::{Setting, SettingParams};
use crate::sizes::Sizes;

pub(super) struct TestRound {
    pub(super) setting: Setting,
    pub(super) ages: Ages,
    pub(super) reports: Reports,
    pub(super) mask: Vec<bool>,
}

impl TestRound {
    pub(super) fn new(clients: u32, cohort: u32) -> Self {
        Self::sized(vec![1.0; clients as usize], cohort)
    }

    pub(super) fn sized(sizes: Vec<f64>, cohort: u32) -> Self {
        let clients = sizes.len() as u32;
        let sizes = Some(Sizes::new(sizes).unwrap());
        let params = SettingParams::new(u64::from(clients), u64::from(cohort), 10);
        let setting = SettingParams { sizes, ..params }.check().unwrap();
        let (ages, reports) = (Ages::cold(clients), Reports::default());
        Self { setting, ages, reports, mask: vec![true; clients as usize] }
    }

    /// With the losses of the first clients.
    pub(super) fn losses(mut self, losses: &[f32]) -> Self {
        for (client, &loss) in (0..).zip(losses) {
            self.reports.record(&Report { loss: Some(loss), ..Report::plain(client) });
        }
        self
    }

    /// With a sketch for some clients.
    pub(super) fn sketches(mut self, sketch: impl Fn(u32) -> Option<Vec<f32>>) -> Self {
        for client in 0..self.setting.clients() {
            let sketch = sketch(client);
            self.reports.record(&Report { sketch: sketch.as_deref(), ..Report::plain(client) });
        }
        self
    }

    pub(super) fn without(mut self, away: &[usize]) -> Self {
        for &client in away {
            self.mask[client] = false;
        }
        self
    }

    pub(super) fn round(&self, seed: u64) -> Round<'_> {
        let there = Availability::Only(&self.mask);
        Round::new(&self.setting, Seed(seed), &self.ages, there, &self.reports).unwrap()
    }

    pub(super) fn policy(&self, text: &str) -> Box<dyn Policy> {
        build(&text.parse().unwrap(), &self.setting).unwrap()
    }

    /// The cohort under a seed.
    pub(super) fn cohort(&self, policy: &str, seed: u64) -> Vec<u32> {
        let picks = self.policy(policy).select(&self.round(seed));
        picks.into_iter().map(|pick| pick.client).collect()
    }

    /// How often each client is chosen, over this many seeds.
    pub(super) fn shares(&self, policy: &str, seeds: u64) -> Vec<f64> {
        let mut policy = self.policy(policy);
        let mut shares = vec![0.0; self.setting.clients() as usize];
        for seed in 0..seeds {
            for pick in policy.select(&self.round(seed)) {
                shares[pick.client as usize] += 1.0 / seeds as f64;
            }
        }
        shares
    }
}

/// Numbers of a test's own, from -1 to 1.
pub(super) fn vector(case: u64, client: u32, width: u64) -> Vec<f32> {
    let draws = Draws::new(Seed(case), Stream::custom(1 << 20), u64::from(client));
    (0..width).map(|index| 2.0 * draws.of(index).unit() as f32 - 1.0).collect()
}
