//! One connection: a stranger until it is welcome.

use super::DoorCounters;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};
use tonic::codegen::http::Extensions;
use tonic::transport::server::{Connected, TlsConnectInfo};

/// The connection that a call came in on, with TLS or without. `None` if it did not come through the doorway.
pub(crate) fn guest<T>(request: &tonic::Request<T>) -> Option<Arc<Guest>> {
    guest_in(request.extensions())
}

/// The same, for a call that is not decoded yet.
pub(super) fn guest_in(extensions: &Extensions) -> Option<Arc<Guest>> {
    let encrypted = || extensions.get::<TlsConnectInfo<Arc<Guest>>>().map(TlsConnectInfo::get_ref);
    extensions.get::<Arc<Guest>>().or_else(encrypted).cloned()
}

/// A panic elsewhere leaves nothing half done in here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all guests of a doorway share.
#[derive(Debug)]
pub(super) struct Hall {
    counters: Arc<DoorCounters>,
    strangers: Mutex<Strangers>,
}

/// The strangers by arrival, so that the oldest is first.
#[derive(Debug, Default)]
struct Strangers {
    arrivals: u64,
    waiting: BTreeMap<u64, Arc<Guest>>,
}

impl Hall {
    pub(super) fn new(counters: Arc<DoorCounters>) -> Self {
        Self { counters, strangers: Mutex::default() }
    }

    pub(super) fn counters(&self) -> &DoorCounters {
        &self.counters
    }

    /// Closes the oldest strangers until one more is within the limit.
    pub(super) fn make_room(&self, most: usize) {
        loop {
            let oldest = {
                let mut strangers = lock(&self.strangers);
                if strangers.waiting.len() < most.max(1) {
                    return;
                }
                let oldest = strangers.waiting.pop_first();
                self.counters.set_strangers(strangers.waiting.len());
                oldest
            };
            // Outside the lock, because whoever is woken may want it.
            if let Some((_, oldest)) = oldest {
                self.counters.evict();
                oldest.show_out();
            }
        }
    }

    fn enter(self: &Arc<Self>, peer: SocketAddr) -> Arc<Guest> {
        let mut strangers = lock(&self.strangers);
        let arrival = strangers.arrivals;
        strangers.arrivals += 1;
        let presence = Mutex::new(Presence { standing: Standing::Stranger, waker: None });
        let reports = Arc::new(Semaphore::new(1));
        let hall = self.clone();
        let (refused, challenges) = (AtomicU32::new(0), AtomicU32::new(0));
        let guest = Guest { peer, arrival, presence, reports, refused, challenges, hall };
        let guest = Arc::new(guest);
        strangers.waiting.insert(arrival, guest.clone());
        self.counters.let_in();
        self.counters.set_strangers(strangers.waiting.len());
        guest
    }

    /// Takes a guest off the list of strangers, and says whether it was there.
    fn strike(&self, arrival: u64) -> bool {
        let struck = {
            let mut strangers = lock(&self.strangers);
            let struck = strangers.waiting.remove(&arrival);
            self.counters.set_strangers(strangers.waiting.len());
            struck
        };
        struck.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Stranger,
    Welcome,
    ShownOut,
    TimedOut,
}

#[derive(Debug)]
struct Presence {
    standing: Standing,
    /// The task that serves the connection.
    waker: Option<Waker>,
}

/// A connection, as the service knows it.
#[derive(Debug)]
pub(crate) struct Guest {
    peer: SocketAddr,
    arrival: u64,
    presence: Mutex<Presence>,
    /// One place: reports are large.
    reports: Arc<Semaphore>,
    refused: AtomicU32,
    challenges: AtomicU32,
    hall: Arc<Hall>,
}

impl Guest {
    /// Where it comes from.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A call on it was authenticated: from now on it may stay as long as it likes. Too late for one that is on its way out.
    pub(crate) fn welcome(&self) {
        if self.is_welcome() {
            return;
        }
        // Whoever takes it off the list decides: an eviction, or this.
        if self.hall.strike(self.arrival) {
            let mut presence = lock(&self.presence);
            if presence.standing == Standing::Stranger {
                presence.standing = Standing::Welcome;
            }
        }
    }

    /// Whether it has authenticated, and may stay.
    pub(crate) fn is_welcome(&self) -> bool {
        lock(&self.presence).standing == Standing::Welcome
    }

    /// Closes the connection, whatever it is doing.
    pub(crate) fn show_out(&self) {
        let waker = {
            let mut presence = lock(&self.presence);
            presence.standing = Standing::ShownOut;
            presence.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Something that it asked for was refused; says how often that has happened.
    pub(crate) fn refuse(&self) -> u32 {
        self.refused.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether others may be asked on its behalf: not, once it was refused several times.
    pub(crate) fn may_ask(&self) -> bool {
        self.refused.load(Ordering::Relaxed) < 4
    }

    /// It asks for a challenge; says how often it has.
    pub(crate) fn challenge(&self) -> u32 {
        self.challenges.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn place_for_report(&self) -> Arc<Semaphore> {
        self.reports.clone()
    }

    /// How it stands, and whom to wake when that changes: both at once, or a change in between would wake nobody.
    fn standing(&self, waker: &Waker) -> Standing {
        let mut presence = lock(&self.presence);
        if !presence.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            presence.waker = Some(waker.clone());
        }
        presence.standing
    }

    /// Its time is over; says how it stands now, for it may have become welcome in the last moment.
    fn time_out(&self) -> Standing {
        let standing = {
            let mut presence = lock(&self.presence);
            if presence.standing == Standing::Stranger {
                presence.standing = Standing::TimedOut;
                self.hall.counters.time_out();
            }
            presence.standing
        };
        self.hall.strike(self.arrival);
        standing
    }
}

/// The bytes of a connection. One task at a time reads and writes them, as tonic does.
#[derive(Debug)]
pub(crate) struct GuestStream {
    tcp: TcpStream,
    guest: Arc<Guest>,
    /// Until it is welcome.
    patience: Option<Pin<Box<Sleep>>>,
}

impl GuestStream {
    pub(super) fn new(
        tcp: TcpStream,
        peer: SocketAddr,
        patience: Duration,
        hall: &Arc<Hall>,
    ) -> Self {
        Self { tcp, guest: hall.enter(peer), patience: Some(Box::pin(sleep(patience))) }
    }

    /// The connection, as the service knows it.
    pub(crate) fn guest(&self) -> Arc<Guest> {
        self.guest.clone()
    }

    /// Fails when the connection has to end. Else the task is woken when it has to.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut standing = self.guest.standing(cx.waker());
        if standing == Standing::Stranger
            && let Some(patience) = &mut self.patience
            && patience.as_mut().poll(cx).is_ready()
        {
            standing = self.guest.time_out();
        }
        match standing {
            Standing::Stranger => Ok(()),
            Standing::Welcome => {
                self.patience = None;
                Ok(())
            }
            Standing::ShownOut => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connection was closed by the coordinator",
            )),
            Standing::TimedOut => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "nobody authenticated on the connection in time",
            )),
        }
    }
}

impl Drop for GuestStream {
    fn drop(&mut self) {
        let Guest { hall, arrival, presence, .. } = &*self.guest;
        hall.strike(*arrival);
        hall.counters.let_out();
        // The service may remember its guests for longer than their tasks live.
        let waker = lock(presence).waker.take();
        drop(waker);
    }
}

impl Connected for GuestStream {
    type ConnectInfo = Arc<Guest>;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.guest()
    }
}

impl AsyncRead for GuestStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for GuestStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It never waits for the peer, so there is nothing to be impatient about.
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
