//! What a policy wants to know about training.

/// What reports should bring for a policy to work as it was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Whether its choices follow from what clients report about their training: without training it is another policy.
    pub training: bool,
    /// Whether it looks at losses, and at which.
    pub loss: LossNeed,
    /// Whether it looks at the root mean squares of losses.
    pub loss_squares: bool,
    /// Whether it looks at sketches of updates.
    pub update_sketches: bool,
}

/// Which loss a report should bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossNeed {
    /// The policy looks at no losses.
    #[default]
    None,
    /// The mean of the samples that the client met while training.
    WhileTraining,
    /// The mean of all the client's samples under the model that it was sent.
    WholeData,
}

/// What a client can be asked about the present model before a policy chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// The loss of all its samples.
    Loss,
    /// A sketch of what one step of training would change.
    UpdateStep,
    /// A sketch of what a whole round of training would change, where updates are compared by length too.
    UpdateRound,
}

/// A question to one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The client that is asked.
    pub client: u32,
    /// What it is asked.
    pub kind: ProbeKind,
}

impl Probe {
    /// The same question to several clients.
    pub(crate) fn all(kind: ProbeKind, clients: impl IntoIterator<Item = u32>) -> Vec<Self> {
        clients.into_iter().map(|client| Self { client, kind }).collect()
    }
}
