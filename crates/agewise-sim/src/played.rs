//! What one round came to.

/// The outcome of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Played {
    /// Clients that were selected.
    pub(crate) selected: u64,
    /// Those of them that reported, and were credited.
    pub(crate) reported: u64,
    /// Whether the only selected client was forced.
    pub(crate) forced: bool,
    /// The sum of the weights.
    pub(crate) total_weight: f64,
}
