//! What a run keeps on disk: the ledger, the models, and sketches of updates.

pub(crate) mod ledger;
pub(crate) mod models;
pub(crate) mod sketches;
