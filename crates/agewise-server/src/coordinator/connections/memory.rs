//! The memory that one connection can occupy.
//!
//! HTTP/2 lets a peer send ahead of what is read, so what it may send ahead is what it costs:
//!
//! - *data* that no call has read yet: the connection window, over all calls. The stream window is what one call may use of it, so one that
//!   is not read cannot stop the others.
//! - *headers*: the largest header list, times the calls at a time. A list that goes on beyond that is not kept.
//! - *calls*: MAX_CONCURRENT_STREAMS. A client listens and makes one call beside that.
//! - *calls that are opened and reset* ("rapid reset"): a reset call does not count among those at a time, so those that are not yet served and
//!   those that were reset for an error are counted by themselves. Too many, and the connection ends.
//! - a *frame* that is being put together: the largest frame.
//!
//! Tonic offers a setting for each of these. Many tiny frames of data, and pings and settings without end, are limited by h2 itself.
//!
//! With the numbers below that is 512 KiB of data, 8 times 8 KiB of headers and a frame of 16 KiB. Beside that, a message that has begun is put
//! together outside the windows, up to the largest message of the service, in every call at the same time: 2 MiB where that is 256 KiB, also for
//! an unauthenticated peer. So [`RequestBounds`] keeps all requests but reports to 16 KiB, and reports to one at a time. Together that is some 700 KiB, and
//! one chunk of a report, which the service is not to read from an unauthenticated one.
//!
//! What is not limited here is answers that are not read: hyper keeps up to 400 KiB for a call, which tonic cannot change. Only models are that
//! large, and only authenticated clients get them; the service is to give each one model at a time.

use super::request_limits::RequestBounds;
use std::time::Duration;
use tonic::transport::Server;
use tower_layer::Stack;

/// The most calls at a time on one connection.
const MOST_CALLS: u32 = 8;
/// Bytes on their way to us, per call and per connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
/// The largest header list of a call.
const LARGEST_HEAD: u32 = 8 << 10;
/// The largest frame: the smallest that HTTP/2 allows.
const LARGEST_FRAME: u32 = 16 << 10;
/// Calls that were reset before they were served, and calls that were reset for an error.
const MOST_RESET: usize = 16;
const MOST_WRONG: usize = 64;
/// A dead connection is noticed after this time and the next together.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A server whose connections cost little. Layers that it has already are outside: with the deadlines there, waiting counts.
pub(crate) fn bounded<L>(server: Server<L>) -> Server<Stack<RequestBounds, L>> {
    server
        .accept_http1(false)
        // It would set the windows by itself, up to 16 MiB.
        .http2_adaptive_window(Some(false))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MOST_CALLS)
        .http2_max_header_list_size(LARGEST_HEAD)
        .max_frame_size(LARGEST_FRAME)
        .http2_max_pending_accept_reset_streams(Some(MOST_RESET))
        .http2_max_local_error_reset_streams(Some(MOST_WRONG))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .layer(RequestBounds)
}
