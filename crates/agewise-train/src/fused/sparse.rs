//! Gradients of a convolution's outputs that are not zero, in the two orders in which they are used.

use agewise_kernels::{Backend, Entry, EntryLists, alive};

/// The gradient of one image's outputs as lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseGradient {
    channels: usize,
    by_channel: EntryLists,
    by_position: EntryLists,
    /// Where the patch of each position begins.
    patches: Vec<u32>,
}

/// Channels whose gradients are looked at together: a bit for each.
const AT_ONCE: usize = 64;

impl SparseGradient {
    /// For outputs of so many channels; the patches of positions begin at `patches`, and each position can be the
    /// winner of so many windows.
    pub(crate) fn new(
        outputs: usize,
        channels: usize,
        patches: &[u32],
        most_windows: usize,
    ) -> Self {
        Self {
            channels,
            by_channel: EntryLists::new(channels, outputs),
            by_position: EntryLists::new(patches.len(), channels * most_windows),
            patches: patches.to_vec(),
        }
    }

    /// Sorts the gradients of outputs: those of output o begin at `places[o]`. A channel's weights begin at
    /// `channel * taps`. Entries by position are only made where they are needed.
    pub(crate) fn sort(
        &mut self,
        backend: Backend,
        winners: &[u32],
        gradients: &[f32],
        places: &[u32],
        taps: Option<usize>,
    ) {
        self.by_channel.clear();
        self.by_position.clear();
        for (winners, &place) in winners.chunks_exact(self.channels).zip(places) {
            let gradients = &gradients[place as usize..][..self.channels];
            let parts = winners.chunks(AT_ONCE).zip(gradients.chunks(AT_ONCE));
            for (part, (winners, gradients)) in parts.enumerate() {
                // Half of them and more are not alive: a branch for each would be a coin toss.
                let mut bits = alive(backend, winners, gradients);
                while bits != 0 {
                    let at = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let (channel, position) = (part * AT_ONCE + at, winners[at] as usize);
                    let (offset, factor) = (self.patches[position], gradients[at]);
                    self.by_channel.push(channel, Entry { offset, factor });
                    if let Some(taps) = taps {
                        let offset = (channel * taps) as u32;
                        self.by_position.push(position, Entry { offset, factor });
                    }
                }
            }
        }
    }

    /// The entries of each channel, with the offsets of their patches.
    pub(crate) fn by_channel(&self) -> &EntryLists {
        &self.by_channel
    }

    /// The entries of each position, with the offsets of their channels' weights.
    pub(crate) fn by_position(&self) -> &EntryLists {
        &self.by_position
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        (0..self.channels).map(|channel| self.by_channel.list(channel).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_kernels::NO_WINNER;

    #[test]
    fn every_gradient_is_in_both_lists() {
        // Two outputs, three channels, four positions.
        let mut sparse = SparseGradient::new(2, 3, &[0, 10, 20, 30], 2);
        let winners = [3, NO_WINNER, 0, 3, 1, 2];
        let gradients = [9.0, 1.0, 2.0, 3.0, 4.0, 0.0, 6.0];
        for _ in 0..2 {
            sparse.sort(Backend::fastest(), &winners, &gradients, &[1, 4], Some(100));
            let entry = |offset, factor| Entry { offset, factor };
            assert_eq!(sparse.by_channel().list(0), [entry(30, 1.0), entry(30, 4.0)]);
            assert_eq!(sparse.by_channel().list(1), []);
            assert_eq!(sparse.by_channel().list(2), [entry(0, 3.0), entry(20, 6.0)]);
            assert_eq!(sparse.by_position().list(0), [entry(200, 3.0)]);
            assert_eq!(sparse.by_position().list(1), []);
            assert_eq!(sparse.by_position().list(2), [entry(200, 6.0)]);
            assert_eq!(sparse.by_position().list(3), [entry(0, 1.0), entry(0, 4.0)]);
            assert_eq!(sparse.len(), 4);
        }
    }
}
