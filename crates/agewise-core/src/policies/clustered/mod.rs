//! `clustered`: m different distributions instead of one, a client from each (Fraboni, Vidal, Kameni, Lorenzi:
//! "Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in Federated Learning").
//!
//! Client i has the probability r_ki in distribution k; each distribution adds up to 1, and each client to m p_i, p_i
//! being its share of the data. So the mean weights are those of drawing m times from the shares, and their
//! variance is never higher. A client can be drawn by several distributions, and its weight is the number of
//! times over m.
//!
//! `by=1` is Algorithm 1: clients are poured into the distributions by decreasing size (equal ones by number), the same
//! way in each round. `by=2` is Algorithm 2: a client that fills distributions alone has them, Ward's clustering
//! groups the rest by the similarity of their last updates, and the largest m groups become distributions.
//!
//! What the paper leaves open in Algorithm 2, and what is ours:
//! - The similarity. The paper recommends the angle between updates. Ward's method is about squared distances between
//!   points, so the points are our sketches at unit length: their distance is 2 sin(angle/2).
//! - Clients without a sketch have the zero vector, as in the paper. An angle with it does not exist; its distance is
//!   1 from every sketch and 0 from its like, so clients that have never reported form a cluster of their own.
//! - Where to cut. Each branch of the tree is kept as long as it holds at most M; as all together hold m M there are at
//!   least m groups.
//! - The order in which the rest is spread: by decreasing group, into the roomiest distribution first.
//! - More than 500 clients: that many, drawn at random in each round, make the tree, and all others join
//!   the most similar of them.
//!
//! An unavailable client has no share; where no available client has data, none is drawn.

mod allocation;
mod groups;

use super::sampling::{memoryless_ages, streams::CLUSTER, whole_option};
use crate::policy::{Needs, Policy, PolicyEntry};
use crate::random::Seed;
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::weighting::Weighting;
use allocation::{Distributions, Units};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "clustered",
    summary: "one client from each of m groups, by size or similarity: unbiased, lower variance of the weights.",
    options: &[("by", "1: groups by data size; 2: by similar updates; 1 if not given")],
    needs_options: false,
    weighting: Weighting::DrawCount,
    build: |spec, _| {
        let by = whole_option(spec, "by", 1, 2)?;
        Ok(Box::new(Clustered { by_similarity: by == Some(2) }))
    },
};

#[derive(Debug)]
struct Clustered {
    by_similarity: bool,
}

impl Clustered {
    /// Nothing where no client has data.
    fn distributions(&self, round: &Round<'_>) -> Option<Distributions> {
        let sizes = round.sizes();
        let available: Vec<(u32, f64)> =
            round.available().map(|client| (client, sizes.of(client))).collect();
        let units = Units::new(&available, round.setting().cohort())?;
        if !self.by_similarity {
            return Some(Distributions::by_size(units));
        }
        let (draws, capacity) = (units.draws, units.capacity);
        let (alone, rest) = units.split_whole();
        let groups = groups::by_similarity(round, &rest, capacity);
        Some(Distributions::by_groups(capacity, alone, draws, groups))
    }
}

impl Policy for Clustered {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let Some(distributions) = self.distributions(round) else {
            return Vec::new();
        };
        let mut drawn = distributions.draw(&round.draws(CLUSTER));
        drawn.sort_unstable();
        let same = drawn.chunk_by(|a, b| a == b);
        same.map(|draws| Pick { client: draws[0], draws: draws.len() as u32 }).collect()
    }

    fn needs(&self) -> Needs {
        let similar = self.by_similarity;
        Needs { training: similar, update_sketches: similar, ..Needs::default() }
    }

    fn rounds_are_independent(&self) -> bool {
        !self.by_similarity
    }

    /// One minus the probability that no distribution draws the client.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        let Some(distributions) = self.distributions(round) else {
            // No client is drawn: a forced one was as likely as the others.
            return vec![1.0 / round.available().count().max(1) as f64; clients.len()];
        };
        // As logarithms, so that a very small client has a very small chance and not none.
        let mut missed = vec![0.0f64; round.setting().clients() as usize];
        for distribution in distributions.probabilities() {
            for (client, probability) in distribution {
                missed[client as usize] += libm::log1p(-probability);
            }
        }
        clients.iter().map(|&client| -libm::expm1(missed[client as usize])).collect()
    }

    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        memoryless_ages(setting, seed)
    }
}

#[cfg(test)]
mod tests;
