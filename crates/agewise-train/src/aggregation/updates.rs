//! The updates of a cohort while they are combined: the verdict on each, and pieces of parameters.

use super::clip::{Clip, add_square, shorten};
use super::norm_bound::too_far;
use super::{Contribution, Rejected, UpdateSource, Verdict};
use agewise_core::{Error, Result};
use agewise_kernels::{add_scaled, all_finite};

/// What is wrong with an update that has such a value.
pub(super) const NOT_FINITE: &str = "a parameter is infinite or not a number";

/// Why an update cannot be used.
pub(super) type Checked<T> = std::result::Result<T, String>;

/// The updates of a cohort, each looked through before it is used.
pub(super) struct Updates<'a> {
    pub(super) cohort: &'a [Contribution],
    pub(super) global: &'a [f32],
    pub(super) verdicts: Vec<Verdict>,
    source: &'a mut dyn UpdateSource,
    clip: Clip,
    /// Whether norms are wanted though nothing is clipped.
    is_measured: bool,
    /// An update that is farther than this from the global model is rejected.
    most: Option<f64>,
    /// How far each update is from the global model, where that was wanted and found.
    norms: Vec<Option<f64>>,
    memory: usize,
    /// How many parameters are read at a time.
    piece: usize,
}

impl<'a> Updates<'a> {
    pub(super) fn new(
        cohort: &'a [Contribution],
        source: &'a mut dyn UpdateSource,
        global: &'a [f32],
        clip: Clip,
        memory: usize,
    ) -> Self {
        let verdict = |&Contribution { client, weight, ref missing }: &Contribution| {
            check_weight(client, weight)?;
            missing.clone().map_or(Ok(()), |why| Err(Rejected { client, why }))
        };
        let verdicts = cohort.iter().map(verdict).collect();
        let (is_measured, most, norms) = (false, None, vec![None; cohort.len()]);
        Self { cohort, global, verdicts, source, clip, is_measured, most, norms, memory, piece: 1 }
    }

    /// From now on norms are found, and an update that is farther than this, if there is a bound, is rejected.
    pub(super) fn bound_norms(&mut self, most: Option<f64>) {
        (self.is_measured, self.most) = (true, most);
    }

    /// Looks through all updates before they are combined, and gives the norms of those that can be used.
    pub(super) fn measure_all(&mut self) -> Result<Vec<f64>> {
        let mut buffer = self.buffer(1, self.global.len())?;
        for member in 0..self.cohort.len() {
            if self.verdicts[member].is_ok()
                && let Err(why) = self.scan(member, &mut buffer)
            {
                self.reject(member, why);
            }
        }
        Ok(self.norms.iter().flatten().copied().collect())
    }

    /// The verdicts, and the norms that were found, by client.
    pub(super) fn into_verdicts(self) -> (Vec<Verdict>, Vec<(u32, f64)>) {
        let clients = self.cohort.iter().map(|member| member.client);
        let norms = clients.zip(self.norms).filter_map(|(client, norm)| Some((client, norm?)));
        let norms = norms.collect();
        (self.verdicts, norms)
    }

    /// How many updates there are to look at.
    pub(super) fn came(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.is_ok()).count()
    }

    pub(super) fn reject(&mut self, member: usize, why: String) {
        self.verdicts[member] = Err(Rejected { client: self.cohort[member].client, why });
        self.source.release(member);
    }

    /// Memory for a buffer as long as memory allows: at least so many numbers, and no more than there is a use for. It is
    /// filled when it is first needed, which it never is for updates that lie in memory.
    pub(super) fn buffer(&mut self, least: usize, most: usize) -> Result<Vec<f32>> {
        let len = (self.memory / size_of::<f32>()).min(most.max(least));
        if len < least {
            let needed = least.saturating_mul(size_of::<f32>());
            let expected = format!("at least {needed} bytes to combine {} updates", self.came());
            return Err(Error::new("memory", self.memory, expected));
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| {
            Error::new("memory", self.memory, "a number of bytes that this machine can spare")
        })?;
        self.piece = len;
        Ok(buffer)
    }

    /// How many numbers the buffer has.
    pub(super) fn piece(&self) -> usize {
        self.piece
    }

    /// Reads a piece of an update.
    fn read(&mut self, member: usize, first: usize, piece: &mut [f32]) -> Checked<()> {
        self.source.read(member, first, piece).map_err(|error| error.to_string())?;
        check_finite(piece)
    }

    /// Reads a piece of an update that was looked through, which keeps a share of its way from the global model.
    pub(super) fn read_clipped(
        &mut self,
        member: usize,
        first: usize,
        share: f64,
        piece: &mut [f32],
    ) -> Checked<()> {
        self.read(member, first, piece)?;
        shorten(piece, &self.global[first..][..piece.len()], share);
        Ok(())
    }

    /// Looks through an update and returns the share of its way from the global model that it may keep. An update that does
    /// not lie in memory and is not longer than the buffer lies in it afterwards.
    pub(super) fn scan(&mut self, member: usize, buffer: &mut Vec<f32>) -> Checked<f64> {
        let mut square = 0.0;
        let is_measured = self.is_measured || self.clip.norm > 0.0;
        if let Some(whole) = self.source.whole(member) {
            let update = whole.map_err(|error| error.to_string())?;
            if update.len() != self.global.len() {
                let (found, expected) = (update.len(), self.global.len());
                return Err(format!("{found} parameters, expected {expected}"));
            }
            check_finite(update)?;
            if is_measured {
                add_square(&mut square, update, self.global);
            }
            return self.share(member, square);
        }
        let size = self.piece;
        buffer.resize(size, 0.0);
        for (at, global) in self.global.chunks(size).enumerate() {
            let piece = &mut buffer[..global.len()];
            self.read(member, at * size, piece)?;
            if is_measured {
                add_square(&mut square, piece, global);
            }
        }
        self.share(member, square)
    }

    /// The share of its way that an update with this square of its distance may keep, unless it is too far away.
    fn share(&mut self, member: usize, square: f64) -> Checked<f64> {
        let norm = square.sqrt();
        if self.is_measured {
            if let Some(most) = self.most.filter(|&most| norm > most) {
                return Err(too_far(norm, most));
            }
            self.norms[member] = Some(norm);
        }
        Ok(self.clip.share(norm))
    }

    /// Adds an update that was the last to be looked through, times its weight, to a sum.
    pub(super) fn add(
        &mut self,
        member: usize,
        share: f64,
        buffer: &mut Vec<f32>,
        sum: &mut [f32],
    ) -> Checked<()> {
        let weight = self.cohort[member].weight as f32;
        let size = self.piece;
        let mut scanned = self.global.len() <= size;
        if let Some(whole) = self.source.whole(member) {
            let update = whole.map_err(|error| error.to_string())?;
            if share == 1.0 {
                add_scaled(sum, weight, update);
                self.source.release(member);
                return Ok(());
            }
            scanned = false;
        }
        buffer.resize(size, 0.0);
        for (at, global) in self.global.chunks(size).enumerate() {
            let piece = &mut buffer[..global.len()];
            // One that fits into the buffer is still there.
            if !scanned {
                self.read(member, at * size, piece)?;
            }
            shorten(piece, global, share);
            add_scaled(&mut sum[at * size..][..piece.len()], weight, piece);
        }
        self.source.release(member);
        Ok(())
    }
}

/// Whether a weight is one that an update can have.
fn check_weight(client: u32, weight: f64) -> Verdict {
    if weight.is_finite() && weight >= 0.0 {
        return Ok(());
    }
    let why = format!("weight {weight}, expected a number of at least 0");
    Err(Rejected { client, why })
}

fn check_finite(piece: &[f32]) -> Checked<()> {
    if all_finite(piece) { Ok(()) } else { Err(NOT_FINITE.to_string()) }
}
