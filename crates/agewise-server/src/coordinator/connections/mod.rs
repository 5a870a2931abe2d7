//! Connections: how many there may be, how long each may live without authentication, and what a call may take.
//!
//! Everyone on the network can open a connection, so a connection by itself is worth nothing. It is *unauthenticated* until the service calls
//! [`Connection::authenticate`], which it does when a call on it was authenticated. What a peer can do, and what stops it:
//!
//! | A peer | is stopped by |
//! | --- | --- |
//! | says nothing, or drips a handshake, a preface or a request | [`Limits::handshake_timeout`], while it is unauthenticated |
//! | opens many connections | [`Limits::per_address`], [`Limits::unauthenticated`], then [`Limits::connections`] |
//! | is authenticated, and drips a request | [`CallDeadlines`] |
//! | is authenticated, and drips headers, or is gone | HTTP/2 pings, which it cannot answer in the middle of a block |
//! | wants us to keep much in memory | [`bounded`] |
//! | was revoked | [`Connection::disconnect`] |
//!
//! When there are too many unauthenticated connections one of them is closed, and the new one comes in. The other way round, silent
//! connections could fill all places and lock honest clients out until the handshake timeout. Which one has to go is in `limiter`: one of the
//! address that has the most, and of these one that has not come far and is old. An honest client needs a few round trips to authenticate, a
//! silent one never does. An authenticated connection is never closed for an unauthenticated one.
//!
//! The connections of the page are never authenticated: each brings one request, and then it is over.
//!
//! As many as `connections - unauthenticated` authenticated clients always find a place, whatever other peers do. Beyond `connections`, a new
//! connection is accepted and closed at once: left alone, it would wait in the system's queue, and those behind it with it.

mod connection;
mod counters;
mod deadlines;
mod limiter;
mod memory;
mod request_limits;
#[cfg(test)]
mod tests;

pub(crate) use connection::{Connection, ConnectionStream, connection};
pub(crate) use counters::ConnectionCounters;
pub(crate) use deadlines::CallDeadlines;
pub(crate) use limiter::ConnectionStage;
pub(crate) use memory::bounded;

use limiter::ConnectionLimiter;
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;

/// When the system cannot give us connections, because it has no descriptors left for example, we ask again after this time.
const PAUSE: Duration = Duration::from_millis(50);
/// The system asks a silent peer after this time whether it is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// How many may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most connections in all.
    pub(crate) connections: usize,
    /// The most connections that have not authenticated yet.
    pub(crate) unauthenticated: usize,
    /// The most of these from one address.
    pub(crate) per_address: usize,
    /// How long a connection may live without having authenticated.
    pub(crate) handshake_timeout: Duration,
}

/// The connections of a listener, within limits. It never ends, and gives no errors.
pub(crate) struct Incoming {
    listener: TcpListener,
    limits: Limits,
    limiter: Arc<ConnectionLimiter>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Incoming {
    pub(crate) fn new(
        listener: TcpListener,
        limits: Limits,
        counters: Arc<ConnectionCounters>,
    ) -> Self {
        Self { listener, limits, limiter: Arc::new(ConnectionLimiter::new(counters)), pause: None }
    }

    /// Where it listens.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Lets a connection in, if there is room.
    fn admit(&self, tcp: TcpStream, peer: SocketAddr) -> Option<ConnectionStream> {
        if self.limiter.counters().open() >= self.limits.connections as u64 {
            self.limiter.counters().reject();
            // The system forgets it at once, instead of waiting for the peer to agree.
            tcp.set_zero_linger().ok();
            return None;
        }
        // A connection without these works, too.
        tcp.set_nodelay(true).ok();
        let keepalive = TcpKeepalive::new().with_time(TCP_KEEPALIVE);
        SockRef::from(&tcp).set_tcp_keepalive(&keepalive).ok();
        self.limiter.make_room(peer, self.limits.unauthenticated, self.limits.per_address);
        Some(ConnectionStream::new(tcp, peer, self.limits.handshake_timeout, &self.limiter))
    }
}

impl Stream for Incoming {
    type Item = io::Result<ConnectionStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok((tcp, peer)) => {
                    if let Some(stream) = self.admit(tcp, peer) {
                        return Poll::Ready(Some(Ok(stream)));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    if !is_of_one_connection(&error) {
                        self.pause = Some(Box::pin(sleep(PAUSE)));
                    }
                }
            }
        }
    }
}

/// Whether only this connection has failed: the next may be accepted at once. A pause here would let a peer slow the others down.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}
