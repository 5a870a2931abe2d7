//! Messages that are almost right: valid requests of every call, changed where a parser can trip.

use crate::common::raw_client::{RawClient, header_part};
use crate::frames::framed;
use agewise_server::protocol::{
    CallSignature, ChallengeRequest, EnrolRequest, JoinRequest, ReportHeader, RevokeRequest,
    StatusRequest, WatchRequest,
};
use prost::Message;

/// Numbers that follow from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, or 0.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// Valid requests, by method, as they are before they are framed.
pub(crate) fn corpus(attacker: &mut RawClient) -> Vec<(&'static str, Vec<u8>)> {
    let join = attacker.join_request(3, 5, &[9; 96]);
    let fetch = attacker.fetch_request(1);
    let header = attacker.header(0, 0, &[0; 400]);
    let signed_header = attacker.sign(header.clone());
    let data = crate::common::raw_client::data_part(&[1; 300]);
    let stranger = JoinRequest {
        call_signature: Some(CallSignature { counter: u64::MAX, signature: vec![3; 64] }),
        client: u32::MAX,
        ..join.clone()
    };
    let long = EnrolRequest { name: "n".repeat(5_000), ..attacker.enrolment.clone() };
    let odd = ReportHeader { loss: f64::NAN, parameters: 1 << 62, ..header.clone() };
    vec![
        ("Challenge", ChallengeRequest {}.encode_to_vec()),
        ("Enrol", attacker.enrolment.encode_to_vec()),
        ("Enrol", EnrolRequest::default().encode_to_vec()),
        ("Enrol", long.encode_to_vec()),
        // Never a whole one with its signature: it would listen.
        (
            "Watch",
            WatchRequest { client: 0, run: attacker.run(), call_signature: None }.encode_to_vec(),
        ),
        ("Join", attacker.sign(join.clone()).encode_to_vec()),
        ("Join", join.encode_to_vec()),
        ("Join", stranger.encode_to_vec()),
        ("FetchModel", fetch.encode_to_vec()),
        ("Report", header_part(signed_header).encode_to_vec()),
        ("Report", header_part(header).encode_to_vec()),
        ("Report", header_part(odd).encode_to_vec()),
        ("Report", data.encode_to_vec()),
        ("Status", StatusRequest {}.encode_to_vec()),
        ("Revoke", RevokeRequest { who: "swarm-00000".to_string() }.encode_to_vec()),
    ]
}

/// Changes a message. Gives the body of a call, with its frame. Half of them can still be read, and say something else; the others are
/// changed in one to four places, whatever that breaks.
pub(crate) fn mutate(dice: &mut Dice, message: &[u8], other: &[u8]) -> Vec<u8> {
    if dice.below(2) == 0 {
        return framed(&reworded(dice, message, other));
    }
    let mut bytes = message.to_vec();
    for _ in 0..=dice.below(4) {
        change(dice, &mut bytes, other);
        // Beyond this a request is refused for its size alone.
        bytes.truncate(20 << 10);
    }
    let mut body = framed(&bytes);
    match dice.below(12) {
        // The head of the frame: packed or not, and how long.
        0 => body[0] = dice.next() as u8,
        1 => {
            let place = 1 + dice.below(4);
            body[place] = dice.next() as u8;
        }
        2 => body.truncate(dice.below(body.len() + 1)),
        3 => body.extend_from_slice(&framed(other)),
        4 => {
            let shorter = (bytes.len() as u32).wrapping_sub(1);
            body[1..5].copy_from_slice(&shorter.to_be_bytes());
        }
        _ => {}
    }
    body
}

fn change(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    let place = dice.below(bytes.len() + 1);
    match dice.below(10) {
        0 | 1 if place < bytes.len() => bytes[place] ^= 1 << dice.below(8),
        2 if place < bytes.len() => bytes[place] = dice.next() as u8,
        3 => bytes.truncate(place),
        4 => {
            // A piece of it again.
            let end = (place + dice.below(64)).min(bytes.len());
            let piece = bytes[place..end].to_vec();
            bytes.splice(place..place, piece);
        }
        5 => {
            // A piece of another message.
            let begin = dice.below(other.len() + 1);
            let end = (begin + dice.below(200)).min(other.len());
            bytes.splice(place..place, other[begin..end].iter().copied());
        }
        6 => {
            // A number that is as large as can be, or too large.
            let length = 9 + dice.below(3);
            bytes.splice(place..place, std::iter::repeat_n(0xff, length).chain([1]));
        }
        7 => {
            // A field with a length that is not there.
            let field = (dice.below(17) as u8) << 3 | 2;
            let length = [0xff, 0xff, 0xff, 0xff, dice.below(16) as u8];
            bytes.splice(place..place, std::iter::once(field).chain(length));
        }
        8 => {
            // Groups inside groups, opened and perhaps closed.
            let depth = dice.below(300);
            let field = (1 + dice.below(15) as u8) << 3;
            let closed = if dice.below(2) == 0 { depth } else { 0 };
            let opening = std::iter::repeat_n(field | 3, depth);
            let closing = std::iter::repeat_n(field | 4, closed);
            bytes.splice(place..place, opening.chain(closing));
        }
        _ => {
            // A field of every kind, also unknown ones.
            let key = dice.below(256) as u8;
            bytes.splice(place..place, [key, dice.next() as u8]);
        }
    }
}

/// The fields of a message, each with its key; up to the first that cannot be read.
fn fields(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(length) = field_length(bytes).filter(|length| *length <= bytes.len()) {
        let (field, rest) = bytes.split_at(length);
        all.push(field.to_vec());
        bytes = rest;
    }
    all
}

/// How many bytes the first field has.
fn field_length(bytes: &[u8]) -> Option<usize> {
    let (key, head) = varint(bytes)?;
    let value = match key & 7 {
        0 => varint(&bytes[head..])?.1,
        1 => 8,
        2 => {
            let (length, size) = varint(&bytes[head..])?;
            size + usize::try_from(length).ok()?
        }
        5 => 4,
        _ => return None,
    };
    head.checked_add(value)
}

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * place).min(63);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A message that can be read, with one to three fields that are dropped, doubled, moved, borrowed, or have another value.
fn reworded(dice: &mut Dice, message: &[u8], other: &[u8]) -> Vec<u8> {
    let mut all = fields(message);
    for _ in 0..=dice.below(3) {
        let place = dice.below(all.len());
        match dice.below(6) {
            0 if !all.is_empty() => drop(all.remove(place)),
            1 if !all.is_empty() => all.push(all[place].clone()),
            2 if !all.is_empty() => all.swap(0, place),
            3 => all.extend(fields(other).into_iter().take(1)),
            _ if !all.is_empty() => all[place] = with_another_value(dice, &all[place], other),
            _ => {}
        }
    }
    all.concat()
}

fn with_another_value(dice: &mut Dice, field: &[u8], other: &[u8]) -> Vec<u8> {
    let Some((key, head)) = varint(field) else { return field.to_vec() };
    let mut bytes = field[..head].to_vec();
    match key & 7 {
        0 => {
            let odd = [0, 1, 2, 127, 1 << 31, u64::from(u32::MAX), 1 << 62, u64::MAX, dice.next()];
            put_varint(&mut bytes, odd[dice.below(odd.len())]);
        }
        2 => {
            let (_, size) = varint(&field[head..]).unwrap_or((0, 0));
            let mut value = field[head + size..].to_vec();
            match dice.below(5) {
                0 => value.clear(),
                1 => value.truncate(dice.below(value.len())),
                2 => value.extend(std::iter::repeat_n(b'x', dice.below(300))),
                // A message inside, or something that is none.
                3 => value = reworded(dice, &value, other),
                _ if !value.is_empty() => {
                    let place = dice.below(value.len());
                    value[place] ^= 1 << dice.below(8);
                }
                _ => {}
            }
            put_varint(&mut bytes, value.len() as u64);
            bytes.extend_from_slice(&value);
        }
        _ => bytes.extend(field[head..].iter().map(|byte| byte ^ dice.next() as u8)),
    }
    bytes
}
