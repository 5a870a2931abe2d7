//! A model on its way, as a file: written after every round, read when a run goes on.
//!
//! Little-endian: a magic number, the fingerprint of the configuration, the rounds that are behind it, the lengths of
//! the model, of the two memories of the server, of the list of clients with a sketch and of their sketches, all of
//! these, and a CRC-32C of everything. A file that was cut off or belongs to another run is as good as none: the run is
//! then played again, with the same result.

use crate::learn::aggregate::{Server, ServerRule};
use crate::sim::study::Checkpoint;

const MAGIC: &[u8; 8] = b"agewise2";
const HEADER: usize = 8 + 7 * 8;
const CHECKSUM: usize = 4;

/// Writes a checkpoint of a run into a buffer, which is emptied before.
pub(super) fn encode(
    buffer: &mut Vec<u8>,
    fingerprint: u64,
    rounds: u64,
    global: &[f32],
    server: &Server,
    (sketched, sketches): &(Vec<u32>, Vec<f32>),
) {
    let [direction, squares] = server.memory();
    buffer.clear();
    buffer.extend_from_slice(MAGIC);
    let lengths = [global.len(), direction.len(), squares.len(), sketched.len(), sketches.len()];
    let lengths = lengths.map(|length| length as u64);
    for number in [fingerprint, rounds].into_iter().chain(lengths) {
        buffer.extend_from_slice(&number.to_le_bytes());
    }
    for client in sketched {
        buffer.extend_from_slice(&client.to_le_bytes());
    }
    for part in [global, direction, squares, sketches] {
        // In place: this is a copy, where adding byte after byte is not.
        let begin = buffer.len();
        buffer.resize(begin + 4 * part.len(), 0);
        for (place, value) in buffer[begin..].chunks_exact_mut(4).zip(part) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
    let checksum = crc32c::crc32c(buffer);
    buffer.extend_from_slice(&checksum.to_le_bytes());
}

/// Reads a checkpoint; nothing if it is damaged or belongs to another configuration.
pub(super) fn decode(bytes: &[u8], fingerprint: u64, rule: ServerRule) -> Option<Checkpoint> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    if crc32c::crc32c(content).to_le_bytes() != checksum {
        return None;
    }
    let (header, numbers) = content.split_at_checked(HEADER)?;
    let (magic, fields) = header.split_at_checked(MAGIC.len())?;
    let fields: Vec<u64> = fields.chunks_exact(8).map(number).collect::<Option<_>>()?;
    let (&[of, rounds], lengths) = fields.split_first_chunk()?;
    let all = lengths.iter().try_fold(0u64, |all, &length| all.checked_add(length))?;
    if magic != MAGIC || of != fingerprint || all.checked_mul(4)? != numbers.len() as u64 {
        return None;
    }
    let &[global, direction, squares, sketched, sketches] = lengths else {
        return None;
    };
    let (clients, numbers) = numbers.split_at_checked(4 * sketched as usize)?;
    let clients = clients.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
    let mut values = numbers
        .chunks_exact(4)
        .filter_map(|bytes| Some(f32::from_le_bytes(bytes.try_into().ok()?)));
    let mut take = |count: u64| values.by_ref().take(count as usize).collect::<Vec<f32>>();
    let (global, direction, squares) = (take(global), take(direction), take(squares));
    Some(Checkpoint {
        rounds,
        global,
        server: Server::with_memory(rule, direction, squares),
        sketched: clients.map(u32::from_le_bytes).collect(),
        sketches: take(sketches),
    })
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was_or_not_at_all() {
        let rule = ServerRule::Momentum { learning_rate: 1.0, beta: 0.9 };
        let server = Server::with_memory(rule, vec![1.0, -0.5], vec![]);
        let mut bytes = Vec::new();
        let sketches = (vec![3, 70_000], vec![1.0, 2.0, -1.0, 0.0]);
        encode(&mut bytes, 7, 12, &[0.25, f32::MIN_POSITIVE], &server, &sketches);
        let back = decode(&bytes, 7, rule).unwrap();
        assert_eq!((back.rounds, back.global.as_slice()), (12, &[0.25, f32::MIN_POSITIVE][..]));
        assert_eq!(back.server, server);
        assert_eq!((back.sketched, back.sketches), sketches);
        assert!(decode(&bytes, 8, rule).is_none());
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end], 7, rule).is_none());
            let mut flipped = bytes.clone();
            flipped[end] ^= 1;
            assert!(decode(&flipped, 7, rule).is_none());
        }
    }
}
