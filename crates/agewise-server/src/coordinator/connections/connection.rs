//! One connection: unauthenticated until a call on it was authenticated.

use super::ConnectionCounters;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};
use tonic::codegen::http::Extensions;
use tonic::transport::server::{Connected, TlsConnectInfo};

/// The connection that a call came in on, with TLS or without. `None` if it did not come through [`Incoming`](super::Incoming).
pub(crate) fn connection<T>(request: &tonic::Request<T>) -> Option<Arc<Connection>> {
    connection_in(request.extensions())
}

/// The same, for a call that is not decoded yet.
pub(super) fn connection_in(extensions: &Extensions) -> Option<Arc<Connection>> {
    let encrypted =
        || extensions.get::<TlsConnectInfo<Arc<Connection>>>().map(TlsConnectInfo::get_ref);
    extensions.get::<Arc<Connection>>().or_else(encrypted).cloned()
}

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    counters: Arc<ConnectionCounters>,
    unauthenticated: Mutex<Unauthenticated>,
}

/// The unauthenticated by arrival, so that the oldest is first.
#[derive(Debug, Default)]
struct Unauthenticated {
    arrivals: u64,
    waiting: BTreeMap<u64, Arc<Connection>>,
}

impl ConnectionLimiter {
    pub(super) fn new(counters: Arc<ConnectionCounters>) -> Self {
        Self { counters, unauthenticated: Mutex::default() }
    }

    pub(super) fn counters(&self) -> &ConnectionCounters {
        &self.counters
    }

    /// Closes the oldest unauthenticated until one more is within the limit.
    pub(super) fn make_room(&self, most: usize) {
        loop {
            let oldest = {
                let mut unauthenticated = self.unauthenticated.lock();
                if unauthenticated.waiting.len() < most.max(1) {
                    return;
                }
                let oldest = unauthenticated.waiting.pop_first();
                self.counters.set_unauthenticated(unauthenticated.waiting.len());
                oldest
            };
            // Outside the lock, because the task that is woken may want it.
            if let Some((_, oldest)) = oldest {
                self.counters.evict();
                oldest.disconnect();
            }
        }
    }

    fn enter(self: &Arc<Self>, peer: SocketAddr) -> Arc<Connection> {
        let mut unauthenticated = self.unauthenticated.lock();
        let arrival = unauthenticated.arrivals;
        unauthenticated.arrivals += 1;
        let status = Mutex::new(Status { state: ConnectionState::Unauthenticated, waker: None });
        let reports = Arc::new(Semaphore::new(1));
        let limiter = self.clone();
        let (refused, challenges) = (AtomicU32::new(0), AtomicU32::new(0));
        let connection =
            Connection { peer, arrival, status, reports, refused, challenges, limiter };
        let connection = Arc::new(connection);
        unauthenticated.waiting.insert(arrival, connection.clone());
        self.counters.open_one();
        self.counters.set_unauthenticated(unauthenticated.waiting.len());
        connection
    }

    /// Takes a connection off the list of unauthenticated, and says whether it was there.
    fn remove(&self, arrival: u64) -> bool {
        let removed = {
            let mut unauthenticated = self.unauthenticated.lock();
            let removed = unauthenticated.waiting.remove(&arrival);
            self.counters.set_unauthenticated(unauthenticated.waiting.len());
            removed
        };
        removed.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    Unauthenticated,
    Authenticated,
    Disconnected,
    TimedOut,
}

#[derive(Debug)]
struct Status {
    state: ConnectionState,
    /// The task that serves the connection.
    waker: Option<Waker>,
}

/// A connection, as the service knows it.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: SocketAddr,
    arrival: u64,
    status: Mutex<Status>,
    /// One place: reports are large.
    reports: Arc<Semaphore>,
    refused: AtomicU32,
    challenges: AtomicU32,
    limiter: Arc<ConnectionLimiter>,
}

impl Connection {
    /// Where it comes from.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A call on it was authenticated: from now on it may stay as long as it likes. Too late for one that is on its way out.
    pub(crate) fn authenticate(&self) {
        if self.is_authenticated() {
            return;
        }
        // The one that takes it off the list decides: an eviction, or this.
        if self.limiter.remove(self.arrival) {
            let mut status = self.status.lock();
            if status.state == ConnectionState::Unauthenticated {
                status.state = ConnectionState::Authenticated;
            }
        }
    }

    /// Whether it has authenticated, and may stay.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.status.lock().state == ConnectionState::Authenticated
    }

    /// Closes the connection, whatever it is doing.
    pub(crate) fn disconnect(&self) {
        let waker = {
            let mut status = self.status.lock();
            status.state = ConnectionState::Disconnected;
            status.waker.take()
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

    /// Its state, and whom to wake when that changes: both at once, or a change in between would wake no task.
    fn state(&self, waker: &Waker) -> ConnectionState {
        let mut status = self.status.lock();
        if !status.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            status.waker = Some(waker.clone());
        }
        status.state
    }

    /// Its time is over; says its state now, for it may have authenticated in the last moment.
    fn time_out(&self) -> ConnectionState {
        let state = {
            let mut status = self.status.lock();
            if status.state == ConnectionState::Unauthenticated {
                status.state = ConnectionState::TimedOut;
                self.limiter.counters.time_out();
            }
            status.state
        };
        self.limiter.remove(self.arrival);
        state
    }
}

/// The bytes of a connection. One task at a time reads and writes them, as tonic does.
#[derive(Debug)]
pub(crate) struct ConnectionStream {
    tcp: TcpStream,
    connection: Arc<Connection>,
    /// Until it has authenticated.
    handshake_timeout: Option<Pin<Box<Sleep>>>,
}

impl ConnectionStream {
    pub(super) fn new(
        tcp: TcpStream,
        peer: SocketAddr,
        handshake_timeout: Duration,
        limiter: &Arc<ConnectionLimiter>,
    ) -> Self {
        Self {
            tcp,
            connection: limiter.enter(peer),
            handshake_timeout: Some(Box::pin(sleep(handshake_timeout))),
        }
    }

    /// The connection, as the service knows it.
    pub(crate) fn connection(&self) -> Arc<Connection> {
        self.connection.clone()
    }

    /// Fails when the connection has to end. Else the task is woken when it has to.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut state = self.connection.state(cx.waker());
        if state == ConnectionState::Unauthenticated
            && let Some(handshake_timeout) = &mut self.handshake_timeout
            && handshake_timeout.as_mut().poll(cx).is_ready()
        {
            state = self.connection.time_out();
        }
        match state {
            ConnectionState::Unauthenticated => Ok(()),
            ConnectionState::Authenticated => {
                self.handshake_timeout = None;
                Ok(())
            }
            ConnectionState::Disconnected => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connection was closed by the coordinator",
            )),
            ConnectionState::TimedOut => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the connection was not authenticated in time",
            )),
        }
    }
}

impl Drop for ConnectionStream {
    fn drop(&mut self) {
        let Connection { limiter, arrival, status, .. } = &*self.connection;
        limiter.remove(*arrival);
        limiter.counters.close_one();
        // The service may remember connections for longer than their tasks live.
        let waker = status.lock().waker.take();
        drop(waker);
    }
}

impl Connected for ConnectionStream {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection()
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ConnectionStream {
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
        // It never waits for the peer, so there is no timeout.
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
