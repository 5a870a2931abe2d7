//! A client that decides by itself: [`Client`] embeds in another program, with any [`Task`].
//!
//! It enrols, listens, and in every round draws with its own age. Only if it wins does it ask the coordinator for anything. It
//! survives the coordinator's restarts and its own: an update that could not be delivered is delivered later, and counts once.

mod backoff;
mod endpoint;
mod round;
mod session;
mod state;
pub mod swarm;

pub use state::ClientState;

use crate::crypto::Identity;
use crate::crypto::token::Token;
use crate::protocol::TaskSpec;
use crate::tls::Trust;
use agewise_core::{Error, Result, Seed};
use agewise_train::Task;
use agewise_train::task::PartitionKey;
use backoff::Backoff;
pub(crate) use endpoint::{endpoint, with_causes};
use serde::Serialize;
use session::{ClientSession, Ended};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// Where the task of a client comes from: it is there already ([`OwnTask`]), or it is made from what the coordinator says at enrolment
/// ([`crate::native::ImageClient`]).
///
/// In a deployment the process of each client holds a task whose data are its own alone. Jobs have the client's number in the run, and that
/// number seeds the randomness of training; it does not say whose data are meant.
pub trait TaskProvider: Send + Sync {
    /// How many samples the client has.
    fn samples(&self) -> Result<u64>;

    /// The task, or why it cannot be done with this data. Called again when the coordinator's task has changed.
    fn prepare(&self, spec: &TaskSpec) -> Result<Arc<dyn Task>>;
}

/// A task that has the data of this client alone, and is what the coordinator trains too. Its [`Task::sizes`] for one client are the client's
/// samples, and its [`Task::train`] must take those data for any `job.client`.
pub struct OwnTask(pub Arc<dyn Task>);

impl TaskProvider for OwnTask {
    fn samples(&self) -> Result<u64> {
        let sizes = self.0.sizes(PartitionKey { seed: Seed(0), clients: 1 })?;
        Ok(sizes.first().copied().unwrap_or(0))
    }

    fn prepare(&self, _: &TaskSpec) -> Result<Arc<dyn Task>> {
        Ok(self.0.clone())
    }
}

/// The parameters of a client.
#[derive(Debug, Clone)]
pub struct ClientParams {
    /// `https://host:port`, or `http://` on loopback.
    pub coordinator: String,
    /// Which certificates are trusted.
    pub trust: Trust,
    /// The name of the client. Without one it makes a random name and keeps it in its state.
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

impl ClientParams {
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

/// What happens to a client, for the program around it. As JSON it has its name in `event`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// It is known to the coordinator under this number, and has this age in round 0 or later.
    Enrolled {
        /// Its number.
        #[serde(rename = "number")]
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
    /// Its state cannot be written, because the disk is full for example; it waits, and goes on when that works again.
    StateNotWritten {
        /// Which file, and what the system says.
        why: String,
    },
    /// It gives up for good.
    #[serde(rename = "gave-up")]
    Failed {
        /// Why.
        why: String,
    },
    /// The run is over.
    Finished,
}

/// Why a client gave up.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A setting is wrong, or the task cannot be done with this data.
    #[error(transparent)]
    Input(#[from] Error),
    /// The coordinator refuses this client for good.
    #[error("the coordinator refuses this client: {0}")]
    Refused(String),
    /// The coordinator has broken a commitment.
    #[error("the coordinator cannot be trusted: {0}")]
    Cheated(&'static str),
    /// The state of the client cannot be read or written.
    #[error("{}: {source}", path.display())]
    State {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(#[from] getrandom::Error),
    /// Training ended with a panic, which is a bug of the task.
    #[error("training ended with a panic")]
    Panicked,
}

impl ClientError {
    /// Whether this is a disk that is full or fails: it may work again, and nothing is wrong with the client.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        /// The input/output error of POSIX systems, for which there is no kind.
        const EIO: i32 = 5;
        let Self::State { source, .. } = self else {
            return false;
        };
        matches!(source.kind(), FileTooLarge | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
            || (cfg!(unix) && source.raw_os_error() == Some(EIO))
    }
}

/// A client.
pub struct Client {
    params: ClientParams,
    state: ClientState,
    identity: Identity,
    task: Box<dyn TaskProvider>,
    events: Option<UnboundedSender<Event>>,
}

impl Client {
    /// A client with a task. Its state is read now, if there is any.
    pub fn new(
        params: ClientParams,
        task: Box<dyn TaskProvider>,
    ) -> std::result::Result<Self, ClientError> {
        let (state, identity) = read_state(&params)?;
        Ok(Self { params, state, identity, task, events: None })
    }

    /// The same, but while the disk is full or fails it waits and says so in the log.
    pub async fn open(
        params: ClientParams,
        task: Box<dyn TaskProvider>,
    ) -> std::result::Result<Self, ClientError> {
        let mut backoff = Backoff::new(params.longest_pause);
        loop {
            match read_state(&params) {
                Err(why) if why.is_of_the_disk() => {
                    tracing::warn!(%why, "the state cannot be read or written, trying again");
                    tokio::time::sleep(backoff.next()).await;
                }
                Err(why) => return Err(why),
                Ok((state, identity)) => {
                    return Ok(Self { params, state, identity, task, events: None });
                }
            }
        }
    }

    /// Sends its events to this channel.
    #[must_use]
    pub fn with_events(self, events: UnboundedSender<Event>) -> Self {
        Self { events: Some(events), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Takes part until the run is over or `shutdown` is ready.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> std::result::Result<(), ClientError> {
        let Self { params, state, identity, task, events } = self;
        let mut backoff = Backoff::new(params.longest_pause);
        let mut session = ClientSession::new(&params, state, identity, task, events)?;
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
                Ended::NotWritten(why) => {
                    let mut why = why.to_string();
                    // Nothing is asked of the coordinator before the state of the last answer is on disk.
                    loop {
                        session.tell(Event::StateNotWritten { why });
                        tokio::select! {
                            () = tokio::time::sleep(backoff.next()) => {}
                            () = &mut shutdown => return Ok(()),
                        }
                        match session.state.save() {
                            Ok(()) => break,
                            Err(again) => why = again.to_string(),
                        }
                    }
                }
                Ended::Failed(why) => {
                    session.tell(Event::Failed { why: why.to_string() });
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

/// The state of a client and its key, from its folder if it has one.
fn read_state(params: &ClientParams) -> std::result::Result<(ClientState, Identity), ClientError> {
    let state = ClientState::load(params.state.as_deref(), params.name.as_deref())?;
    let identity = match &params.identity {
        Some(identity) => identity.clone(),
        None => state::identity(params.state.as_deref())?,
    };
    Ok((state, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_or_fails_is_told_from_other_errors() {
        let error = |source| ClientError::State { path: PathBuf::from("state"), source };
        // No space, quota exceeded, input/output error, read-only: as Linux numbers them.
        #[cfg(target_os = "linux")]
        for number in [28, 122, 5, 30] {
            assert!(error(io::Error::from_raw_os_error(number)).is_of_the_disk(), "{number}");
        }
        assert!(error(io::ErrorKind::StorageFull.into()).is_of_the_disk());
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::NotADirectory] {
            assert!(!error(kind.into()).is_of_the_disk(), "{kind}: it does not go away by itself");
        }
        assert!(!ClientError::Panicked.is_of_the_disk());
    }
}
