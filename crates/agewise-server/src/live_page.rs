//! What other pages take from the coordinator's live page: its script, and for which hosts a page of this machine is.

use crate::coordinator::http;

/// Asks for `live?have=VERSION` once a second, and puts the sections of the answer in the place of those with the same
/// id. The attribute `data-source` of the page says who cannot be reached when there are no answers.
pub const SCRIPT: &str = http::SCRIPT;

/// Whether a host, with its port if there is one, is this machine by `localhost` or an address. A page from elsewhere
/// that lets its own name point here asks for that name, and is not to be answered.
pub fn is_this_machine(host: &str) -> bool {
    http::is_ours(host, &[])
}
