//! Scalars as a TensorBoard event file, made in memory.
//!
//! The file is a list of TFRecords, each an `Event` in protobuf. The few fields used here are written by hand: they
//! have kept their numbers since TensorBoard exists, and a protobuf library would be larger than this crate.
//!
//! | message         | field          | number | type                     |
//! |-----------------|----------------|--------|--------------------------|
//! | `Event`         | `wall_time`    | 1      | double                   |
//! | `Event`         | `step`         | 2      | int64                    |
//! | `Event`         | `file_version` | 3      | string (in the first)    |
//! | `Event`         | `summary`      | 5      | message (in all others)  |
//! | `Summary`       | `value`        | 1      | message                  |
//! | `Summary.Value` | `tag`          | 1      | string                   |
//! | `Summary.Value` | `simple_value` | 2      | float                    |
//!
//! The wall time of a scalar is its step in seconds, not the clock: the same run gives the same bytes.

/// What the file must be called, or at least hold in its name, for TensorBoard to find it.
pub(super) const FILE_NAME: &str = "events.out.tfevents.0.agewise";

/// A TensorBoard event file that grows by scalars.
#[derive(Debug, Clone)]
pub(super) struct EventFile(Vec<u8>);

impl EventFile {
    /// A file without scalars.
    pub(super) fn new() -> Self {
        let mut event = Message::default();
        event.double(1, 0.0);
        event.bytes(3, b"brain.Event:2");
        let mut file = Self(Vec::new());
        file.record(&event.0);
        file
    }

    /// Adds the value of `tag` at a step.
    pub(super) fn scalar(&mut self, tag: &str, step: u64, value: f32) {
        let mut tagged = Message::default();
        tagged.bytes(1, tag.as_bytes());
        tagged.float(2, value);
        let mut summary = Message::default();
        summary.bytes(1, &tagged.0);
        let mut event = Message::default();
        event.double(1, step as f64);
        event.int64(2, step);
        event.bytes(5, &summary.0);
        self.record(&event.0);
    }

    /// The bytes of the file.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds a TFRecord: the length, its checksum, the data, their checksum.
    fn record(&mut self, data: &[u8]) {
        let length = (data.len() as u64).to_le_bytes();
        for part in [&length, data] {
            self.0.extend_from_slice(part);
            self.0.extend_from_slice(&masked_checksum(part).to_le_bytes());
        }
    }
}

/// CRC-32C, turned and shifted: the checksum of data that hold checksums themselves would be a weak one.
fn masked_checksum(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// A protobuf message: fields one after another, each a key (number and wire type) and a value.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Seven bits to a byte, the lowest first; the highest bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn int64(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A string or a message.
    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes off the front.
    fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (taken, left) = rest.split_at(count);
        *rest = left;
        taken
    }

    fn varint(rest: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = take(rest, 1)[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    }

    /// The fields of a message, by number; whole numbers as their eight bytes.
    fn fields(mut rest: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let key = varint(&mut rest);
            let value = match key & 7 {
                0 => varint(&mut rest).to_le_bytes().to_vec(),
                1 => take(&mut rest, 8).to_vec(),
                2 => {
                    let length = varint(&mut rest) as usize;
                    take(&mut rest, length).to_vec()
                }
                5 => take(&mut rest, 4).to_vec(),
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, value));
        }
        fields
    }

    fn field(fields: &[(u64, Vec<u8>)], number: u64) -> &[u8] {
        &fields.iter().find(|(here, _)| *here == number).unwrap().1
    }

    /// The events of a file, whose checksums must be right.
    fn events(mut rest: &[u8]) -> Vec<Vec<(u64, Vec<u8>)>> {
        let mut events = Vec::new();
        while !rest.is_empty() {
            let length = take(&mut rest, 8);
            assert_eq!(take(&mut rest, 4), masked_checksum(length).to_le_bytes());
            let data = take(&mut rest, u64::from_le_bytes(length.try_into().unwrap()) as usize);
            assert_eq!(take(&mut rest, 4), masked_checksum(data).to_le_bytes());
            events.push(fields(data));
        }
        events
    }

    /// The record with which files of TensorFlow and PyTorch begin, but for its wall time.
    #[test]
    fn the_first_record_is_the_known_one() {
        let bytes = EventFile::new().into_bytes();
        assert_eq!(bytes[..8], 24u64.to_le_bytes());
        // The masked checksum of the length 24, as in any such file.
        assert_eq!(bytes[8..12], [0xA3, 0x7F, 0x4B, 0x22]);
        assert_eq!(bytes[12..21], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[21..36], *b"\x1A\x0Dbrain.Event:2");
        assert_eq!(bytes.len(), 40);
    }

    /// The check value of CRC-32C is e3069283, for the digits 1 to 9.
    #[test]
    fn checksums_are_castagnolis_masked() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xE306_9283);
        // 0xE3069283 turned right by 15 bits is 0x2507C60D.
        assert_eq!(masked_checksum(b"123456789"), 0x2507_C60Du32.wrapping_add(0xA282_EAD8));
    }

    #[test]
    fn scalars_are_read_back() {
        let written = [
            ("accuracy", 0, 0.0f32),
            ("accuracy", 1, 0.125),
            ("loss/größe", 127, -3.5),
            ("loss/größe", 128, f32::NAN),
            ("", 1 << 40, f32::INFINITY),
        ];
        let mut file = EventFile::new();
        for (tag, step, value) in written {
            file.scalar(tag, step, value);
        }
        let events = events(&file.clone().into_bytes());
        assert_eq!(field(&events[0], 3), b"brain.Event:2");
        assert_eq!(events.len(), 1 + written.len());
        for (event, (tag, step, value)) in events[1..].iter().zip(written) {
            assert_eq!(field(event, 1), (step as f64).to_le_bytes());
            assert_eq!(field(event, 2), step.to_le_bytes());
            let summary = fields(field(event, 5));
            let tagged = fields(field(&summary, 1));
            assert_eq!(field(&tagged, 1), tag.as_bytes());
            assert_eq!(field(&tagged, 2), value.to_le_bytes());
        }
        let mut again = EventFile::new();
        for (tag, step, value) in written {
            again.scalar(tag, step, value);
        }
        assert_eq!(again.into_bytes(), file.into_bytes());
    }
}
