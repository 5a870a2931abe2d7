//! Who may look at the page.
//!
//! On a loopback address programs of this machine may, and they need no token. One of them is a browser, which does what pages from
//! elsewhere tell it: a page whose name its owner lets point to 127.0.0.1 would be the same site as ours, and could read it (DNS rebinding).
//! Such a request has the name of that page in its Host header, so only requests for names that are ours are answered.

use crate::coordinator::auth::Authenticator;
use crate::crypto::token::Role;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::uri::{Authority, Uri};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use std::net::IpAddr;
use std::sync::Arc;

/// Who may look at the page.
pub(in crate::coordinator) enum Access {
    /// Every program that asks for localhost, an address, or one of these names.
    Named(Vec<String>),
    /// Every peer with the token of an observer.
    Observers(Arc<Authenticator>),
}

impl Access {
    /// The answer to a request, if it is refused.
    pub(super) fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
        match self {
            Self::Named(names) => {
                // HTTP/2 has the host in the URI.
                let asked = uri.authority().map(Authority::as_str).into_iter().map(Some);
                let hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().ok());
                if asked.chain(hosts).all(|host| host.is_some_and(|host| is_ours(host, names))) {
                    return None;
                }
                let why =
                    "this is not the page of that host; a proxy's name belongs into http_names\n";
                Some((StatusCode::MISDIRECTED_REQUEST, why).into_response())
            }
            Self::Observers(auth) => {
                let token = token(headers.get(header::AUTHORIZATION));
                if auth.check_bearer(token.as_deref(), Role::Observer, None).is_ok() {
                    return None;
                }
                let how = [(header::WWW_AUTHENTICATE, "Basic realm=\"agewise\"")];
                let why = "an observer's token is needed, as the password or as Bearer\n";
                Some((StatusCode::UNAUTHORIZED, how, why).into_response())
            }
        }
    }
}

/// Whether a host, with its port if there is one, is meant to be this machine. An address always is: no name stands behind it.
pub(crate) fn is_ours(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_end_matches('.');
    host.eq_ignore_ascii_case("localhost")
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || names.iter().any(|name| host.eq_ignore_ascii_case(name.trim_end_matches('.')))
}

/// The token of a request: `Bearer TOKEN`, or the password that a browser asks for.
fn token(header: Option<&HeaderValue>) -> Option<String> {
    let (scheme, rest) = header?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_string());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64.decode(rest.as_bytes()).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_string())
}
