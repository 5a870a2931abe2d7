//! A bound on the norm of updates that follows the updates: a multiple of the median norm of those that were accepted last.
//!
//! The norm of an update is its distance from the global model. The median is robust: as long as fewer than half of the
//! last updates are hostile, it lies between norms of honest ones, whatever the others report. The bound depends on nothing
//! but the norms in their order, so the coordinator and an audit compute the same bound from them.
//!
//! **Warm-up.** Before [`WARM_UP`] updates were accepted, the median would be that of a few clients. There is no bound in
//! advance then, and the updates of a round are compared with each other when it ends ([`NormBound::among`]): one that is
//! farther than the multiple of the median of all that are known, those of the round included, is left out. Of two updates
//! the smaller norm is the median; a single first update cannot be judged.

use agewise_core::{Error, Result};
use std::collections::VecDeque;

/// How many times the median an update may be away. Honest norms differ by the number of steps that clients train, which
/// follows their data, and by how far these are from everyone's.
const MULTIPLE: f64 = 10.0;
/// How many of the last updates count.
pub const WINDOW: usize = 200;
/// From so many accepted updates on there is a bound in advance.
pub const WARM_UP: usize = 20;

/// The norms of the updates that were accepted last, and the bound that follows from them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NormBound {
    /// Oldest first.
    norms: VecDeque<f64>,
}

impl NormBound {
    /// Takes in the norm of an accepted update. Callers keep to one order: by round, then by client.
    pub fn observe(&mut self, norm: f64) {
        if self.norms.len() == WINDOW {
            self.norms.pop_front();
        }
        self.norms.push_back(norm);
    }

    /// The bound for the updates of the next round; none in the warm-up, or if most updates are 0.
    pub fn bound(&self) -> Option<f64> {
        if self.norms.len() < WARM_UP {
            return None;
        }
        bound(self.norms.iter().copied().collect())
    }

    /// In the warm-up: the bound for the updates of a round that is over, from all norms that are known with them. Nothing
    /// later, when updates were compared with a bound as they came.
    pub fn among(&self, round: &[f64]) -> Option<f64> {
        if self.norms.len() >= WARM_UP {
            return None;
        }
        bound(self.norms.iter().chain(round).copied().collect())
    }

    /// All that is remembered, as files of models keep it: each norm as four whole numbers of 16 bits, because their floats
    /// have 32 bits and a norm has 64.
    pub(super) fn to_floats(&self) -> Vec<f32> {
        let parts = |norm: &f64| {
            let bits = norm.to_bits();
            [48, 32, 16, 0].map(|shift| f32::from((bits >> shift) as u16))
        };
        self.norms.iter().flat_map(parts).collect()
    }

    /// What was remembered, from those numbers.
    pub(super) fn from_floats(floats: &[f32]) -> Result<Self> {
        let (norms, rest) = floats.as_chunks::<4>();
        let is_part = |part: &f32| part.fract() == 0.0 && (0.0..65536.0).contains(part);
        if !rest.is_empty() || norms.len() > WINDOW || !floats.iter().all(is_part) {
            let expected = format!("four whole numbers of 16 bits for each of at most {WINDOW}");
            let found = format!("{} numbers", floats.len());
            return Err(Error::new("norms of the aggregation", found, expected));
        }
        let norm = |parts: &[f32; 4]| {
            f64::from_bits(parts.iter().fold(0, |bits, &part| bits << 16 | part as u64))
        };
        Ok(Self { norms: norms.iter().map(norm).collect() })
    }
}

/// What is said of an update that is farther from the global model than the bound.
pub fn too_far(norm: f64, most: f64) -> String {
    format!("{norm:.3e} from the global model, at most {most:.3e}")
}

/// The multiple of the median, of two in the middle the smaller one.
fn bound(mut norms: Vec<f64>) -> Option<f64> {
    let middle = norms.len().checked_sub(1)? / 2;
    let (_, &mut median, _) = norms.select_nth_unstable_by(middle, f64::total_cmp);
    let bound = MULTIPLE * median;
    (bound > 0.0).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(norms: impl IntoIterator<Item = f64>) -> NormBound {
        let mut bound = NormBound::default();
        norms.into_iter().for_each(|norm| bound.observe(norm));
        bound
    }

    #[test]
    fn a_bound_is_a_multiple_of_the_median_of_the_last_updates() {
        assert_eq!(known((1..20).map(f64::from)).bound(), None, "warm-up");
        assert_eq!(known((1..=20).map(f64::from)).bound(), Some(100.0), "the smaller middle");
        assert_eq!(known((1..=21).map(f64::from)).bound(), Some(110.0));
        // Everything older than the window is forgotten.
        let long = known((0..1000).map(|_| 1e9).chain((1..=WINDOW).map(|norm| norm as f64)));
        assert_eq!(long.bound(), Some(1000.0));
    }

    #[test]
    fn a_bound_comes_back_from_a_file() {
        let norms = [0.0, 1.0 / 3.0, 6e41, f64::MIN_POSITIVE / 4.0, f64::MAX];
        for bound in [NormBound::default(), known(norms), known((0..300).map(f64::from))] {
            assert_eq!(NormBound::from_floats(&bound.to_floats()).unwrap(), bound);
        }
        for wrong in [
            vec![1.0; 3],
            vec![0.5; 4],
            vec![65536.0; 4],
            vec![-1.0; 4],
            vec![f32::NAN; 4],
            vec![1.0; 804],
        ] {
            assert!(NormBound::from_floats(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn fewer_than_half_hostile_norms_leave_the_bound_among_the_honest() {
        let honest = |count: usize| (0..count).map(|client| 1.0 + client as f64 / 100.0);
        for hostile in [f64::MAX, 0.0, 1e300] {
            let mixed = known(honest(11).chain((0..9).map(|_| hostile)));
            let found = mixed.bound().unwrap();
            assert!((10.0..11.5).contains(&found), "{hostile}: {found}");
        }
    }

    #[test]
    fn in_the_warm_up_the_updates_of_a_round_are_compared_with_each_other() {
        let fresh = NormBound::default();
        assert_eq!(fresh.among(&[]), None);
        assert_eq!(fresh.among(&[6e41, 1.0]), Some(10.0), "of two the smaller is the median");
        assert_eq!(fresh.among(&[1.0, 6e41, 2.0, 3.0]), Some(20.0));
        assert!(fresh.among(&[6e41]).unwrap() > 6e41, "a single one cannot be judged");
        assert_eq!(fresh.among(&[0.0, 0.0, 1.0]), None, "most did not move");
        assert_eq!(known([2.0; 3]).among(&[6e41]), Some(20.0));
        assert_eq!(known([2.0; WARM_UP]).among(&[6e41]), None, "it came under a bound");
    }
}
