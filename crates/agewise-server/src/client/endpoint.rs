//! Where a coordinator is, and how it is reached.

use crate::tls::Trust;
use agewise_core::Error;
use std::net::IpAddr;
use std::time::Duration;
use tonic::transport::{Endpoint, Uri};

const CONNECT: Duration = Duration::from_secs(10);
/// A dead connection is noticed after this time and the next together.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the coordinator is, and how it is reached.
pub(crate) fn endpoint(url: &str, trust: &Trust) -> Result<Endpoint, Error> {
    let wrong = |why: String| Error::new("coordinator", url, why);
    let is_encrypted = url.starts_with("https://");
    if !is_encrypted && !url.starts_with("http://") {
        return Err(wrong("https://HOST:PORT, or http://HOST:PORT on loopback".to_string()));
    }
    let endpoint = Endpoint::from_shared(url.to_string())
        .map_err(|error| wrong(format!("an address such as https://host:7070 ({error})")))?;
    check_address(endpoint.uri()).map_err(|why| wrong(why.to_string()))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1 << 20)
        .tcp_nodelay(true);
    if is_encrypted {
        return endpoint
            .tls_config(trust.config())
            .map_err(|error| wrong(format!("a coordinator with TLS ({})", with_causes(&error))));
    }
    Ok(endpoint)
}

/// Checks an address: a host and a port, and without encryption only this machine.
fn check_address(uri: &Uri) -> Result<(), &'static str> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let has_more = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    if has_more || authority.contains('@') || port.is_some_and(|_| uri.port_u16().is_none()) {
        return Err("nothing but https://HOST:PORT, with a port up to 65535");
    }
    if uri.scheme_str() == Some("http") && !is_here(uri) {
        return Err("https://: without encryption only this machine itself may be reached");
    }
    Ok(())
}

/// Whether an address is of this machine.
pub(super) fn is_here(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An error with its causes: the outermost alone says little.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
