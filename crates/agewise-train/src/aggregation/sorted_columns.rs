//! For each parameter the mean of the middle of its values: what the trimmed mean and the median share.
//!
//! They do not weigh: every update that came counts the same, and no part of the old model stays, whatever the weights add
//! up to.

use super::updates::Updates;
use agewise_core::Result;
use std::ops::Range;

/// For each parameter the mean of what is left when so many values (of so many updates) are cut at each end; nothing if no
/// update can be used. Memory needs one number for each update that came.
pub(super) fn mean_of_the_middle<'m>(
    updates: &mut Updates<'_>,
    middle: &'m mut Vec<f32>,
    cut: impl Fn(usize) -> usize,
) -> Result<Option<&'m [f32]>> {
    let (came, parameters) = (updates.came(), updates.global.len());
    let mut buffer = updates.buffer(came.max(1), came.saturating_mul(parameters))?;
    let mut taken = Vec::with_capacity(came);
    for member in 0..updates.cohort.len() {
        if updates.verdicts[member].is_ok() {
            match updates.scan(member, &mut buffer) {
                Ok(share) => taken.push((member, share)),
                Err(why) => updates.reject(member, why),
            }
        }
    }
    buffer.resize(updates.piece(), 0.0);
    middle.resize(parameters, 0.0);
    while !taken.is_empty() {
        match try_middle(updates, &taken, cut(taken.len()), &mut buffer, middle) {
            Ok(()) => return Ok(Some(middle)),
            // It went bad after it was looked through: all begins anew without it.
            Err((row, why)) => {
                let (member, _) = taken.remove(row);
                updates.reject(member, why);
            }
        }
    }
    Ok(None)
}

/// Combines some members, each with the share of its way that it may keep. Fails with the place of one that went bad.
fn try_middle(
    updates: &mut Updates<'_>,
    taken: &[(usize, f64)],
    cut: usize,
    buffer: &mut [f32],
    middle: &mut [f32],
) -> std::result::Result<(), (usize, String)> {
    let width = row_width(buffer.len() / taken.len(), middle.len());
    let rows = &mut buffer[..taken.len() * width];
    for (at, middle) in middle.chunks_mut(width).enumerate() {
        for (row, &(member, share)) in taken.iter().enumerate() {
            let values = &mut rows[row * width..][..middle.len()];
            let read = updates.read_clipped(member, at * width, share, values);
            read.map_err(|why| (row, why))?;
        }
        for (tile, middle) in middle.chunks_mut(TILE).enumerate() {
            mean_of_middle(rows, width, tile * TILE, cut, middle);
        }
    }
    Ok(())
}

/// How many parameters are sorted at a time: few enough for a cache to hold them for a whole cohort.
const TILE: usize = 64;

/// The length of a row, if so many parameters fit and the model has so many. Rows of an odd number of cache lines do not
/// all fall on the same few places of a cache.
fn row_width(fit: usize, parameters: usize) -> usize {
    const LINE: usize = 16;
    let width = fit.min(parameters).max(1);
    if width < 2 * LINE { width } else { ((width / LINE - 1) | 1) * LINE }
}

/// For each parameter from `first` on the mean of the values that are left when so many of the smallest and of the
/// largest are cut, which is fewer than half of them. Sorted values are summed up from the smallest, so that the order of
/// the cohort does not matter.
fn mean_of_middle(rows: &mut [f32], width: usize, first: usize, cut: usize, target: &mut [f32]) {
    let columns = first..first + target.len();
    sort_columns(rows, width, columns.clone());
    let count = rows.len() / width;
    let mut sums = [0.0; TILE];
    for row in rows.chunks(width).take(count - cut).skip(cut) {
        for (sum, &value) in sums.iter_mut().zip(&row[columns.clone()]) {
            *sum += f64::from(value);
        }
    }
    for (target, sum) in target.iter_mut().zip(sums) {
        *target = (sum / (count - 2 * cut) as f64) as f32;
    }
}

/// Sorts each of some columns, from the first row to the last. Which rows are compared does not depend on their values
/// (Batcher's merge exchange; Knuth, volume 3, algorithm 5.2.2M), so that columns are sorted side by side.
fn sort_columns(rows: &mut [f32], width: usize, columns: Range<usize>) {
    let count = rows.len() / width;
    let half = count.next_power_of_two() / 2;
    let mut bit = half;
    while bit > 0 {
        let (mut distance, mut residue, mut reach) = (bit, 0, half);
        loop {
            for row in (0..count - distance).filter(|row| row & bit == residue) {
                let (head, tail) = rows.split_at_mut((row + distance) * width);
                order(&mut head[row * width..][columns.clone()], &mut tail[columns.clone()]);
            }
            if reach == bit {
                break;
            }
            (distance, residue, reach) = (reach - bit, bit, reach / 2);
        }
        bit /= 2;
    }
}

/// Leaves the smaller of two values in the first row, and the larger in the second. Written without a branch, so that the
/// compiler makes vectors of it; zeros may change their sign, which no sum that begins with 0 sees.
fn order(smaller: &mut [f32], larger: &mut [f32]) {
    for (smaller, larger) in smaller.iter_mut().zip(larger) {
        let (one, other) = (*smaller, *larger);
        *smaller = one.min(other);
        *larger = one.max(other);
    }
}
