//! Lines of a log: JSON objects, each with a checksum, so that a line that was cut off or damaged counts as not written.

use crate::error::ExperimentError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How the checksum of a line begins, and how long the end of a line is.
const CHECKSUM: &str = ",\"crc32c\":\"";
const LINE_END: usize = CHECKSUM.len() + 8 + 3;

fn line_end(text: &[u8]) -> String {
    format!("{CHECKSUM}{:08x}\"}}\n", crc32c::crc32c(text))
}

/// A JSON object on a line of its own, with a checksum of what is before it as its last field.
pub(super) fn line(value: &impl Serialize) -> Result<Vec<u8>, ExperimentError> {
    let text = serde_json::to_vec(value);
    let mut text = text.map_err(|error| ExperimentError::Unreadable(format!("log: {error}")))?;
    // The closing bracket moves behind the checksum.
    text.pop();
    let end = line_end(&text);
    text.extend_from_slice(end.as_bytes());
    Ok(text)
}

/// Reads a line; nothing if it is not whole, or not as it was written.
pub(super) fn read_line<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let (text, end) = line.split_at_checked(line.len().checked_sub(LINE_END)?)?;
    if end != line_end(text).as_bytes() {
        return None;
    }
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RoundLog;

    #[test]
    fn a_line_comes_back_as_it_was_or_not_at_all() {
        let log = RoundLog { round: 3, weights: vec![0.1, 1.0 / 3.0], ..RoundLog::default() };
        let written = line(&log).unwrap();
        assert_eq!(read_line(&written), Some(log));
        for end in 0..written.len() {
            assert_eq!(read_line::<RoundLog>(&written[..end]), None);
            let mut damaged = written.clone();
            damaged[end] ^= 1;
            assert_eq!(read_line::<RoundLog>(&damaged), None);
        }
    }
}
