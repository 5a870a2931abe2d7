//! A client that decides by itself: [`Participant`] embeds in another program, with any [`LocalLearner`].
//!
//! It enrols, listens, and in every round draws its lot with its own age. Only if it wins does it ask the coordinator for anything. It
//! survives the coordinator's restarts and its own: an update that could not be delivered is delivered later, and counts once.

mod backoff;
mod session;
mod state;

pub use state::ClientState;

use crate::honesty::Identity;
use crate::honesty::token::Token;
use crate::proto::Task;
use crate::tls::Trust;
use agewise_core::{Error, Result, Seed};
use backoff::Backoff;
use session::{Ended, Session};
pub(crate) use session::{endpoint, with_causes};
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// An engine that can train one client.
pub trait LocalLearner: Send {
    /// How many samples the client has.
    fn samples(&self) -> u64;

    /// Gets ready for a task, or says why that is impossible. Called again when the task has changed.
    fn prepare(&mut self, task: &Task) -> Result<()>;

    /// Trains, beginning with these parameters and leaving them changed. May take as long as it likes; the same round gives
    /// the same result.
    fn train(&mut self, round: &RoundTask, parameters: &mut [f32]) -> Result<Trained>;
}

/// Which round is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTask {
    /// The seed of the round.
    pub seed: Seed,
    /// The round, from 0.
    pub round: u64,
    /// The number of the client.
    pub client: u32,
}

/// What came of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trained {
    /// Samples that were trained.
    pub samples: u64,
    /// The mean loss of the batches.
    pub loss: f64,
}

/// Where a client finds its coordinator, and how it keeps itself.
#[derive(Debug, Clone)]
pub struct ParticipantParams {
    /// `https://host:port`, or `http://` on loopback.
    pub coordinator: String,
    /// Which certificates are believed.
    pub trust: Trust,
    /// What the client calls itself. Without one it makes a random name and keeps it in its state.
    pub name: Option<String>,
    /// Where it remembers its name, its key and its age. Without one it asks the coordinator for its age, and has a key until the
    /// program ends.
    pub state: Option<PathBuf>,
    /// Another key than the one in its state.
    pub identity: Option<Identity>,
    /// The token from the operator, needed to enrol for the first time.
    pub token: Option<Token>,
    /// The longest pause between two tries to reach the coordinator.
    pub longest_pause: Duration,
}

impl ParticipantParams {
    /// A client of this coordinator.
    pub fn new(coordinator: impl Into<String>) -> Self {
        Self {
            coordinator: coordinator.into(),
            trust: Trust::default(),
            name: None,
            state: None,
            identity: None,
            token: None,
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// What happens to a client, for whoever wants to know.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It is known to the coordinator under this number, and has this age in round 0 or later.
    Enrolled {
        /// Its number.
        client: u32,
        /// Its age in round t is t minus this.
        waiting_since: i64,
    },
    /// It is in the cohort of a round.
    Joined {
        /// The round.
        round: u64,
        /// Its age.
        age: u64,
    },
    /// It wanted to join, and the cohort was full, or it was too late, or it was refused.
    NotJoined {
        /// The round.
        round: u64,
        /// Why.
        why: String,
    },
    /// Its update was accepted and is credited.
    Accepted {
        /// The round.
        round: u64,
    },
    /// Its update was late or refused; its age stays.
    NotAccepted {
        /// The round.
        round: u64,
        /// Why.
        why: String,
    },
    /// The coordinator cannot be reached; it will be tried again.
    Disconnected {
        /// What failed.
        why: String,
    },
    /// It makes no sense to go on.
    GaveUp {
        /// Why.
        why: String,
    },
    /// The run is over.
    Finished,
}

/// Why a client gave up.
#[derive(Debug, Clone, PartialEq)]
pub enum GaveUp {
    /// A setting is wrong, or the task cannot be done with this data.
    Input(Error),
    /// The coordinator refuses this client for good.
    Refused(String),
    /// The coordinator does what it said it could not do.
    Cheated(String),
    /// Its state cannot be kept.
    State(String),
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Refused(why) => write!(f, "the coordinator refuses this client: {why}"),
            Self::Cheated(why) => write!(f, "the coordinator cannot be trusted: {why}"),
            Self::State(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for GaveUp {}

impl From<Error> for GaveUp {
    fn from(error: Error) -> Self {
        Self::Input(error)
    }
}

/// A client.
pub struct Participant {
    params: ParticipantParams,
    state: ClientState,
    identity: Identity,
    learner: Arc<Mutex<Box<dyn LocalLearner>>>,
    events: Option<UnboundedSender<Event>>,
}

impl Participant {
    /// A client with a learner. Its state is read now, if there is any.
    pub fn new(
        params: ParticipantParams,
        learner: Box<dyn LocalLearner>,
    ) -> std::result::Result<Self, GaveUp> {
        let state = ClientState::load(params.state.as_deref(), params.name.as_deref())?;
        let identity = match &params.identity {
            Some(identity) => identity.clone(),
            None => state::identity(params.state.as_deref())?,
        };
        let learner = Arc::new(Mutex::new(learner));
        Ok(Self { params, state, identity, learner, events: None })
    }

    /// Tells this channel what happens.
    #[must_use]
    pub fn with_events(self, events: UnboundedSender<Event>) -> Self {
        Self { events: Some(events), ..self }
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Takes part until the run is over or `shutdown` is ready.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> std::result::Result<(), GaveUp> {
        let Self { params, state, identity, learner, events } = self;
        let mut backoff = Backoff::new(params.longest_pause);
        let mut session = Session::new(&params, state, identity, learner, events)?;
        tokio::pin!(shutdown);
        loop {
            let begun = Instant::now();
            let ended = tokio::select! {
                ended = session.play() => ended,
                () = &mut shutdown => return Ok(()),
            };
            match ended {
                Ended::Finished => {
                    session.tell(Event::Finished);
                    return Ok(());
                }
                Ended::GaveUp(why) => {
                    session.tell(Event::GaveUp { why: why.to_string() });
                    return Err(why);
                }
                Ended::Disconnected { why, was_connected } => {
                    // A coordinator that answers and cannot store anything is to be left alone, too: only a connection that lasted
                    // longer than the pause before it was a good one.
                    if was_connected && begun.elapsed() > backoff.last() {
                        backoff.reset();
                    }
                    tracing::debug!(client = session.name(), why, "disconnected");
                    session.tell(Event::Disconnected { why });
                    tokio::select! {
                        () = tokio::time::sleep(backoff.next()) => {}
                        () = &mut shutdown => return Ok(()),
                    }
                }
            }
        }
    }
}
