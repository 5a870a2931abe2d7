//! One connection: unauthenticated until a call on it was authenticated.

use super::limiter::{ConnectionLimiter, ConnectionStage};
use parking_lot::Mutex;
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
    /// A connection that has just come in; the limiter has the number of its arrival.
    pub(super) fn new(peer: SocketAddr, arrival: u64, limiter: Arc<ConnectionLimiter>) -> Self {
        let status = Mutex::new(Status { state: ConnectionState::Unauthenticated, waker: None });
        let reports = Arc::new(Semaphore::new(1));
        let (refused, challenges) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { peer, arrival, status, reports, refused, challenges, limiter }
    }

    /// It has come so far, without having authenticated yet.
    pub(crate) fn advance(&self, progress: ConnectionStage) {
        self.limiter.advance(self, progress);
    }

    /// Where it comes from.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Its number among the connections of its listener.
    pub(super) fn arrival(&self) -> u64 {
        self.arrival
    }

    /// A call on it was authenticated: from now on it may stay as long as it likes. Too late for one that is on its way out.
    pub(crate) fn authenticate(&self) {
        if self.is_authenticated() {
            return;
        }
        // The one that takes it off the list decides: an eviction, or this.
        if self.limiter.remove(self) {
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
        self.advance(ConnectionStage::Calling);
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
                self.limiter.counters().time_out();
            }
            status.state
        };
        self.limiter.remove(self);
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
    /// Whether anything has come in.
    has_spoken: bool,
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
            has_spoken: false,
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
        let Connection { limiter, status, .. } = &*self.connection;
        limiter.remove(&self.connection);
        limiter.counters().close_one();
        // The service may remember connections for longer than their tasks live.
        let waker = {
            let mut status = status.lock();
            status.state = ConnectionState::Disconnected;
            status.waker.take()
        };
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.tcp).poll_read(cx, buffer);
        if !self.has_spoken && buffer.filled().len() > before {
            self.has_spoken = true;
            self.connection.advance(ConnectionStage::Speaking);
        }
        read
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
