//! `power-of-choice`: d candidates by data size, and of them the m with the highest loss (Cho, Wang, Joshi:
//! "Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection Strategies",
//! pi_pow-d).
//!
//! Candidates are drawn without replacement, each draw in proportion to the data sizes of those that are left. They are
//! what [`Policy::probes`] names, so that they can say their loss under the present model. Where they are not probed, the
//! losses are those of the last reports: the paper's variant rpow-d. As there, a client of whom no loss is known counts
//! as infinitely high, so it is taken before all others. Ties are broken at random.
//!
//! The paper leaves open: what happens if clients are away (candidates are drawn from the available ones, all of them if there are
//! fewer than d), and clients without data (they are candidates only when no others are left).

use super::sampling::{
    first_by, into_picks, streams::BY_WEIGHT, successive, unknown_ages, whole_option,
};
use crate::policy::{LossNeed, Needs, Policy, PolicyEntry, Probe, ProbeKind, uniform_inclusion};
use crate::random::{Draw, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "power-of-choice",
    summary: "of d candidates by data size the m with the highest loss: fast at first, and biased.",
    options: &[("d", "the number of candidates, from m to n; 2m if not given")],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, setting| {
        let (m, n) = (setting.cohort(), setting.clients());
        Ok(Box::new(PowerOfChoice { given: whole_option(spec, "d", m, n)? }))
    },
};

#[derive(Debug)]
struct PowerOfChoice {
    /// d; twice the cohort if it was not given.
    given: Option<u32>,
}

impl PowerOfChoice {
    fn candidates(&self, round: &Round<'_>) -> Vec<u32> {
        let sizes = round.sizes();
        let weighted: Vec<(u32, f64)> =
            round.available().map(|client| (client, libm::log(sizes.of(client)))).collect();
        let (m, n) = (round.setting().cohort(), round.setting().clients());
        let count = self.given.unwrap_or(m.saturating_mul(2).min(n)) as usize;
        successive(&weighted, count, &round.draws(BY_WEIGHT))
    }
}

impl Policy for PowerOfChoice {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let draws = round.draws(Stream::DRAW);
        let with_loss = |client: u32| {
            // The loss of this client, which is not the one at the candidate's place in the list.
            let loss = round.reports().loss(client).unwrap_or(f32::INFINITY);
            (loss, draws.of(u64::from(client)), client)
        };
        let candidates: Vec<(f32, Draw, u32)> =
            self.candidates(round).into_iter().map(with_loss).collect();
        let chosen = first_by(candidates, round.setting().cohort() as usize, |a, b| {
            b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        into_picks(chosen.into_iter().map(|(_, _, client)| client))
    }

    fn needs(&self) -> Needs {
        Needs { training: true, loss: LossNeed::WhileTraining, ..Needs::default() }
    }

    /// The candidates' losses.
    fn probes(&self, round: &Round<'_>) -> Vec<Probe> {
        let mut candidates = self.candidates(round);
        candidates.sort_unstable();
        Probe::all(ProbeKind::Loss, candidates)
    }

    /// It depends on the losses and has no closed form; all clients count as equally likely.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        unknown_ages(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::TestRound;

    #[test]
    fn of_the_candidates_those_with_the_highest_loss_are_chosen() {
        let losses = [0.3f32, 0.9, 0.1, 0.8, 0.5, 0.7, 0.2, 0.6];
        let setup = TestRound::sized((1..=8).map(f64::from).collect(), 2).losses(&losses);
        for seed in 0..200 {
            let probes = setup.policy("power-of-choice(d=5)").probes(&setup.round(seed));
            let candidates: Vec<u32> = probes.iter().map(|probe| probe.client).collect();
            assert_eq!(candidates.len(), 5);
            assert!(candidates.windows(2).all(|pair| pair[0] < pair[1]));
            let mut best = candidates;
            best.sort_by(|&a, &b| losses[b as usize].total_cmp(&losses[a as usize]));
            best.truncate(2);
            best.sort_unstable();
            assert_eq!(setup.cohort("power-of-choice(d=5)", seed), best);
        }
        // With all as candidates nothing is random.
        assert_eq!(setup.cohort("power-of-choice(d=8)", 1), [1, 3]);
    }

    /// Public code looks up the loss of a candidate at its place in the list of candidates' losses by client number,
    /// or the other way round. With losses that depend on the client that is another cohort.
    #[test]
    fn losses_are_those_of_the_client_and_not_of_its_place_in_the_list() {
        let losses = [0.1f32, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6];
        let setup = TestRound::new(8, 2).losses(&losses);
        let mut differs = 0;
        for seed in 0..50 {
            let probes = setup.policy("power-of-choice(d=4)").probes(&setup.round(seed));
            let candidates: Vec<u32> = probes.iter().map(|probe| probe.client).collect();
            let mut places: Vec<usize> = (0..4).collect();
            places.sort_by(|&a, &b| losses[b].total_cmp(&losses[a]));
            let mut wrong: Vec<u32> = places[..2].iter().map(|&at| candidates[at]).collect();
            wrong.sort_unstable();
            differs += u32::from(setup.cohort("power-of-choice(d=4)", seed) != wrong);
        }
        assert!(differs > 15, "{differs} of 50");
    }

    /// P(candidate) of successive draws by size, written out for two of three: 40,000 seeds, 5 deviations of 0.0025.
    #[test]
    fn candidates_are_drawn_by_size_without_replacement() {
        let setup = TestRound::sized(vec![1.0, 2.0, 5.0], 2);
        let p = [1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0];
        let second = |i: usize| -> f64 {
            (0..3).filter(|&j| j != i).map(|j| p[j] * p[i] / (1.0 - p[j])).sum()
        };
        for (client, seen) in setup.shares("power-of-choice(d=2)", 40_000).into_iter().enumerate() {
            assert!((seen - p[client] - second(client)).abs() < 0.0125, "{client}: {seen}");
        }
    }

    #[test]
    fn who_was_never_heard_comes_first_and_ties_are_random() {
        let setup = TestRound::new(6, 2).losses(&[9.0, 9.0, 9.0, 9.0]);
        assert_eq!(setup.cohort("power-of-choice(d=6)", 3), [4, 5]);
        let equal = TestRound::new(6, 2).losses(&[1.0; 6]).shares("power-of-choice(d=6)", 9_000);
        // A deviation of 0.005; 5 of them.
        assert!(equal.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.025), "{equal:?}");
    }

    #[test]
    fn few_available_clients_and_clients_without_data_fill_the_cohort() {
        let setup = TestRound::sized(vec![0.0, 0.0, 3.0, 0.0, 1.0], 3).without(&[4]);
        for seed in 0..20 {
            let cohort = setup.cohort("power-of-choice(d=3)", seed);
            assert!(cohort.len() == 3 && cohort.contains(&2) && !cohort.contains(&4));
        }
        assert_eq!(setup.without(&[0, 1]).cohort("power-of-choice", 0), [2, 3]);
    }

    #[test]
    fn the_number_of_candidates_is_checked() {
        let setting = TestRound::new(10, 3).setting;
        for (text, value) in [("2", "2"), ("11", "11"), ("3.5", "3.5"), ("nan", "NaN")] {
            let spec = format!("power-of-choice(d={text})").parse().unwrap();
            let error = super::super::build(&spec, &setting).unwrap_err();
            assert_eq!((error.field(), error.value()), ("power-of-choice(d)", value));
        }
    }
}
