//! `active`: clients whose data the model knew least when they last trained (Goetz, Malik, Bui, Moon, Liu, Kumar:
//! "Active Federated Learning", Algorithm 1).
//!
//! A client's valuation is the sum of the losses of all its samples over the root of their number, which is
//! sqrt(n_k) times their mean; it stays as it is until the client trains again. Reports should bring the mean loss of all
//! samples under the model that was sent out (that of the batches met while training, or of the last one, is something
//! else, and lower). Before the first round everyone is asked for it. (`whole=0`: what is met while training has to do, as
//! in a deployment, without probes.) In a round
//! the alpha1 n smallest valuations become minus infinity; (1 - alpha3) m clients are drawn without replacement
//! with probability proportional to exp(alpha2 v_k); alpha3 m are drawn uniformly from the others.
//!
//! The paper leaves open:
//! - A client without a valuation, because it was not probed: it has the highest valuation that is known, and while none is
//!   known all are alike. So everyone is tried soon.
//! - Equal valuations at the cut: by draw.
//! - Fractions: alpha1 n is rounded down, and alpha3 m at random with the right mean, because one tenth of five
//!   rounded down would never give those below the cut another chance.
//! - An unavailable client: n is the number of available clients.

use super::sampling::{
    into_picks, number_option, round_at_random,
    streams::{BY_WEIGHT, ROUNDING, UNIFORM},
    successive, uniform_sample, unknown_ages, whole_option,
};
use crate::policy::{LossNeed, Needs, Policy, PolicyEntry, Probe, ProbeKind, uniform_inclusion};
use crate::random::{Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::weighting::Weighting;

/// Far more than makes sense, and little enough for every product to be a number.
const LARGEST_ALPHA2: f64 = 1e6;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "active",
    summary: "clients drawn by sqrt(size) times last loss, some uniformly: favours clients with a high loss.",
    options: &[
        ("alpha1", "the share of clients with the lowest valuations that are left out; 0.75"),
        ("alpha2", "how steeply the chance of a client grows with its valuation; 0.01"),
        ("alpha3", "the share of the cohort that is drawn uniformly; 0.1"),
        (
            "whole",
            "1: losses of all samples, and a question before the first round; 0: of batches; 1",
        ),
    ],
    needs_options: false,
    weighting: Weighting::DataSize,
    build: |spec, _| {
        Ok(Box::new(Active {
            left_out: number_option(spec, "alpha1", 0.75, 0.0, 1.0)?,
            steepness: number_option(spec, "alpha2", 0.01, 0.0, LARGEST_ALPHA2)?,
            uniform: number_option(spec, "alpha3", 0.1, 0.0, 1.0)?,
            whole: whole_option(spec, "whole", 0, 1)?.unwrap_or(1) == 1,
        }))
    },
};

#[derive(Debug)]
struct Active {
    /// alpha1.
    left_out: f64,
    /// alpha2.
    steepness: f64,
    /// alpha3.
    uniform: f64,
    /// Whether losses should be of all samples under the model that was sent out.
    whole: bool,
}

impl Active {
    /// The clients that are above the cut, each with the logarithm of its chance.
    fn above_the_cut(&self, round: &Round<'_>) -> Vec<(u32, f64)> {
        let known = |client| valuation(round, client);
        let highest = round.available().filter_map(known).fold(f64::NEG_INFINITY, f64::max);
        let highest = if highest.is_finite() { highest } else { 0.0 };
        let draws = round.draws(Stream::DRAW);
        let mut valued: Vec<(u32, f64)> =
            round.available().map(|client| (client, known(client).unwrap_or(highest))).collect();
        let order = |a: &(u32, f64), b: &(u32, f64)| {
            let draw = |client: u32| (draws.of(u64::from(client)), client);
            a.1.total_cmp(&b.1).then_with(|| draw(a.0).cmp(&draw(b.0)))
        };
        let cut = (self.left_out * valued.len() as f64) as usize;
        if (1..valued.len()).contains(&cut) {
            valued.select_nth_unstable_by(cut, order);
        }
        let mut above = valued.split_off(cut);
        for (_, value) in &mut above {
            *value *= self.steepness;
        }
        above
    }
}

/// sqrt(n_k) times the mean loss when it last trained.
fn valuation(round: &Round<'_>, client: u32) -> Option<f64> {
    let loss = round.reports().loss(client)?;
    Some(round.sizes().of(client).sqrt() * f64::from(loss))
}

impl Policy for Active {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let available = round.available().count();
        let places = (round.setting().cohort() as usize).min(available);
        let draw = round.draws(ROUNDING).of(0);
        let uniform = round_at_random(self.uniform * places as f64, draw).min(places);
        let above = self.above_the_cut(round);
        let mut chosen = successive(&above, places - uniform, &round.draws(BY_WEIGHT));
        chosen.sort_unstable();
        let others = round.available().filter(|client| chosen.binary_search(client).is_err());
        let rest = uniform_sample(others.collect(), places - chosen.len(), &round.draws(UNIFORM));
        into_picks(chosen.into_iter().chain(rest))
    }

    /// It depends on the losses and has no closed form; all clients count as equally likely.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    fn needs(&self) -> Needs {
        let loss = if self.whole { LossNeed::WholeData } else { LossNeed::WhileTraining };
        Needs { training: true, loss, ..Needs::default() }
    }

    /// Before the first round, the losses of those of whom none is known.
    fn probes(&self, round: &Round<'_>) -> Vec<Probe> {
        let unknown = |client: &u32| round.reports().loss(*client).is_none();
        let asks = self.whole && round.number() == 0;
        Probe::all(ProbeKind::Loss, round.available().filter(|client| asks && unknown(client)))
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        unknown_ages(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::TestRound;

    /// p_k from the formulas, for one draw of four clients of whom two are above the cut: 40,000 seeds, 5 deviations.
    #[test]
    fn chances_are_those_of_the_formula() {
        let setup = TestRound::sized(vec![4.0, 9.0, 1.0, 16.0], 1).losses(&[1.0, 0.5, 2.5, 0.2]);
        // Valuations 2, 1.5, 2.5 and 0.8.
        let shares = setup.shares("active(alpha1=0.5, alpha2=2, alpha3=0)", 40_000);
        let p = 1.0 / (1.0 + f64::exp(2.0 * 0.5));
        assert!((shares[0] - p).abs() < 0.0125 && (shares[2] - (1.0 - p)).abs() < 0.0125);
        assert_eq!((shares[1], shares[3]), (0.0, 0.0));
        // One of two places is uniform among those that the first leaves.
        let setup =
            TestRound { setting: TestRound::sized(vec![4.0, 9.0, 1.0, 16.0], 2).setting, ..setup };
        let shares = setup.shares("active(alpha1=0.5, alpha2=2, alpha3=0.5)", 40_000);
        for (seen, first) in shares.iter().zip([p, 0.0, 1.0 - p, 0.0]) {
            assert!((seen - first - (1.0 - first) / 3.0).abs() < 0.0125, "{shares:?}");
        }
    }

    /// The paper's 1/sqrt(n_k) goes with the sum of losses; with their mean it turns the order around.
    #[test]
    fn more_data_is_worth_more() {
        let (sizes, losses) = ([100.0, 4.0], [0.5f32, 1.0]);
        let setup = TestRound::sized(sizes.to_vec(), 1).losses(&losses);
        assert_eq!(setup.cohort("active(alpha1=0.5, alpha3=0)", 1), [0]);
        let wrong = |client: usize| f64::from(losses[client]) / f64::sqrt(sizes[client]);
        assert!(wrong(1) > wrong(0));
    }

    #[test]
    fn who_was_never_tried_is_worth_as_much_as_the_best() {
        let losses: Vec<f32> = (0..18).map(|client| 1.0 + client as f32).collect();
        let setup = TestRound::new(20, 1).losses(&losses);
        let shares = setup.shares("active(alpha1=0.85, alpha2=0, alpha3=0)", 6_000);
        // Three are above the cut: the best that is known and the two unknown ones.
        assert!(shares[17..].iter().all(|share| (share - 1.0 / 3.0).abs() < 0.031), "{shares:?}");
        let nobody = TestRound::new(20, 4).shares("active", 8_000);
        assert!(nobody.iter().all(|share| (share - 0.2).abs() < 0.023), "{nobody:?}");
    }

    #[test]
    fn the_uniform_share_has_the_right_mean_in_small_cohorts() {
        let losses: Vec<f32> = (0..20).map(|client| client as f32).collect();
        let shares = TestRound::new(20, 5).losses(&losses).shares("active", 8_000);
        // The fifteen below the cut get half a place together, the fifth place being uniform in half of the rounds:
        // then it is among 15 of them and the one that is left.
        let below: f64 = shares[..15].iter().sum();
        assert!((below - 0.5 * 15.0 / 16.0).abs() < 0.03, "{below}");
    }

    #[test]
    fn extreme_options_fill_the_cohort() {
        let losses: Vec<f32> = (0..9).map(|client| f32::MAX / (client + 1) as f32).collect();
        let sizes = (0..12).map(|client| if client % 3 == 0 { 0.0 } else { 1e300 }).collect();
        let setup = TestRound::sized(sizes, 5).losses(&losses).without(&[2]);
        for options in ["alpha1=1", "alpha1=0, alpha2=1000000", "alpha3=1", "alpha1=1, alpha3=0"] {
            assert_eq!(setup.cohort(&format!("active({options})"), 1).len(), 5, "{options}");
        }
        for options in ["alpha1=1.1", "alpha2=inf", "alpha3=-0.1", "alpha2=nan"] {
            let spec = format!("active({options})").parse().unwrap();
            assert!(super::super::build(&spec, &setup.setting).is_err(), "{options}");
        }
    }
}
