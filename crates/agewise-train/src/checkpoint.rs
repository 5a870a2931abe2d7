//! Models and checkpoints as files: safetensors with metadata, which Python and PyTorch read as they are.
//!
//! A file has the tensors of the model with their names, shapes and order in PyTorch; where a run is to go on it also has
//! what the aggregator remembers (`server.*`) and the sketches of updates (`sketches.clients`, `sketches.values`). The
//! metadata say what it belongs to. A checksum (CRC-32C) of the whole file stands in the metadata at a fixed place, so that a
//! file that was cut off, damaged, or written by another program is not taken for one of ours.

use crate::aggregation::AggregatorState;
use crate::model::Tensor;
use crate::task::TaskDescription;
use agewise_core::{Error, Result};
use safetensors::tensor::{Dtype, Metadata as Header, SafeTensors, TensorView};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The version of the format, in the metadata of every file.
const FORMAT: &str = "agewise-1";
/// How every file begins, after the length of its header; then come the digits of the checksum.
const BEGINNING: &[u8] = br#"{"__metadata__":{"crc32c":""#;
/// Where the checksum is, and how long.
const CHECKSUM: std::ops::Range<usize> = 8 + BEGINNING.len()..8 + BEGINNING.len() + 8;

const SERVER: &str = "server.";
const SKETCHED: &str = "sketches.clients";
const SKETCHES: &str = "sketches.values";

/// What a model belongs to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata {
    /// Rounds that are behind it.
    pub round: u64,
    /// The seed of the run.
    pub seed: u64,
    /// The policy that selected its cohorts.
    pub policy: String,
    /// The rule of aggregation.
    pub aggregation: String,
    /// A number that tells this configuration from others.
    pub fingerprint: u64,
    /// The data, the model, and how its pixels were scaled; nothing else of it is kept.
    pub task: TaskDescription,
}

/// What is written: a model, and what is needed to go on with it, if it is to go on.
#[derive(Debug, Clone)]
pub struct CheckpointView<'a> {
    /// What it belongs to.
    pub metadata: &'a Metadata,
    /// The tensors of the model.
    pub tensors: &'a [Tensor],
    /// The model.
    pub parameters: &'a [f32],
    /// What the aggregator remembers.
    pub server: Vec<(&'a str, &'a [f32])>,
    /// The clients of whose updates there are sketches.
    pub sketched: &'a [u32],
    /// Their sketches, one after the other, all of one width.
    pub sketches: &'a [f32],
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What it belongs to.
    pub metadata: Metadata,
    /// The model.
    pub parameters: Vec<f32>,
    /// What the aggregator remembered.
    pub server: AggregatorState,
    /// The clients of whose updates there are sketches.
    pub sketched: Vec<u32>,
    /// Their sketches, one after the other.
    pub sketches: Vec<f32>,
}

impl<'a> CheckpointView<'a> {
    /// A model alone.
    pub fn model(metadata: &'a Metadata, tensors: &'a [Tensor], parameters: &'a [f32]) -> Self {
        Self { metadata, tensors, parameters, server: vec![], sketched: &[], sketches: &[] }
    }

    /// The bytes of the file. The same content gives the same bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes)?;
        Ok(bytes)
    }

    /// The same in a buffer that serves one file after the other; it is emptied before.
    pub fn encode_into(&self, buffer: &mut Vec<u8>) -> Result<()> {
        let header = self.header()?;
        buffer.clear();
        // Tensors of 8 bytes lie where a processor wants them.
        let padded = header.len().next_multiple_of(8);
        buffer.extend_from_slice(&(padded as u64).to_le_bytes());
        buffer.extend_from_slice(header.as_bytes());
        buffer.resize(8 + padded, b' ');
        for &client in self.sketched {
            buffer.extend_from_slice(&i64::from(client).to_le_bytes());
        }
        for tensor in self.tensors {
            tensor.write_pytorch(self.parameters, buffer);
        }
        for values in self.server.iter().map(|(_, values)| *values).chain([self.sketches]) {
            write_floats(values, buffer);
        }
        let checksum = crc32c::crc32c(buffer);
        buffer[CHECKSUM].copy_from_slice(format!("{checksum:08x}").as_bytes());
        Ok(())
    }

    /// The header, with zeros in the place of the checksum.
    fn header(&self) -> Result<String> {
        let named = count_parameters(self.tensors)?;
        if named != self.parameters.len() {
            let expected = format!("{named}, as the tensors of the model have");
            return Err(Error::new("parameters", self.parameters.len(), expected));
        }
        let width = self.sketches.len().checked_div(self.sketched.len()).unwrap_or(0);
        if width * self.sketched.len() != self.sketches.len() {
            let expected = format!("as many for each of {} clients", self.sketched.len());
            return Err(Error::new("sketches", self.sketches.len(), expected));
        }
        let mut header = String::from_utf8_lossy(BEGINNING).into_owned() + "00000000\"";
        for (key, value) in self.metadata.fields() {
            write_text(&mut header, format_args!(",{}:{}", quoted(key), quoted(&value)));
        }
        header.push('}');
        let mut end = 0;
        let mut entry = |name: &str, dtype: &str, size: usize, shape: &[usize]| {
            let begin = end;
            end += size * shape.iter().product::<usize>();
            let name = quoted(name);
            let rest = format_args!("\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]");
            write_text(&mut header, format_args!(",{name}:{{\"dtype\":\"{dtype}\",{rest}}}"));
        };
        if !self.sketched.is_empty() {
            entry(SKETCHED, "I64", 8, &[self.sketched.len()]);
        }
        for tensor in self.tensors {
            entry(&tensor.name, "F32", 4, &tensor.shape);
        }
        for (name, values) in &self.server {
            entry(&format!("{SERVER}{name}"), "F32", 4, &[values.len()]);
        }
        if !self.sketched.is_empty() {
            entry(SKETCHES, "F32", 4, &[self.sketched.len(), width]);
        }
        header.push('}');
        Ok(header)
    }
}

impl Checkpoint {
    /// Whether a file begins as ours do, and not as a safetensors file of another program, or of version 0.1.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.get(8..).is_some_and(|header| header.starts_with(BEGINNING))
    }

    /// Reads a file of ours with these tensors. One that was cut off, damaged or written by another program is an error.
    pub fn decode(bytes: &[u8], tensors: &[Tensor]) -> Result<Self> {
        check_sum(bytes)?;
        let file = SafeTensors::deserialize(bytes).map_err(|error| foreign(bytes, &error))?;
        let (_, header) =
            SafeTensors::read_metadata(bytes).map_err(|error| foreign(bytes, &error))?;
        let metadata = Metadata::read(&header)?;
        let parameters = read_parameters(&file, tensors)?;
        let mut server = AggregatorState::new();
        for name in header.offset_keys() {
            if let Some(short) = name.strip_prefix(SERVER) {
                server.push((short.to_string(), floats(&name, &tensor_of(&file, &name)?)?));
            }
        }
        let (mut sketched, mut sketches) = (Vec::new(), Vec::new());
        if file.names().contains(&SKETCHED) {
            sketched = clients(&tensor_of(&file, SKETCHED)?)?;
            sketches = floats(SKETCHES, &tensor_of(&file, SKETCHES)?)?;
        }
        Ok(Self { metadata, parameters, server, sketched, sketches })
    }
}

/// The parameters of a model from any safetensors file: exactly its tensors, finite and in 32 bits, beside what a checkpoint
/// has.
pub fn read_model(bytes: &[u8], tensors: &[Tensor]) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| foreign(bytes, &error))?;
    let parameters = read_parameters(&file, tensors)?;
    for tensor in tensors {
        let values = &parameters[tensor.offset..][..tensor.len()];
        if let Some(bad) = values.iter().find(|value| !value.is_finite()) {
            return Err(Error::new(&tensor.name, bad, "finite numbers only"));
        }
    }
    Ok(parameters)
}

impl Metadata {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("format", FORMAT.to_string()),
            ("round", self.round.to_string()),
            ("seed", self.seed.to_string()),
            ("policy", self.policy.clone()),
            ("aggregation", self.aggregation.clone()),
            ("fingerprint", format!("{:016x}", self.fingerprint)),
            ("data", self.task.data.clone()),
            ("model", self.task.model.clone()),
            ("pixel_mean", format!("{:?}", self.task.pixel_mean)),
            ("pixel_deviation", format!("{:?}", self.task.pixel_deviation)),
        ];
        // Only models that predict numbers have it.
        if let Some((shift, divisor)) = self.task.label_scale {
            fields.push(("label_scale", format!("{:?}", [shift, divisor])));
        }
        fields
    }

    fn read(header: &Header) -> Result<Self> {
        let none = HashMap::new();
        let fields = header.metadata().as_ref().unwrap_or(&none);
        let wrong = |key: &str, value: &str| {
            Error::new(format!("{key} of the file"), value, "metadata of this version of agewise")
        };
        let text = |key: &str| fields.get(key).cloned().ok_or_else(|| wrong(key, "missing"));
        let number = |key: &str, radix: u32| {
            let text = text(key)?;
            u64::from_str_radix(&text, radix).map_err(|_| wrong(key, &text))
        };
        let list = |key: &str| {
            let text = text(key)?;
            serde_json::from_str::<Vec<f64>>(&text).map_err(|_| wrong(key, &text))
        };
        let format = text("format")?;
        if format != FORMAT {
            return Err(wrong("format", &format));
        }
        Ok(Self {
            round: number("round", 10)?,
            seed: number("seed", 10)?,
            policy: text("policy")?,
            aggregation: text("aggregation")?,
            fingerprint: number("fingerprint", 16)?,
            task: TaskDescription {
                data: text("data")?,
                model: text("model")?,
                pixel_mean: list("pixel_mean")?,
                pixel_deviation: list("pixel_deviation")?,
                label_scale: match fields.get("label_scale") {
                    None => None,
                    Some(_) => match list("label_scale")?[..] {
                        [shift, divisor] => Some((shift, divisor)),
                        _ => return Err(wrong("label_scale", "another list")),
                    },
                },
                ..TaskDescription::default()
            },
        })
    }
}

/// How many numbers tensors have that lie one behind the other.
fn count_parameters(tensors: &[Tensor]) -> Result<usize> {
    let mut end = 0;
    for tensor in tensors {
        if tensor.offset != end {
            let expected = format!("{end}, behind the tensor before it");
            return Err(Error::new(format!("offset of {}", tensor.name), tensor.offset, expected));
        }
        end += tensor.len();
    }
    Ok(end)
}

/// The parameters of exactly these tensors.
fn read_parameters(file: &SafeTensors<'_>, tensors: &[Tensor]) -> Result<Vec<f32>> {
    let mut names = file.names();
    names.sort_unstable();
    let mut parameters = vec![0.0; count_parameters(tensors)?];
    for tensor in tensors {
        let expected = format!("{:?} numbers of 32 bits", tensor.shape);
        let view = file.tensor(&tensor.name).map_err(|_| {
            let found = format!("missing among {}", names.join(", "));
            Error::new(&tensor.name, found, &expected)
        })?;
        if view.dtype() != Dtype::F32 || view.shape() != tensor.shape {
            let found = format!("{:?} of {:?}", view.shape(), view.dtype());
            return Err(Error::new(&tensor.name, found, expected));
        }
        tensor.read_pytorch(view.data(), &mut parameters);
    }
    let known = |name: &str| {
        tensors.iter().any(|tensor| tensor.name == name)
            || name.starts_with(SERVER)
            || [SKETCHED, SKETCHES].contains(&name)
    };
    match names.iter().find(|name| !known(name)) {
        None => Ok(parameters),
        Some(extra) => {
            let expected = format!("only the {} tensors of the model", tensors.len());
            Err(Error::new("model file", extra, expected))
        }
    }
}

/// A tensor that has to be there.
fn tensor_of<'a>(file: &SafeTensors<'a>, name: &str) -> Result<TensorView<'a>> {
    file.tensor(name).map_err(|error| Error::new(name, error, "a tensor of a checkpoint"))
}

fn floats(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>> {
    if view.dtype() != Dtype::F32 {
        return Err(Error::new(name, format!("{:?}", view.dtype()), "numbers of 32 bits"));
    }
    Ok(view.data().chunks_exact(4).map(read_float).collect())
}

fn clients(view: &TensorView<'_>) -> Result<Vec<u32>> {
    let wrong = |value: &dyn std::fmt::Display| Error::new(SKETCHED, value, "numbers of clients");
    if view.dtype() != Dtype::I64 {
        return Err(wrong(&format!("{:?}", view.dtype())));
    }
    let numbers = view.data().chunks_exact(8).filter_map(|bytes| bytes.try_into().ok());
    let numbers = numbers.map(i64::from_le_bytes);
    numbers.map(|number| u32::try_from(number).map_err(|_| wrong(&number))).collect()
}

/// Checks that a file is one of ours, and whole.
fn check_sum(bytes: &[u8]) -> Result<()> {
    let ours = bytes.get(8..CHECKSUM.start) == Some(BEGINNING);
    let Some(found) = bytes.get(CHECKSUM).filter(|_| ours) else {
        return Err(foreign(bytes, &"no checksum"));
    };
    let checksum = crc32c::crc32c(&bytes[..CHECKSUM.start]);
    let checksum = crc32c::crc32c_append(checksum, b"00000000");
    let checksum = crc32c::crc32c_append(checksum, &bytes[CHECKSUM.end..]);
    if found == format!("{checksum:08x}").as_bytes() {
        return Ok(());
    }
    let found = String::from_utf8_lossy(found);
    Err(Error::new("checksum of the file", found, format!("{checksum:08x}: it is damaged")))
}

fn foreign(bytes: &[u8], why: &dyn std::fmt::Display) -> Error {
    let value = format!("{} bytes", bytes.len());
    Error::new("model file", value, format!("a safetensors file as agewise writes it ({why})"))
}

/// Text in quotation marks, as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writing to a string cannot fail.
fn write_text(target: &mut String, text: std::fmt::Arguments<'_>) {
    target.write_fmt(text).ok();
}

/// Appends floats as bytes. In place: this is a copy, where adding byte after byte is not.
pub(crate) fn write_floats(values: &[f32], buffer: &mut Vec<u8>) {
    let begin = buffer.len();
    buffer.resize(begin + 4 * values.len(), 0);
    for (place, value) in buffer[begin..].chunks_exact_mut(4).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// A float from its four bytes.
pub(crate) fn read_float(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let task = TaskDescription {
            data: "mnist".into(),
            model: "softmax".into(),
            pixel_mean: vec![0.1307, 0.1],
            pixel_deviation: vec![0.3081, 1.0 / 3.0],
            ..TaskDescription::default()
        };
        Metadata {
            round: 12,
            seed: u64::MAX,
            policy: "own \"policy\" (p=[0, 0.5])\n".into(),
            aggregation: "momentum".into(),
            fingerprint: 0xFEDC_BA98_7654_3210,
            task,
        }
    }

    fn tensors() -> Vec<Tensor> {
        vec![Tensor::new("w", vec![2, 2], 0), Tensor::new("b", vec![1], 4)]
    }

    const PARAMETERS: [f32; 5] = [0.25, f32::MIN_POSITIVE / 2.0, -0.0, f32::MAX, 3.5];

    #[test]
    fn comes_back_as_it_was_or_not_at_all() {
        let (metadata, tensors) = (metadata(), tensors());
        let momentum = [1.0f32, -0.5, 0.0, 2.0, 3.0];
        let view = CheckpointView {
            server: vec![("second", &momentum), ("first", &momentum[..2])],
            sketched: &[3, u32::MAX],
            sketches: &[1.0, 2.0, -1.0, 0.0],
            ..CheckpointView::model(&metadata, &tensors, &PARAMETERS)
        };
        let mut bytes = vec![7; 10_000];
        view.encode_into(&mut bytes).unwrap();
        assert_eq!(bytes, view.encode().unwrap());
        let back = Checkpoint::decode(&bytes, &tensors).unwrap();
        assert_eq!(back.metadata, metadata);
        assert_eq!(back.parameters.map_bits(), PARAMETERS.map_bits());
        let names: Vec<&str> = back.server.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["second", "first"]);
        assert_eq!(back.server[0].1, momentum);
        assert_eq!((back.sketched, back.sketches), (vec![3, u32::MAX], vec![1.0, 2.0, -1.0, 0.0]));
        // A checkpoint is also a model.
        assert_eq!(read_model(&bytes, &tensors).unwrap(), PARAMETERS);
        for end in 0..bytes.len() {
            assert!(Checkpoint::decode(&bytes[..end], &tensors).is_err());
            let mut flipped = bytes.clone();
            flipped[end] ^= 1;
            assert!(Checkpoint::decode(&flipped, &tensors).is_err(), "byte {end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Checkpoint::decode(&longer, &tensors).is_err());
    }

    trait MapBits {
        fn map_bits(&self) -> Vec<u32>;
    }

    impl<T: AsRef<[f32]>> MapBits for T {
        fn map_bits(&self) -> Vec<u32> {
            self.as_ref().iter().map(|value| value.to_bits()).collect()
        }
    }

    #[test]
    fn a_model_alone_is_a_file_for_everyone() {
        let (metadata, tensors) = (metadata(), tensors());
        let bytes = CheckpointView::model(&metadata, &tensors, &PARAMETERS).encode().unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("w").unwrap().shape(), [2, 2]);
        let (header_len, header) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header_len % 8, 0);
        let fields = header.metadata().as_ref().unwrap();
        assert_eq!(fields["pixel_mean"], "[0.1307, 0.1]");
        assert_eq!((fields["round"].as_str(), fields["format"].as_str()), ("12", FORMAT));
        let back = Checkpoint::decode(&bytes, &tensors).unwrap();
        assert!(back.server.is_empty() && back.sketched.is_empty() && back.sketches.is_empty());
        // Another program's file has the same tensors and no checksum.
        let data: Vec<u8> = PARAMETERS.iter().flat_map(|value| value.to_le_bytes()).collect();
        let weights = TensorView::new(Dtype::F32, vec![2, 2], &data[..16]).unwrap();
        let bias = TensorView::new(Dtype::F32, vec![1], &data[16..]).unwrap();
        let other = safetensors::serialize([("w", weights), ("b", bias)], None).unwrap();
        assert_eq!(read_model(&other, &tensors).unwrap(), PARAMETERS);
        let error = Checkpoint::decode(&other, &tensors).unwrap_err();
        assert_eq!(error.field(), "model file");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let (metadata, tensors) = (metadata(), tensors());
        let field = |view: CheckpointView<'_>| view.encode().unwrap_err().field().to_string();
        let view = CheckpointView::model(&metadata, &tensors, &PARAMETERS);
        assert_eq!(
            field(CheckpointView { parameters: &PARAMETERS[1..], ..view.clone() }),
            "parameters"
        );
        let sketched = CheckpointView { sketched: &[1, 2], sketches: &[0.5], ..view.clone() };
        assert_eq!(field(sketched), "sketches");
        assert_eq!(field(CheckpointView { sketches: &[0.5], ..view.clone() }), "sketches");
        let apart = [Tensor::new("w", vec![4], 0), Tensor::new("b", vec![1], 5)];
        assert_eq!(field(CheckpointView { tensors: &apart, ..view.clone() }), "offset of b");
        let bytes = view.encode().unwrap();
        let others = [Tensor::new("w", vec![4], 0), Tensor::new("b", vec![1], 4)];
        assert_eq!(Checkpoint::decode(&bytes, &others).unwrap_err().field(), "w");
        assert_eq!(Checkpoint::decode(&bytes, &others[1..]).unwrap_err().field(), "offset of b");
    }
}
