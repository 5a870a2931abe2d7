//! More clients are asked than are needed, and the round ends when enough have reported; the others have worked for
//! nothing.

use super::sync::last;
use super::{Ended, Member};

pub(super) fn parse(text: &str) -> Option<f64> {
    text.parse().ok().filter(|factor: &f64| *factor > 1.0 && *factor <= 10.0)
}

/// How many clients are asked for a cohort. A product that is more than a whole number by a rounding is that number.
pub(super) fn asked(factor: f64, cohort: u64) -> u64 {
    (factor * cohort as f64 * (1.0 - 2.0 * f64::EPSILON)).ceil() as u64
}

pub(super) fn end(cohort: u32, members: &[Member]) -> Ended {
    let mut delivering: Vec<&Member> = members.iter().filter(|member| member.delivers).collect();
    delivering.sort_by(|a, b| a.end.total_cmp(&b.end).then(a.client.cmp(&b.client)));
    let mut late: Vec<u32> =
        delivering.iter().skip(cohort as usize).map(|member| member.client).collect();
    late.sort_unstable();
    let seconds = match delivering.get((cohort as usize).saturating_sub(1)) {
        Some(decisive) => decisive.end,
        // Too few are left, so the round waits until it knows that.
        None => last(members),
    };
    Ended { seconds, late }
}
