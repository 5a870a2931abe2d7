//! Maxima over windows, with the ReLU in the same pass.

use crate::Backend;
use crate::backend::Kernel;
use crate::vector::{LANES, Vector};

/// The mark of an output without a winner: all values were below the zero of the ReLU.
pub const NO_WINNER: u32 = u32::MAX;

/// The positions among which each output takes the largest value.
#[derive(Debug, Clone)]
pub struct Windows {
    /// For each output so many positions.
    taps: usize,
    positions: Vec<u32>,
}

impl Windows {
    /// Every position is an output of its own: no pool at all.
    pub fn single(positions: usize) -> Self {
        Self { taps: 1, positions: (0..positions as u32).collect() }
    }

    /// Squares of `size` by `size` positions, every `stride` ones, beginning `padding` before the first. What lies
    /// outside does not count.
    pub fn new(
        (height, width): (usize, usize),
        (size, stride, padding): (usize, usize, usize),
    ) -> Self {
        let outputs = |len: usize| (len + 2 * padding - size) / stride + 1;
        let inside = |output: usize, step: usize, len: usize| {
            (output * stride + step).checked_sub(padding).filter(|&at| at < len)
        };
        let mut positions = Vec::new();
        for row in 0..outputs(height) {
            for column in 0..outputs(width) {
                let begin = positions.len();
                for (down, right) in (0..size * size).map(|tap| (tap / size, tap % size)) {
                    let at = inside(row, down, height).zip(inside(column, right, width));
                    positions.extend(at.map(|(row, column)| (row * width + column) as u32));
                }
                // Windows at the border have fewer positions: repeating one changes no maximum.
                positions.resize(begin + size * size, positions[begin]);
            }
        }
        Self { taps: size * size, positions }
    }

    /// How many windows a position can win.
    pub fn most_windows(&self) -> usize {
        let mut windows = vec![0; self.positions.iter().max().map_or(0, |&last| last as usize + 1)];
        for window in self.positions.chunks_exact(self.taps) {
            for (tap, &position) in window.iter().enumerate() {
                windows[position as usize] += usize::from(!window[..tap].contains(&position));
            }
        }
        windows.into_iter().max().unwrap_or(0)
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.positions.len() / self.taps
    }

    /// The largest value of each window and channel, and the position that has it. Position p of channel c is
    /// `plane[p * stride + c]`; the channels of output o begin at `places[o]` of `out`, and at `o * channels` of
    /// `winners`. Of equal values the first wins. A ReLU lets only values above zero win.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn forward(&self, backend: Backend, relu: bool, plane: Plane<'_>, pooled: Pooled<'_>) {
        // SAFETY: the kernel has no pointers.
        unsafe { backend.run(Forward { windows: self, relu, plane, pooled }) }
    }
}

/// What is pooled.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'a> {
    /// All values, row by row.
    pub values: &'a [f32],
    /// Floats from one position to the next.
    pub stride: usize,
    /// Channels of a position.
    pub channels: usize,
}

/// Where the maxima go.
#[derive(Debug)]
pub struct Pooled<'a> {
    /// Where the channels of each window go.
    pub places: &'a [u32],
    /// The largest value of each window.
    pub out: &'a mut [f32],
    /// Where in the plane that value was found.
    pub winners: &'a mut [u32],
}

/// Plain code, of which the compiler makes vectors: nothing is rounded here.
struct Forward<'a> {
    windows: &'a Windows,
    relu: bool,
    plane: Plane<'a>,
    pooled: Pooled<'a>,
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        forward(self.windows, self.relu, self.plane, self.pooled);
    }
}

#[inline(always)]
fn forward(windows: &Windows, relu: bool, plane: Plane<'_>, pooled: Pooled<'_>) {
    let Plane { values, stride, channels } = plane;
    let Pooled { places, out, winners } = pooled;
    let least = if relu { 0.0 } else { f32::NEG_INFINITY };
    let outputs = windows.positions.chunks_exact(windows.taps).zip(places);
    for ((window, &place), winners) in outputs.zip(winners.chunks_exact_mut(channels)) {
        let out = &mut out[place as usize..][..channels];
        let whole = channels / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            let (mut best, mut winner) = ([least; LANES], [NO_WINNER; LANES]);
            for &position in window {
                let begin = position as usize * stride + first;
                let candidates = &values[begin..begin + LANES];
                for lane in 0..LANES {
                    compete(candidates[lane], position, &mut best[lane], &mut winner[lane]);
                }
            }
            out[first..first + LANES].copy_from_slice(&best);
            winners[first..first + LANES].copy_from_slice(&winner);
        }
        for channel in whole..channels {
            let (best, winner) = (&mut out[channel], &mut winners[channel]);
            (*best, *winner) = (least, NO_WINNER);
            for &position in window {
                compete(values[position as usize * stride + channel], position, best, winner);
            }
        }
    }
}

#[inline(always)]
fn compete(candidate: f32, position: u32, best: &mut f32, winner: &mut u32) {
    // What is not a number wins for good: it must not be hidden.
    let wins = candidate > *best || candidate.is_nan();
    *best = if wins { candidate } else { *best };
    *winner = if wins { position } else { *winner };
}

/// A bit for each of up to 64 channels of an output that has a winner and a gradient that is not zero.
///
/// # Panics
/// If there are more channels, or the slices differ in length.
pub fn alive(backend: Backend, winners: &[u32], gradients: &[f32]) -> u64 {
    assert!(winners.len() == gradients.len() && winners.len() <= 64);
    let mut bits = 0;
    // SAFETY: the slices have the same length.
    unsafe { backend.run(Alive { winners, gradients, bits: &mut bits }) }
    bits
}

struct Alive<'a> {
    winners: &'a [u32],
    gradients: &'a [f32],
    bits: &'a mut u64,
}

impl Kernel for Alive<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { winners, gradients, bits } = self;
        let whole = winners.len() / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            // SAFETY: both slices go on for a vector.
            let alive = unsafe {
                V::alive(winners.as_ptr().add(first), NO_WINNER, gradients.as_ptr().add(first))
            };
            *bits |= u64::from(alive) << first;
        }
        for channel in whole..winners.len() {
            let alive = winners[channel] != NO_WINNER && gradients[channel] != 0.0;
            *bits |= u64::from(alive) << channel;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alive_are_winners_with_a_gradient() {
        for channels in [0, 1, 15, 16, 40, 64] {
            let winners: Vec<u32> =
                (0..channels).map(|c| if c % 3 == 0 { NO_WINNER } else { c }).collect();
            let gradient = |c: u32| [0.0, -0.0, f32::NAN, 1e-40, -2.0][c as usize % 5];
            let gradients: Vec<f32> = (0..channels).map(gradient).collect();
            let expected = (0..channels)
                .filter(|c| c % 3 != 0 && c % 5 > 1)
                .fold(0, |bits, channel| bits | 1u64 << channel);
            for backend in Backend::available() {
                assert_eq!(alive(backend, &winners, &gradients), expected, "{backend}: {channels}");
            }
        }
    }

    fn pool(windows: &Windows, relu: bool, values: &[f32]) -> (Vec<f32>, Vec<u32>) {
        let outputs = windows.outputs();
        let places: Vec<u32> = (0..outputs as u32).collect();
        let mut results = Backend::available().into_iter().map(|backend| {
            let (mut out, mut winners) = (vec![0.0; outputs], vec![0; outputs]);
            let plane = Plane { values, stride: 1, channels: 1 };
            let pooled = Pooled { places: &places, out: &mut out, winners: &mut winners };
            windows.forward(backend, relu, plane, pooled);
            (out, winners)
        });
        let first = results.next().unwrap();
        assert!(results.all(|result| result == first));
        first
    }

    #[test]
    fn takes_the_first_of_the_largest() {
        let windows = Windows::new((2, 4), (2, 2, 0));
        let values = [1.0, 3.0, -1.0, -2.0, 3.0, 2.0, -1.0, -4.0];
        assert_eq!(pool(&windows, false, &values), (vec![3.0, -1.0], vec![1, 2]));
        assert_eq!(pool(&windows, true, &values), (vec![3.0, 0.0], vec![1, NO_WINNER]));
    }

    #[test]
    fn what_lies_outside_does_not_count() {
        let windows = Windows::new((3, 3), (3, 2, 1));
        let values = [-9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0];
        assert_eq!(
            pool(&windows, false, &values),
            (vec![-5.0, -4.0, -2.0, -1.0], vec![4, 5, 7, 8])
        );
        let single = Windows::single(3);
        assert_eq!(pool(&single, true, &values[..3]).0, [0.0; 3]);
    }
}
