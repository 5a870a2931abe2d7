//! `oort`: clients with high losses that are not slow, some of them new (Lai, Zhu, Madhyastha, Chowdhury: "Oort:
//! Efficient Federated Learning via Guided Participant Selection", Algorithm 1).
//!
//! The statistical utility of a client is |B_i| sqrt(mean of squared losses) over all samples it last trained on (where
//! a report has no root mean square, its loss stands for it). Utilities are clipped at their 95% quantile; then comes
//! sqrt(0.1 ln R / L_i), R being the round and L_i the one in which the client last took part, both from 1; and who took
//! t_i longer than the preferred duration T counts (T / t_i)^alpha of that. Of the (1 - epsilon) m to exploit, the last has
//! some utility; all with at least 95% of it are admitted, and the places are drawn among them by utility. The other
//! epsilon m places are for clients that were never tried; epsilon is 0.9 at first, 0.98 times that in the next round,
//! and so on down to 0.2. The pacer: every 20 rounds, if their summed utility is below that of the 20 before, T grows by
//! delta.
//!
//! What the paper leaves open, and what is ours:
//! - The scale. The bonus of up to about 1 is nothing beside 600 samples times their loss. Utilities are
//!   brought to the range from 0, just below the lowest, to 1, where they are clipped. (In the authors' program 1 is the
//!   highest before clipping, which one outlier can make as large as it likes.)
//! - T starts at delta, as in Algorithm 1, and delta is a time in seconds; by default the median duration of the first round that reports any; without durations no client is slow.
//! - The pacer of the authors' program also lets T fall, and takes nearly equal utilities for a fall; ours does neither.
//! - New clients are explored by speed; the speed of a client that never took part is unknown, so they are drawn uniformly.
//!   A client that has reported no loss counts as never tried.
//! - Fractions of a place are rounded at random with the right mean. Places that cannot be filled from one
//!   side are filled from the other.
//! - Of the rules against outliers only the clipping is here. Clients that were chosen often are not excluded, which the authors'
//!   program can do if it is told to.
//! - Weights are by data size; the authors' program weighs all alike.
//!
//! The pacer is the state of this policy: T, delta and the summed utilities of the last 20 to 39 rounds.

mod pacer;

use super::sampling::{
    into_picks, number_option, round_at_random,
    streams::{BY_WEIGHT, ROUNDING, UNIFORM},
    successive, uniform_sample, unknown_ages,
};
use crate::error::Result;
use crate::policy::{LossNeed, Needs, Policy, PolicyEntry, uniform_inclusion};
use crate::random::Seed;
use crate::reports::Report;
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::weighting::Weighting;
use pacer::Pacer;

/// What is left of epsilon from one round to the next.
const DECAY: f64 = 0.98;
/// Where it stops.
const LEAST_EXPLORATION: f64 = 0.2;
/// The quantile at which utilities are clipped.
const CLIP: f64 = 0.95;
/// Where the scale of utilities begins, as a part of the lowest, which is worth a little then.
const JUST_BELOW: f64 = 0.999;
/// c: the part of the last exploited utility with which a client is still admitted.
const CUT_OFF: f64 = 0.95;
/// Of the bonus for clients that were overlooked for long.
const STALENESS: f64 = 0.1;
/// Far more than makes sense.
const LARGEST_ALPHA: f64 = 1e3;
const LARGEST_DELTA: f64 = 1e12;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "oort",
    summary: "clients with high losses that are not slow, some new ones, some long overlooked.",
    options: &[
        ("alpha", "how hard slow clients are punished; 2"),
        ("epsilon", "the share of the first cohort that explores; 0.9"),
        ("delta", "the pacer's step in seconds; the first round's median duration if not given"),
    ],
    needs_options: false,
    weighting: Weighting::DataSize,
    build: |spec, _| {
        let delta = match spec.number("delta")? {
            None => 0.0,
            Some(_) => number_option(spec, "delta", 0.0, f64::MIN_POSITIVE, LARGEST_DELTA)?,
        };
        Ok(Box::new(Oort {
            alpha: number_option(spec, "alpha", 2.0, 0.0, LARGEST_ALPHA)?,
            epsilon: number_option(spec, "epsilon", 0.9, 0.0, 1.0)?,
            given_delta: delta,
            pacer: Pacer::new(delta),
        }))
    },
};

#[derive(Debug)]
struct Oort {
    alpha: f64,
    epsilon: f64,
    /// 0 if it is still to be found.
    given_delta: f64,
    pacer: Pacer,
}

/// |B_i| times the root of the mean squared loss; |B_i| as a share, so that no product is too large.
fn statistical(share: f64, root_mean_square: Option<f32>, loss: Option<f32>) -> Option<f64> {
    Some(share * f64::from(root_mean_square.or(loss)?).abs())
}

impl Oort {
    /// epsilon in a round.
    fn exploration(&self, round: u64) -> f64 {
        let least = LEAST_EXPLORATION.min(self.epsilon);
        (self.epsilon * libm::pow(DECAY, round as f64)).max(least)
    }

    /// The utilities of tried clients, whose statistical ones these are.
    fn utilities(&self, round: &Round<'_>, tried: &[(u32, f64)]) -> Vec<(u32, f64)> {
        let clip = quantile(tried, CLIP);
        let lowest =
            tried.iter().map(|(_, value)| JUST_BELOW * value).fold(f64::INFINITY, f64::min);
        let range = clip - lowest;
        let now = (round.number() + 1) as f64;
        let utility = |&(client, statistical): &(u32, f64)| {
            let scaled = if range > 0.0 { (statistical.min(clip) - lowest) / range } else { 0.0 };
            let last = round.number().saturating_sub(round.ages().of(client)).max(1) as f64;
            let utility = scaled + (STALENESS * libm::log(now) / last).sqrt();
            let duration = round.reports().duration(client).map_or(0.0, f64::from);
            (client, utility * self.pacer.penalty(duration, self.alpha))
        };
        tried.iter().map(utility).collect()
    }

    /// Draws some of the tried clients by utility, among those that are nearly as good as the last of the best.
    fn exploit(&self, round: &Round<'_>, tried: &[(u32, f64)], places: usize) -> Vec<u32> {
        let mut utilities = self.utilities(round, tried);
        if (1..utilities.len()).contains(&places) {
            utilities.select_nth_unstable_by(places - 1, |a, b| b.1.total_cmp(&a.1));
            let least = CUT_OFF * utilities[places - 1].1;
            utilities.retain(|(_, utility)| *utility >= least);
        }
        for (_, utility) in &mut utilities {
            *utility = libm::log(*utility);
        }
        successive(&utilities, places, &round.draws(BY_WEIGHT))
    }
}

/// The smallest of the values that is not below this share of all of them.
fn quantile(values: &[(u32, f64)], share: f64) -> f64 {
    let mut values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let rank = (share * values.len() as f64).ceil() as usize;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(rank.saturating_sub(1), f64::total_cmp).1
}

impl Policy for Oort {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let (sizes, reports) = (round.sizes(), round.reports());
        let (mut tried, mut new) = (Vec::new(), Vec::new());
        for client in round.available() {
            let (root, loss) = (reports.root_mean_square(client), reports.loss(client));
            match statistical(sizes.share(client), root, loss) {
                Some(utility) => tried.push((client, utility)),
                None => new.push(client),
            }
        }
        let places = (round.setting().cohort() as usize).min(tried.len() + new.len());
        let wanted = self.exploration(round.number()) * places as f64;
        let explored = round_at_random(wanted, round.draws(ROUNDING).of(0)).min(new.len());
        let exploited = (places - explored).min(tried.len());
        let members = self.exploit(round, &tried, exploited);
        let others = uniform_sample(new, places - exploited, &round.draws(UNIFORM));
        into_picks(members.into_iter().chain(others))
    }

    /// It depends on the losses and has no closed form; all clients count as equally likely.
    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        uniform_inclusion(round, clients)
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        unknown_ages(setting)
    }

    fn needs(&self) -> Needs {
        let loss = LossNeed::WhileTraining;
        Needs { training: true, loss, loss_squares: true, ..Needs::default() }
    }

    fn finished(&mut self, setting: &Setting, accepted: &[Report<'_>]) {
        let utility = |report: &Report<'_>| {
            let share = setting.sizes().share(report.client);
            statistical(share, report.root_mean_square, report.loss)
        };
        let durations = accepted.iter().filter_map(|report| report.duration).map(f64::from);
        self.pacer.learn(durations.collect());
        self.pacer.step(accepted.iter().filter_map(utility).sum());
    }

    fn state(&self) -> Vec<f64> {
        self.pacer.state()
    }

    fn load_state(&mut self, state: &[f64]) -> Result<()> {
        self.pacer = Pacer::from_state(state, self.given_delta)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::TestRound;
    use super::pacer::WINDOW;
    use super::*;
    use crate::ages::Ages;

    fn oort(alpha: f64, preferred: f64) -> Oort {
        Oort { alpha, epsilon: 0.9, given_delta: 0.0, pacer: Pacer::new(preferred) }
    }

    /// A round far enough on that epsilon is 0.2, with these ages.
    fn late(setup: TestRound, round: u64, ages: &[u64]) -> TestRound {
        let since = ages.iter().map(|&age| round as i64 - age as i64);
        TestRound { ages: Ages::resumed(round, since).unwrap(), ..setup }
    }

    #[test]
    fn utilities_are_those_of_the_formulas() {
        let mut setup = late(TestRound::sized(vec![1.0, 3.0, 4.0], 1), 99, &[0, 9, 98]);
        let figures = [(Some(5.0f32), 1.0f32, 2.0f32), (None, 2.0, 8.0), (Some(1.0), 9.0, 3.0)];
        for (client, (root_mean_square, loss, duration)) in (0..).zip(figures) {
            let (loss, duration) = (Some(loss), Some(duration));
            let plain = Report::plain(client);
            setup.reports.record(&Report { loss, duration, root_mean_square, ..plain });
        }
        // |B| times the root mean square, or the loss where there is none: 5, 6 and 4 eighths; the highest is the
        // quantile of so few, and the lowest of them nearly 0 of the scale.
        let tried = [(0, 5.0 / 8.0), (1, 6.0 / 8.0), (2, 4.0 / 8.0)];
        let bonus = |last: f64| (0.1 * f64::ln(100.0) / last).sqrt();
        let expected = [
            (5.0 - 3.996) / (6.0 - 3.996) + bonus(99.0),
            (1.0 + bonus(90.0)) * (4.0f64 / 8.0).powi(2),
            (4.0 - 3.996) / (6.0 - 3.996) + bonus(1.0),
        ];
        let found = oort(2.0, 4.0).utilities(&setup.round(1), &tried);
        for ((_, found), expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
    }

    /// The root of the mean square is not the mean: one sample of four with loss 10 against all with 3.
    #[test]
    fn squares_count_and_not_means() {
        let few_high = [10.0, 0.0, 0.0, 0.0];
        let mean = few_high.iter().sum::<f32>() / 4.0;
        let root = (few_high.iter().map(|loss| loss * loss).sum::<f32>() / 4.0).sqrt();
        let with_root = statistical(1.0, Some(root), Some(mean)).unwrap();
        let all_alike = statistical(1.0, Some(3.0), Some(3.0)).unwrap();
        assert!(with_root > all_alike && f64::from(mean) < all_alike);
    }

    #[test]
    fn outliers_are_clipped_and_only_the_nearly_best_are_drawn() {
        let values: Vec<(u32, f64)> = (0..20).map(|client| (client, f64::from(client))).collect();
        assert_eq!((quantile(&values, 0.95), quantile(&values[..1], 0.95)), (18.0, 0.0));
        assert_eq!(quantile(&[], 0.95), 0.0);
        // 100 clients, all tried: losses 1 to 5 in groups of 20, and one that is far too high.
        let mut losses: Vec<f32> = (0..100).map(|client| 1.0 + (client / 20) as f32).collect();
        losses[0] = 1e30;
        let setup = late(TestRound::new(100, 10).losses(&losses), 500, &[0; 100]);
        let shares = setup.shares("oort", 4_000);
        // The cut is at 0.95 of the tenth best; 20 with loss 5 and the outlier are above it, and all of them alike.
        assert!(shares[1..80].iter().all(|&share| share == 0.0), "{shares:?}");
        let expected = 10.0 / 21.0;
        let near = |share: &f64| (share - expected).abs() < 0.04;
        assert!(near(&shares[0]) && shares[80..].iter().all(near), "{shares:?}");
    }

    #[test]
    fn exploration_decays_to_a_fifth() {
        let oort = oort(2.0, 0.0);
        assert!((oort.exploration(0) - 0.9).abs() < 1e-12);
        assert!((oort.exploration(3) - 0.9 * 0.98f64.powi(3)).abs() < 1e-12);
        assert_eq!(oort.exploration(200), 0.2);
        assert_eq!(Oort { epsilon: 0.1, ..oort }.exploration(0), 0.1);
        let tried = TestRound::new(40, 10).losses(&[1.0; 20]);
        let new = |setup: &TestRound| setup.shares("oort", 2_000)[20..].iter().sum::<f64>();
        assert!((new(&tried) - 9.0).abs() < 1e-9, "{}", new(&tried));
        let later = late(tried, 400, &[0; 40]);
        assert!((new(&later) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn places_are_filled_from_either_side() {
        assert_eq!(TestRound::new(20, 6).cohort("oort", 1).len(), 6);
        assert_eq!(TestRound::new(20, 6).losses(&[1.0; 20]).cohort("oort", 1).len(), 6);
        assert_eq!(TestRound::new(20, 6).losses(&[0.0; 19]).cohort("oort", 1).len(), 6);
        assert_eq!(TestRound::new(4, 3).without(&[0, 1]).cohort("oort", 1), [2, 3]);
    }

    #[test]
    fn slow_clients_are_drawn_less_often() {
        let setup = |duration: f32| {
            let mut setup = late(TestRound::new(2, 1).losses(&[1.0, 1.0]), 300, &[0, 0]);
            let duration = Some(duration);
            setup.reports.record(&Report { duration, ..Report::plain(1) });
            setup
        };
        let share = |duration, policy: &str| setup(duration).shares(policy, 8_000)[1];
        // Only one place and the cut at 95% of the best: a slower client is not admitted.
        assert_eq!(share(20.0, "oort(delta=10)"), 0.0);
        let expected = (10.0f64 / 10.2).powi(2) / (1.0 + (10.0f64 / 10.2).powi(2));
        assert!((share(10.2, "oort(delta=10)") - expected).abs() < 0.028);
        assert!((share(20.0, "oort") - 0.5).abs() < 0.028, "no duration was ever heard");
        assert!((share(20.0, "oort(delta=10, alpha=0)") - 0.5).abs() < 0.028);
    }

    #[test]
    fn a_hostile_state_is_refused() {
        let mut oort = oort(2.0, 1.0);
        let before = oort.state();
        let long = [1.0; 2 + 2 * WINDOW];
        let bad: [&[f64]; 6] = [
            &[1.0],
            &[1.0, f64::NAN],
            &[f64::INFINITY, 1.0],
            &[1.0, 1.0, -1.0],
            &[1.0, 2.0],
            &long,
        ];
        for state in bad {
            assert!(oort.load_state(state).is_err(), "{state:?}");
            assert_eq!(oort.state(), before);
        }
    }
}
