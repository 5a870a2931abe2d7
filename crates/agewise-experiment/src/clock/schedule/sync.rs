//! A round waits for everyone who was asked; a client that drops out is missed at the moment when it does.

use super::{Ended, Member};

pub(super) fn end(members: &[Member]) -> Ended {
    Ended { seconds: last(members), late: Vec::new() }
}

/// When the last of them is done, or has dropped out.
pub(super) fn last(members: &[Member]) -> f64 {
    members.iter().map(|member| member.end).fold(0.0, f64::max)
}
