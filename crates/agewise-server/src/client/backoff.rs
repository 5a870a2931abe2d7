//! Pauses between tries: each twice as long as the one before, and random, so that a thousand clients do not come back at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

/// The next pauses.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(super) fn new(longest: Duration) -> Self {
        Self { next: FIRST.min(longest), longest }
    }

    /// After something worked.
    pub(super) fn reset(&mut self) {
        self.next = FIRST.min(self.longest);
    }

    /// The longest that the last pause can have been.
    pub(super) fn last(&self) -> Duration {
        self.next / 2
    }

    /// Between half of the pause and all of it.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(self.longest);
        // Without random numbers all clients wait equally long, which is not a reason to stop.
        let unit = getrandom::u32().map_or(1.0, |bits| f64::from(bits) / f64::from(u32::MAX));
        pause.mul_f64(0.5 + 0.5 * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let pauses: Vec<Duration> = (0..8).map(|_| backoff.next()).collect();
        for (index, pause) in pauses.iter().enumerate() {
            let most = (FIRST * 2u32.pow(index as u32)).min(Duration::from_secs(1));
            assert!(*pause >= most / 2 && *pause <= most, "{index}: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
