//! Clipping: an update that is farther than a norm from the global model is shortened to this distance.

/// The longest way that an update may go from the global model; 0 for any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clip {
    pub(super) norm: f64,
}

impl Clip {
    /// The share of its way that an update of this distance may keep.
    pub(super) fn share(self, norm: f64) -> f64 {
        // A global model that is not finite has no distance: what is then not a number is found in the end.
        if self.norm == 0.0 || norm <= self.norm { 1.0 } else { self.norm / norm }
    }
}

/// Adds the square of the distance of a piece of an update to the square of the pieces before it: one sum from the first
/// parameter to the last, so that the size of pieces does not matter.
pub(super) fn add_square(square: &mut f64, piece: &[f32], global: &[f32]) {
    for (&new, &old) in piece.iter().zip(global) {
        let distance = f64::from(new) - f64::from(old);
        *square += distance * distance;
    }
}

/// Leaves an update only a share of its way from the global model.
pub(super) fn shorten(piece: &mut [f32], global: &[f32], share: f64) {
    // What keeps all of its way keeps every bit.
    if share != 1.0 {
        for (new, &old) in piece.iter_mut().zip(global) {
            let old = f64::from(old);
            *new = (old + (f64::from(*new) - old) * share) as f32;
        }
    }
}
