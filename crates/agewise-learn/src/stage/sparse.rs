//! Gradients of a convolution's outputs that are not zero, in the two orders in which they are used.

use super::Entry;
use crate::kernel::NOBODY;

/// The gradient of one image's outputs as lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseGradient {
    alive: Vec<Alive>,
    by_channel: Lists,
    by_position: Lists,
}

/// A gradient that is not zero.
#[derive(Debug, Clone, Copy, Default)]
struct Alive {
    position: u32,
    channel: u32,
    value: f32,
}

/// Entries sorted into lists.
#[derive(Debug, Clone, Default)]
struct Lists {
    /// Where each list begins; one more for the end of the last.
    begins: Vec<u32>,
    entries: Vec<Entry>,
}

impl SparseGradient {
    /// Room for the outputs of one image.
    pub(crate) fn new(outputs: usize, channels: usize, positions: usize) -> Self {
        let most = outputs * channels;
        Self {
            alive: vec![Alive::default(); most],
            by_channel: Lists::new(channels, most),
            by_position: Lists::new(positions, most),
        }
    }

    /// Sorts the gradients of outputs: those of output o begin at `places[o]`. A position's patch begins at
    /// `patches(position)`, and a channel's weights at `channel * taps`.
    pub(crate) fn sort(
        &mut self,
        winners: &[u32],
        gradients: &[f32],
        places: &[u32],
        patch: impl Fn(usize) -> u32,
        taps: usize,
    ) {
        let channels = self.by_channel.begins.len() - 1;
        let mut count = 0;
        for (winners, &place) in winners.chunks_exact(channels).zip(places) {
            let gradients = &gradients[place as usize..][..channels];
            for ((channel, &position), &value) in (0..).zip(winners).zip(gradients) {
                // Written in any case and kept only if alive: a branch here would be a coin toss.
                self.alive[count] = Alive { position, channel, value };
                count += usize::from(position != NOBODY && value != 0.0);
            }
        }
        let alive = &self.alive[..count];
        self.by_channel.sort(alive, |alive| alive.channel, |alive| patch(alive.position as usize));
        self.by_position.sort(alive, |alive| alive.position, |alive| alive.channel * taps as u32);
    }

    /// The entries of one channel, with the offsets of their patches.
    pub(crate) fn of_channel(&self, channel: usize) -> &[Entry] {
        self.by_channel.list(channel)
    }

    /// The entries of one position, with the offsets of their channels' weights.
    pub(crate) fn of_position(&self, position: usize) -> &[Entry] {
        self.by_position.list(position)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_channel.begins.last().map_or(0, |&end| end as usize)
    }
}

impl Lists {
    fn new(lists: usize, most: usize) -> Self {
        Self { begins: vec![0; lists + 1], entries: vec![Entry::default(); most] }
    }

    fn list(&self, index: usize) -> &[Entry] {
        &self.entries[self.begins[index] as usize..self.begins[index + 1] as usize]
    }

    /// Counts, then places: each list keeps the order of `alive`.
    fn sort(
        &mut self,
        alive: &[Alive],
        list: impl Fn(&Alive) -> u32,
        offset: impl Fn(&Alive) -> u32,
    ) {
        self.begins.fill(0);
        let lists = self.begins.len() - 1;
        for alive in alive {
            // Counted one list further on; the last one needs no count, because its end is known.
            let next = list(alive) as usize + 1;
            if next < lists {
                self.begins[next] += 1;
            }
        }
        for index in 1..lists {
            self.begins[index] += self.begins[index - 1];
        }
        for alive in alive {
            let end = &mut self.begins[list(alive) as usize];
            self.entries[*end as usize] = Entry { offset: offset(alive), factor: alive.value };
            *end += 1;
        }
        // Every begin has moved to the end of its list: the begins are one place too early now.
        self.begins.copy_within(0..lists, 1);
        self.begins[0] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gradient_is_in_both_lists() {
        // Two outputs, three channels, four positions.
        let mut sparse = SparseGradient::new(2, 3, 4);
        let winners = [3, NOBODY, 0, 3, 1, 2];
        let gradients = [9.0, 1.0, 2.0, 3.0, 4.0, 0.0, 6.0];
        for _ in 0..2 {
            sparse.sort(&winners, &gradients, &[1, 4], |position| 10 * position as u32, 100);
            let entry = |offset, factor| Entry { offset, factor };
            assert_eq!(sparse.of_channel(0), [entry(30, 1.0), entry(30, 4.0)]);
            assert_eq!(sparse.of_channel(1), []);
            assert_eq!(sparse.of_channel(2), [entry(0, 3.0), entry(20, 6.0)]);
            assert_eq!(sparse.of_position(0), [entry(200, 3.0)]);
            assert_eq!(sparse.of_position(1), []);
            assert_eq!(sparse.of_position(2), [entry(200, 6.0)]);
            assert_eq!(sparse.of_position(3), [entry(0, 1.0), entry(0, 4.0)]);
            assert_eq!(sparse.len(), 4);
        }
    }
}
