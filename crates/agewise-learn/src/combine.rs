//! Combining updates that are stored: each is read in pieces, so that memory is bounded by a setting and not by the size
//! of the cohort.
//!
//! The mean weighs updates as the core says, and is bit for bit the average of [`crate::federate`]. The trimmed mean and
//! the median look at one parameter at a time, and a few clients that send nonsense cannot move them far. They do not
//! weigh: every update that came counts the same, and no part of the old model stays, whatever the weights add up to.
//!
//! Every update is looked through before any of it is used. One that goes bad after that is left out as well: all begins
//! anew without it.

use crate::aggregate::{Aggregator, NOT_FINITE, Rejected, Server, check_weight};
use crate::kernel::all_finite;
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the updates of a cohort become one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CombineRule {
    /// The weighted mean.
    #[default]
    Mean,
    /// For each parameter the mean of what is left when the smallest and the largest values are cut; does not weigh.
    TrimmedMean,
    /// For each parameter the value in the middle, or the mean of the two there; does not weigh.
    Median,
}

/// Settings of combining, not checked yet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CombineParams {
    /// The rule.
    pub rule: CombineRule,
    /// The share of updates that a trimmed mean cuts at each end, from 0 to below 0.5.
    pub trim: f64,
    /// If above 0, an update that is farther than this from the global model is shortened to this distance.
    pub clip_norm: f64,
}

impl Default for CombineParams {
    /// The mean of updates as they came.
    fn default() -> Self {
        Self { rule: CombineRule::Mean, trim: 0.1, clip_norm: 0.0 }
    }
}

impl CombineParams {
    /// Checks all settings.
    pub fn check(self) -> Result<Combine> {
        if !(0.0..0.5).contains(&self.trim) {
            return Err(Error::new("trim", self.trim, "a number from 0 to below 0.5"));
        }
        if !(self.clip_norm.is_finite() && self.clip_norm >= 0.0) {
            return Err(Error::new("clip_norm", self.clip_norm, "a number of at least 0"));
        }
        Ok(Combine(self))
    }
}

/// A member of the cohort, in the order of the sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// Its number.
    pub client: u32,
    /// What its update counts for.
    pub weight: f64,
    /// Why its update did not come, if it did not.
    pub missing: Option<String>,
}

/// Updates that lie somewhere, each read in pieces.
pub trait StoredUpdates {
    /// Fills the target with the parameters from `first` on of a member, who is counted in the order of the cohort. They
    /// may be asked for more than once and are then the same. An error means that the update cannot be used.
    fn read(&mut self, member: usize, first: usize, target: &mut [f32]) -> Result<()>;
}

/// Settings of combining that can be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Combine(CombineParams);

/// Whether an update was taken.
type Verdict = std::result::Result<(), Rejected>;

impl Combine {
    /// What they are.
    pub fn params(&self) -> &CombineParams {
        &self.0
    }

    /// Moves the global model, and returns for each member whether its update was taken. Beside one slice as long as the
    /// model, buffers take at most `memory` bytes: 4 are needed by the mean, and 4 for each update that came by the other
    /// rules. If no update can be taken, or if the combination is not finite, the model stays.
    pub fn apply(
        &self,
        members: &[Offered],
        updates: &mut dyn StoredUpdates,
        memory: usize,
        server: &mut Server,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        server.check(global.len())?;
        let mut cohort = Cohort::new(self.0.clip_norm, members, updates, global);
        let mut buffer = self.buffer(memory, cohort.came(), global.len())?;
        let (mut verdicts, moved) = match self.0.rule {
            CombineRule::Mean => {
                let mut sum = cohort.mean(&mut buffer);
                (cohort.verdicts, sum.finish(server, global))
            }
            CombineRule::TrimmedMean | CombineRule::Median => {
                let middle = cohort.middle(|updates| self.cut(updates), &mut buffer);
                (cohort.verdicts, middle.map_or(Ok(()), |middle| settle(&middle, server, global)))
            }
        };
        if let Err(error) = moved {
            // Each update was finite, and together they are not: nobody's is taken.
            for (verdict, &Offered { client, .. }) in verdicts.iter_mut().zip(members) {
                *verdict = Err(Rejected { client, why: error.to_string() });
            }
        }
        Ok(verdicts)
    }

    /// One buffer for everything: as long as memory allows and the rule has a use for.
    fn buffer(&self, memory: usize, came: usize, parameters: usize) -> Result<Vec<f32>> {
        let allowed = memory / size_of::<f32>();
        let (least, most) = match self.0.rule {
            CombineRule::Mean => (1, parameters),
            // A row for each update.
            _ => (came.max(1), came.saturating_mul(parameters)),
        };
        if allowed < least {
            let needed = least.saturating_mul(size_of::<f32>());
            let expected = format!("at least {needed} bytes to combine {came} updates");
            return Err(Error::new("memory", memory, expected));
        }
        let len = allowed.min(most.max(least));
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| {
            Error::new("memory", memory, "a number of bytes that this machine can spare")
        })?;
        buffer.resize(len, 0.0);
        Ok(buffer)
    }

    /// How many of so many updates are cut at each end. At least one is left.
    fn cut(&self, updates: usize) -> usize {
        let most = updates.saturating_sub(1) / 2;
        match self.0.rule {
            CombineRule::Mean => 0,
            CombineRule::Median => most,
            CombineRule::TrimmedMean => {
                // 0.29 of 100 is 29, although the product of the two falls short of it by a rounding.
                let share = self.0.trim * updates as f64 * (1.0 + 2.0 * f64::EPSILON);
                most.min(share.floor() as usize)
            }
        }
    }
}

/// Moves the global model towards a combination, if it is finite.
fn settle(combination: &[f32], server: &mut Server, global: &mut [f32]) -> Result<()> {
    if !all_finite(combination) {
        return Err(Error::new("combination", NOT_FINITE, "finite parameters"));
    }
    server.apply(combination, global)
}

/// The updates of a cohort while they are combined.
struct Cohort<'a> {
    clip_norm: f64,
    members: &'a [Offered],
    updates: &'a mut dyn StoredUpdates,
    global: &'a [f32],
    verdicts: Vec<Verdict>,
}

impl<'a> Cohort<'a> {
    fn new(
        clip_norm: f64,
        members: &'a [Offered],
        updates: &'a mut dyn StoredUpdates,
        global: &'a [f32],
    ) -> Self {
        let verdict = |&Offered { client, weight, ref missing }: &Offered| {
            check_weight(client, weight)?;
            missing.clone().map_or(Ok(()), |why| Err(Rejected { client, why }))
        };
        let verdicts = members.iter().map(verdict).collect();
        Self { clip_norm, members, updates, global, verdicts }
    }

    /// How many updates there are to look at.
    fn came(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.is_ok()).count()
    }

    fn reject(&mut self, member: usize, why: String) {
        self.verdicts[member] = Err(Rejected { client: self.members[member].client, why });
    }

    /// Reads a piece of an update, or says why it cannot be used.
    fn read(
        &mut self,
        member: usize,
        first: usize,
        piece: &mut [f32],
    ) -> std::result::Result<(), String> {
        self.updates.read(member, first, piece).map_err(|error| error.to_string())?;
        if all_finite(piece) { Ok(()) } else { Err(NOT_FINITE.to_string()) }
    }

    /// Looks through an update and returns the share of its way from the global model that it may keep. An update that is
    /// not longer than the buffer lies in it afterwards.
    fn survey(&mut self, member: usize, buffer: &mut [f32]) -> std::result::Result<f64, String> {
        let size = buffer.len();
        let mut square = 0.0;
        for (at, old) in self.global.chunks(size).enumerate() {
            let piece = &mut buffer[..old.len()];
            self.read(member, at * size, piece)?;
            if self.clip_norm > 0.0 {
                // One sum from the first parameter to the last, so that the size of pieces does not matter.
                for (&new, &old) in piece.iter().zip(old) {
                    let distance = f64::from(new) - f64::from(old);
                    square += distance * distance;
                }
            }
        }
        let norm = square.sqrt();
        // A global model that is not finite has no distance: what is then not a number is found in the end.
        let whole = self.clip_norm == 0.0 || norm <= self.clip_norm;
        Ok(if whole { 1.0 } else { self.clip_norm / norm })
    }

    /// The weighted sum of all updates that can be used.
    fn mean(&mut self, buffer: &mut [f32]) -> Aggregator {
        let mut sum = Aggregator::new(self.global.len());
        while let Err((member, why)) = self.try_mean(&mut sum, buffer) {
            self.reject(member, why);
        }
        sum
    }

    /// Sums up in the order of the cohort. Fails if an update goes bad when a part of it has been added.
    fn try_mean(
        &mut self,
        sum: &mut Aggregator,
        buffer: &mut [f32],
    ) -> std::result::Result<(), (usize, String)> {
        sum.begin();
        for (member, &Offered { client, weight, .. }) in self.members.iter().enumerate() {
            if sum.enlist(client, weight).is_err() || self.verdicts[member].is_err() {
                continue;
            }
            match self.survey(member, buffer) {
                Ok(share) => {
                    self.add(member, share, sum, buffer).map_err(|why| (member, why))?;
                    sum.accept(weight);
                }
                Err(why) => self.reject(member, why),
            }
        }
        Ok(())
    }

    /// Adds an update that was the last to be looked through.
    fn add(
        &mut self,
        member: usize,
        share: f64,
        sum: &mut Aggregator,
        buffer: &mut [f32],
    ) -> std::result::Result<(), String> {
        let size = buffer.len();
        for (at, old) in self.global.chunks(size).enumerate() {
            let piece = &mut buffer[..old.len()];
            // One that fits into the buffer is still there.
            if self.global.len() > size {
                self.read(member, at * size, piece)?;
            }
            shorten(piece, old, share);
            sum.add_piece(at * size, self.members[member].weight, piece);
        }
        Ok(())
    }

    /// For each parameter the mean of what is left when so many values are cut at each end; none if no update can be
    /// used.
    fn middle(&mut self, cut: impl Fn(usize) -> usize, buffer: &mut [f32]) -> Option<Vec<f32>> {
        let mut taken = Vec::with_capacity(self.members.len());
        for member in 0..self.members.len() {
            if self.verdicts[member].is_ok() {
                match self.survey(member, buffer) {
                    Ok(share) => taken.push((member, share)),
                    Err(why) => self.reject(member, why),
                }
            }
        }
        let mut middle = vec![0.0; self.global.len()];
        while !taken.is_empty() {
            match self.try_middle(&taken, cut(taken.len()), buffer, &mut middle) {
                Ok(()) => return Some(middle),
                Err((row, why)) => {
                    let (member, _) = taken.remove(row);
                    self.reject(member, why);
                }
            }
        }
        None
    }

    /// Combines some members, each with the share of its way that it may keep. Fails with the place of one that went bad.
    fn try_middle(
        &mut self,
        taken: &[(usize, f64)],
        cut: usize,
        buffer: &mut [f32],
        middle: &mut [f32],
    ) -> std::result::Result<(), (usize, String)> {
        let width = row_width(buffer.len() / taken.len(), self.global.len());
        let rows = &mut buffer[..taken.len() * width];
        let blocks = self.global.chunks(width).zip(middle.chunks_mut(width));
        for (at, (old, middle)) in blocks.enumerate() {
            for (row, &(member, share)) in taken.iter().enumerate() {
                let values = &mut rows[row * width..][..old.len()];
                self.read(member, at * width, values).map_err(|why| (row, why))?;
                shorten(values, old, share);
            }
            for (tile, middle) in middle.chunks_mut(TILE).enumerate() {
                mean_of_middle(rows, width, tile * TILE, cut, middle);
            }
        }
        Ok(())
    }
}

/// Leaves an update only a share of its way from the global model.
fn shorten(piece: &mut [f32], old: &[f32], share: f64) {
    // What keeps all of its way keeps every bit.
    if share != 1.0 {
        for (new, &old) in piece.iter_mut().zip(old) {
            let old = f64::from(old);
            *new = (old + (f64::from(*new) - old) * share) as f32;
        }
    }
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
