//! The kernels, written once for all vector registers.
//!
//! **Forward.** A convolution over channels-last images is a matrix product whose left rows are not gathered: for one
//! row of the kernel, the inputs that a pixel sees lie side by side in memory, and neighbouring pixels see the same
//! ones a few floats further on. A tile of pixels by channels stays in registers for the whole sum.
//!
//! **Backward.** Behind a pool and a ReLU most gradients of a convolution's outputs are zero, so both gradients
//! are sums over lists of those that are not: a patch of the input for the weights, the weights of a channel for the
//! input. Both are the same kernel, [`accumulate`].

use crate::convolution::{Convolution, EntryLists, Group};
use crate::vector::{Vector, load_each};

/// Computes all outputs of one image into `out`, `positions` by padded channels.
///
/// # Safety
/// The instructions of `V` are available. `image` has all floats that a position can see, `packed` comes from
/// [`Convolution::pack`] for blocks of `NV` registers, `out` has room for every position and padded channel, and
/// there are at least `MR` positions.
#[inline(always)]
pub(crate) unsafe fn forward<V: Vector, const MR: usize, const NV: usize>(
    shape: &Convolution,
    image: *const f32,
    packed: *const f32,
    out: *mut f32,
) {
    let width = NV * V::LANES;
    let channels = shape.padded_channels;
    let positions = shape.positions.as_slice();
    let biases = unsafe { packed.add(shape.taps() * channels) };
    for block in (0..channels).step_by(width) {
        let panel = unsafe { packed.add(block * shape.taps()) };
        let mut done = 0;
        while done < positions.len() {
            // The last tile begins early enough to be full: some outputs are computed twice, and equal.
            let first = done.min(positions.len() - MR);
            done = first + MR;
            unsafe {
                let mut pixels = [image; MR];
                for (pixel, &position) in pixels.iter_mut().zip(&positions[first..]) {
                    *pixel = image.add(position as usize);
                }
                let bias: [V; NV] = load_each(biases.add(block), V::LANES);
                let mut sums = [bias; MR];
                let mut weights = panel;
                for row in 0..shape.kernel_rows {
                    let begin = row * shape.row_stride;
                    for tap in begin..begin + shape.row_len {
                        let right: [V; NV] = load_each(weights, V::LANES);
                        weights = weights.add(width);
                        for i in 0..MR {
                            let left = V::splat(*pixels[i].add(tap));
                            for j in 0..NV {
                                sums[i][j] = left.mul_add(right[j], sums[i][j]);
                            }
                        }
                    }
                }
                for i in 0..MR {
                    let to = out.add((first + i) * channels + block);
                    for j in 0..NV {
                        sums[i][j].store(to.add(j * V::LANES));
                    }
                }
            }
        }
    }
}

/// Where [`accumulate`] reads and writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strides {
    pub(crate) target: usize,
    pub(crate) source: usize,
}

/// For all registers of a group and all lists: `target += sum over entries of factor * source[offset..]`, where the
/// targets of the lists begin at their origins.
///
/// # Safety
/// The instructions of `V` are available, and for every register of the group that many floats can be read at `source` plus
/// any entry's offset, and read and written at `target` plus any origin.
#[inline(always)]
pub(crate) unsafe fn accumulate<V: Vector>(
    group: &Group,
    strides: Strides,
    origins: &[u32],
    target: *mut f32,
    source: *const f32,
    lists: &EntryLists,
) {
    // One arm for each number of registers, so that all of them have a name.
    macro_rules! arms {
        ($($count:literal)*) => {
            match (group.registers, group.lanes == V::LANES) {
                $(($count, true) => unsafe {
                    accumulate_in::<V, $count, false>(group, strides, origins, target, source, lists);
                },
                ($count, false) => unsafe {
                    accumulate_in::<V, $count, true>(group, strides, origins, target, source, lists);
                })*
                _ => unreachable!("groups have 1 to 10 registers"),
            }
        };
    }
    arms!(10 5 1 2 3 4 6 7 8 9);
}

#[inline(always)]
unsafe fn accumulate_in<V: Vector, const N: usize, const MASKED: bool>(
    group: &Group,
    strides: Strides,
    origins: &[u32],
    target: *mut f32,
    source: *const f32,
    lists: &EntryLists,
) {
    let to = if group.by_rows { strides.target } else { V::LANES };
    for (list, &origin) in origins.iter().enumerate() {
        let entries = lists.list(list);
        if entries.is_empty() {
            continue;
        }
        unsafe {
            let target = target.add(origin as usize);
            let mut sums: [V; N] = load_each(target, to);
            for entry in entries {
                let factor = V::splat(entry.factor);
                let values = source.add(entry.offset as usize);
                for j in 0..N {
                    // Registers side by side have a distance that the compiler knows.
                    let from = if group.by_rows { strides.source } else { V::LANES };
                    // What lies behind a row belongs to others, and may be no number.
                    let value = if MASKED {
                        V::load_first(values.add(j * from), group.lanes)
                    } else {
                        V::load(values.add(j * from))
                    };
                    sums[j] = factor.mul_add(value, sums[j]);
                }
            }
            for j in 0..N {
                sums[j].store(target.add(j * to));
            }
        }
    }
}
