//! Data of one's own: files in every format that is read, what can be wrong with them, and training on numbers.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

use agewise_core::{Seed, SizeDistribution};
use agewise_train::data::{
    CatalogueEntry, Data, ImageShape, Images, Labels, Loss, NaturalClients, OwnDataParams,
    PartitionDistribution, PartitionParams, PixelNormalization, PixelScale, SampleSet, Table,
};
use agewise_train::local::{LocalTask, LocalTrainingParams, LocalWork, Samples, Trainer};
use agewise_train::model::{Model, ModelSpec};
use agewise_train::task::{PartitionKey, TrainJob};
use agewise_train::{Metric, NativeTask, Task};
use std::fs;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

const CSV: &str = "who,a,b,label\nann,1,2.5,cat\nbob,3,-4,dog\nann,5,6e1,cat\n";

fn csv(text: &str) -> OwnDataParams {
    let data = write("data.csv", text.as_bytes());
    OwnDataParams { data, client: Some("who".into()), ..OwnDataParams::default() }
}

/// Writes a file into a folder of its own, which stays until the tests have ended.
fn write(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let folder = TempDir::new().unwrap().keep();
    fs::write(folder.join(name), bytes).unwrap();
    folder.join(name)
}

fn error(params: &OwnDataParams) -> String {
    params.load().unwrap_err().to_string()
}

fn table(set: &SampleSet) -> &Table {
    let table = match set {
        SampleSet::Table(table) => Some(table),
        SampleSet::Images(_) => None,
    };
    table.unwrap()
}

fn images(set: &SampleSet) -> &Images {
    let images = match set {
        SampleSet::Images(images) => Some(images),
        SampleSet::Table(_) => None,
    };
    images.unwrap()
}

#[test]
fn a_csv_has_features_classes_and_clients() {
    // With semicolons, the ends of lines of another system, a mark at the beginning and an empty test set.
    let semicolons = format!("\u{feff}{}", CSV.replace(',', ";").replace('\n', "\r\n"));
    for text in [CSV, &semicolons] {
        let own = csv(text).load().unwrap();
        let data = own.data;
        assert_eq!(
            (data.class_names.as_slice(), data.feature_names.as_slice()),
            (&["cat".to_string(), "dog".to_string()][..], &["a".to_string(), "b".to_string()][..])
        );
        assert_eq!(table(&data.train).features(), [1.0, 2.5, 3.0, -4.0, 5.0, 60.0]);
        assert_eq!(data.train.class_labels(), Some(&[0, 1, 0][..]));
        let clients = data.clients.unwrap();
        assert_eq!(
            (clients.names(), clients.owners()),
            (&["ann".to_string(), "bob".to_string()][..], &[0, 1, 0][..])
        );
        assert!(data.test.is_empty() && own.checksums["data"].len() == 64);
    }
}

#[test]
fn labels_with_fractions_are_numbers() {
    let text = "x,y\n1,0.5\n2,1\n";
    let own = |loss, text| OwnDataParams { client: None, loss, ..csv(text) }.load();
    let data = own(Loss::Auto, text).unwrap().data;
    assert_eq!(*table(&data.train).labels(), Labels::Numbers(vec![0.5, 1.0].into()));
    let data = own(Loss::CrossEntropy, text).unwrap().data;
    assert_eq!(data.class_names, ["0.5", "1"]);
    let whole = "x,y\n1,10\n2,9\n";
    assert_eq!(own(Loss::Auto, whole).unwrap().data.class_names, ["9", "10"]);
    let data = own(Loss::Squared, whole).unwrap().data;
    assert_eq!(*table(&data.train).labels(), Labels::Numbers(vec![10.0, 9.0].into()));
}

#[test]
fn what_is_wrong_in_a_csv_is_named_with_its_line_and_column() {
    let cases = [
        ("who,a,label\nann,1,cat\nbob,,dog\n", "line 3, column a: \"\""),
        ("who,a,label\r\nann,1,cat\r\nbob,NaN,dog\r\n", "line 3, column a: \"NaN\""),
        ("who,a,label\nann,red,cat\n", "--ignore a leaves the column out"),
        ("who,a,label\nann,1,cat\nbob,2\n", "line 3: 2 values; expected 3"),
        ("who,a,label\n\"a\nnn\",1,cat\nbob,2,dog,x\n", "line 4: 4 values"),
        ("who,a,label\nann,1,cat\n,2,dog\n", "line 3: no client"),
        ("who,a,label\nann,1,cat\nbob,2,\n", "line 3: the label \"\""),
        ("who,a,kind\nann,1,cat\n", "--label COLUMN, one of who, a, kind"),
        ("whom,a,label\nann,1,cat\n", "did you mean whom?"),
        ("who,a,a,label\nann,1,2,cat\n", "two columns called \"a\""),
        ("who,label\nann,cat\n", "no features"),
        ("who,user,a,label\nann,1,2,cat\n", "--ignore user"),
        ("who,a,label\n", "no samples"),
        ("1,2,3\n4,5,6\n", "the names of the columns in the first line"),
        ("", "an empty file"),
    ];
    for (text, words) in cases {
        let error = error(&csv(text));
        assert!(error.contains(words) && error.contains("data.csv"), "{text:?}: {error}");
    }
    let ignore = OwnDataParams { ignore: vec!["c".into()], ..csv(CSV) };
    assert!(error(&ignore).contains("no column c (--ignore)"));
    let many = (0..300).map(|class| format!("ann,1,{class}\n")).collect::<Vec<_>>().concat();
    let error = error(&csv(&format!("who,a,label\n{many}")));
    assert!(error.contains("300 different labels") && error.contains("--loss squared"), "{error}");
}

#[test]
fn a_test_file_has_to_be_like_the_training_file() {
    let with = |text: &str| {
        let test = Some(write("test.csv", text.as_bytes()));
        OwnDataParams { test, ..csv(CSV) }
    };
    // Columns in another order, one more, and none that says who.
    let data = with("label,extra,b,a\ndog,x,1,2\n").load().unwrap().data;
    assert_eq!(table(&data.test).features(), [2.0, 1.0]);
    assert_eq!(data.test.class_labels(), Some(&[1][..]));
    let cases = [
        ("a,b,label\n1,2,cow\n", "line 2: the label cow"),
        ("a,c,label\n1,2,cat\n", "no column b"),
        ("who,a,b,label\nann,1,2,cat\neve,1,2,cat\n", "line 3: client eve"),
    ];
    for (text, words) in cases {
        let error = error(&with(text));
        assert!(error.contains(words) && error.contains("test.csv"), "{text:?}: {error}");
    }
    assert!(with("label,a,b\ncat,1,2\n").load().unwrap().checksums.contains_key("test"));
}

/// An array as NumPy stores it.
fn npy(kind: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    header += &" ".repeat(63 - (10 + header.len()) % 64);
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

/// An archive as NumPy writes it, deflated or not.
fn npz(arrays: &[(&str, Vec<u8>)], deflated: bool) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, array) in arrays {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(array).unwrap();
        let packed = if deflated { encoder.finish().unwrap() } else { array.clone() };
        let name = format!("{name}.npy");
        let offset = file.len() as u32;
        let mut common = vec![20, 0, 0, 0, if deflated { 8 } else { 0 }, 0, 0, 0, 0, 0];
        // The checksum of the archive is not looked at: that of the file is known to the run.
        common.extend([0; 4]);
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((array.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend([0, 0]);
        file.extend(name.as_bytes());
        file.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 12]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (begin, count) = (file.len() as u32, arrays.len() as u16);
    file.extend(&directory);
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    file.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(begin.to_le_bytes());
    file.extend([0, 0]);
    file
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn an_npz_has_pixels_numbers_and_clients() {
    // Two images of 2 x 3 pixels in three colours, as PyTorch has them.
    let pixels: Vec<u8> = (0..48).collect();
    let who: Vec<u8> = "ab".chars().flat_map(|who| (who as u32).to_le_bytes()).collect();
    let arrays = [
        ("x", npy("|u1", "2, 3, 4, 2", &pixels)),
        ("y", npy("<i4", "2,", &[7, 0, 0, 0, 3, 0, 0, 0])),
        ("who", npy("<U1", "2,", &who)),
    ];
    for deflated in [false, true] {
        let params = OwnDataParams {
            data: write("data.npz", &npz(&arrays, deflated)),
            client: Some("who".into()),
            ..OwnDataParams::default()
        };
        let data = params.load().unwrap().data;
        assert_eq!(images(&data.train).shape(), ImageShape::new(3, 4, 2));
        assert_eq!(images(&data.train).image(0)[..6], [0, 8, 16, 1, 9, 17]);
        assert_eq!(
            (data.class_names, data.clients.unwrap().names().len()),
            (vec!["3".to_string(), "7".to_string()], 2)
        );
    }
    let tables = [
        ("x_train", npy("<f4", "2, 2", &floats(&[1.0, 2.0, 3.0, 4.0]))),
        ("y_train", npy(">f8", "2,", &[0.5f64.to_be_bytes(), 2f64.to_be_bytes()].concat())),
        ("x_test", npy("<f4", "1, 2", &floats(&[5.0, 6.0]))),
        ("y_test", npy("<f4", "1,", &floats(&[0.5]))),
    ];
    let params =
        OwnDataParams { data: write("both.npz", &npz(&tables, true)), ..OwnDataParams::default() };
    let data = params.load().unwrap().data;
    assert_eq!(table(&data.test).features(), [5.0, 6.0]);
    assert_eq!(*table(&data.train).labels(), Labels::Numbers(vec![0.5, 2.0].into()));
}

#[test]
fn what_is_wrong_in_an_npz_is_named() {
    let x = || ("x", npy("<f4", "2, 1", &floats(&[1.0, 2.0])));
    let y = || ("y", npy("|u1", "2,", &[0, 1]));
    let error_of = |file: &[u8]| {
        error(&OwnDataParams { data: write("bad.npz", file), ..OwnDataParams::default() })
    };
    let cases = [
        (vec![x()], "an array of labels"),
        (vec![y()], "an array of samples"),
        (vec![x(), ("y", npy("|u1", "3,", &[0, 1, 2]))], "one entry for each of 2 samples"),
        (
            vec![("x", npy("<f4", "2, 1", &floats(&[1.0, f32::NAN]))), y()],
            "row 1 (from 0), feature 0: NaN",
        ),
        (vec![("x", npy("|O", "2, 1", &[0; 16])), y()], "array x: found an array of \"|O\""),
        (vec![("x", npy("<f4", "9, 1", &floats(&[1.0]))), y()], "[9, 1] entries of 4 bytes"),
        (vec![("x", npy("<f4", "99999999999, 99999999999", &[])), y()], "as its header says"),
    ];
    for (arrays, words) in cases {
        let error =
            error_of(&npz(&arrays, true)).replace("array x: an array", "array x: found an array");
        assert!(error.contains(words) && error.contains("bad.npz"), "{words}: {error}");
    }
    // Cut anywhere, it is an error and never a panic; the last two bytes are the length of a comment.
    let whole = npz(&[x(), y()], true);
    for cut in 0..whole.len() - 2 {
        assert!(error_of(&whole[..cut]).contains("bad.npz"));
    }
}

fn idx(sides: &[u32], values: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sides.len() as u8];
    file.extend(sides.iter().flat_map(|side| side.to_be_bytes()));
    file.extend(values);
    file
}

#[test]
fn idx_files_find_their_labels() {
    let data = write("train-images-idx3-ubyte", &idx(&[2, 1, 2], &[1, 2, 3, 4]));
    let params = OwnDataParams { data: data.clone(), ..OwnDataParams::default() };
    assert!(error(&params).contains("beside which there is train-labels-idx1-ubyte"));
    let beside = |name: &str, bytes: &[u8]| fs::write(data.with_file_name(name), bytes).unwrap();
    beside("train-labels-idx1-ubyte", &idx(&[3], &[0, 1, 1]));
    assert!(error(&params).contains("2, one for each image"));
    beside("train-labels-idx1-ubyte", &idx(&[2], &[0, 1]));
    beside("who.txt", b"ann\nbob\n");
    let client = Some(data.with_file_name("who.txt").display().to_string());
    let own = OwnDataParams { client, ..params }.load().unwrap();
    assert_eq!(images(&own.data.train).image(1), [3, 4]);
    assert_eq!(own.data.clients.unwrap().names(), ["ann", "bob"]);
    assert_eq!(own.checksums.keys().collect::<Vec<_>>(), ["client", "data", "label"]);
}

fn picture(path: &Path, side: u32, pixels: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
}

#[test]
fn a_folder_of_pictures_has_classes_and_perhaps_clients() {
    let here = TempDir::new().unwrap();
    for (number, file) in (0..).zip(["cat/1.png", "cat/2.png", "dog/1.png"]) {
        picture(&here.path().join("plain").join(file), 2, &[number; 4]);
        picture(&here.path().join("clients/ann").join(file), 2, &[number; 4]);
    }
    picture(&here.path().join("clients/bob/cat/9.png"), 2, &[7; 4]);
    let params = |name: &str, client: Option<&str>| OwnDataParams {
        data: here.path().join(name),
        client: client.map(str::to_string),
        ..OwnDataParams::default()
    };
    let own = params("plain", None).load().unwrap();
    assert_eq!(own.data.class_names, ["cat", "dog"]);
    assert_eq!(images(&own.data.train).pixels(), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    let clients = params("clients", Some("folder")).load().unwrap().data.clients.unwrap();
    assert_eq!((clients.names().len(), clients.sizes()), (2, vec![3, 1]));
    assert!(error(&params("clients", None)).contains("--client folder"));

    picture(&here.path().join("plain/dog/3.png"), 3, &[0; 9]);
    let other_size = error(&params("plain", None));
    assert!(other_size.contains("dog/3.png") && other_size.contains("2x2x1"), "{other_size}");
    fs::write(here.path().join("plain/dog/3.png"), "no picture").unwrap();
    assert!(error(&params("plain", None)).contains("a complete PNG or JPEG picture"));
    fs::remove_file(here.path().join("plain/dog/3.png")).unwrap();
    assert_eq!(params("plain", None).load().unwrap().checksums, own.checksums);
    fs::create_dir(here.path().join("clients/eve")).unwrap();
    assert!(error(&params("clients", Some("folder"))).contains("eve"));
}

/// The pictures of fixtures/README.md; the checksum of their pixels is the same on every machine.
#[test]
fn jpeg_pictures_have_the_same_pixels_everywhere() {
    let fixture = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/train/fixtures").join(name);
        fs::read(path).unwrap()
    };
    let here = TempDir::new().unwrap();
    let folder = here.path().join("pictures");
    let put = |class: &str, file: &str, bytes: &[u8]| {
        fs::create_dir_all(folder.join(class)).unwrap();
        fs::write(folder.join(class).join(file), bytes).unwrap();
    };
    let params = OwnDataParams { data: folder.clone(), ..OwnDataParams::default() };
    let colour = |row: usize, column: usize| {
        [20 + 12 * column as i32, 230 - 14 * row as i32, 60 + 6 * column as i32 + 5 * row as i32]
    };
    for (name, channels, tolerance, expected) in
        [("colours.jpg", 3, 16, 1_629_018_456), ("grey-progressive.jpg", 1, 4, 2_031_153_802)]
    {
        let bytes = fixture(name);
        // What a file is follows from its contents.
        put("first", "1.jpeg", &bytes);
        put("second", "2.png", &bytes);
        let own = params.load().unwrap();
        let pixels = images(&own.data.train).pixels();
        assert_eq!(pixels.len(), 2 * 11 * 13 * channels);
        let (one, other) = pixels.split_at(pixels.len() / 2);
        assert_eq!(one, other);
        // The loss of the format, and of colours that are stored at half the resolution.
        for (place, pixel) in one.chunks(channels).enumerate() {
            for (value, exact) in pixel.iter().zip(colour(place / 13, place % 13)) {
                assert!((i32::from(*value) - exact).abs() <= tolerance, "{name}, pixel {place}");
            }
        }
        assert_eq!(crc32c::crc32c(one), expected, "{name}");
        // A picture that is cut off anywhere is refused, and not filled up with grey.
        for length in [3, 40, bytes.len() / 2, bytes.len() - 20] {
            put("first", "1.jpeg", &bytes[..length]);
            let cut = error(&params);
            assert!(cut.contains("1.jpeg") && cut.contains("a complete PNG or JPEG"), "{cut}");
        }
    }
}

#[test]
fn other_formats_are_told_what_to_do() {
    let error_of = |name: &str, bytes: &[u8]| {
        error(&OwnDataParams { data: write(name, bytes), ..OwnDataParams::default() })
    };
    assert!(error_of("a.parquet", b"PAR1....").contains("a Parquet file that cannot be read"));
    assert!(error_of("a.npy", b"\x93NUMPY\x01").contains("numpy.savez"));
    assert!(error_of("a.xz", b"\xfd7zXZ\0").contains("xz -dk"));
    assert!(error_of("a.bin", &[1, 0, 2]).contains("another format"));
    let nowhere = OwnDataParams { data: "nowhere.csv".into(), ..OwnDataParams::default() };
    assert!(error(&nowhere).contains("nowhere.csv: found no such file"));
}

fn natural(owners: &[&str]) -> Data {
    let features: Vec<f32> = (0..owners.len()).map(|row| row as f32).collect();
    let labels = Labels::Numbers(features.iter().map(|x| 2.0 * x - 1.0).collect());
    let train = Table::new(ImageShape::flat(1), features, labels).unwrap();
    let test = SampleSet::Table(train.clone());
    let clients = Some(NaturalClients::new(owners));
    Data { clients, ..Data::new("made-up", SampleSet::Table(train), test) }
}

#[test]
fn clients_of_the_data_have_their_own_samples() {
    let data = natural(&["b", "a", "c", "b", "a", "b"]);
    let params = |clients, seed| PartitionParams {
        distribution: PartitionDistribution::Clients,
        clients,
        seed: Seed(seed),
        ..PartitionParams::default()
    };
    let all = params(3, 0).check(&data).unwrap().split();
    assert_eq!((all.names().join(""), all.sizes()), ("abc".to_string(), vec![2, 3, 1]));
    assert_eq!((all.of(0), all.of(1), all.of(2)), (&[1, 4][..], &[0, 3, 5][..], &[2][..]));
    assert_eq!(params(3, 9).check(&data).unwrap().split(), all);
    // Some of them, drawn from the seed: all pairs occur.
    let pairs = (0..30).map(|seed| params(2, seed).check(&data).unwrap().split().names().join(""));
    let mut pairs: Vec<String> = pairs.collect();
    pairs.sort();
    pairs.dedup();
    assert_eq!(pairs, ["ab", "ac", "bc"]);
    let field =
        |params: PartitionParams, data: &Data| params.check(data).unwrap_err().field().to_string();
    assert_eq!(field(params(4, 0), &data), "clients");
    let sizes = SizeDistribution::Zipf(2.0);
    assert_eq!(field(PartitionParams { sizes, ..params(3, 0) }, &data), "sizes");
    assert_eq!(field(params(3, 0), &Data { clients: None, ..data.clone() }), "partition");
    let shards = PartitionDistribution::Shards(1);
    assert_eq!(field(PartitionParams { distribution: shards, ..params(3, 0) }, &data), "partition");
}

#[test]
fn audiomnist_has_its_speakers() {
    let here = TempDir::new().unwrap();
    let entry = CatalogueEntry::named("audiomnist").unwrap();
    let files = [
        ("images-idx3-ubyte", idx(&[30_000, 28, 28], &vec![0; 30_000 * 784])),
        (
            "labels-idx1-ubyte",
            idx(&[30_000], &(0..30_000).map(|i| (i % 10) as u8).collect::<Vec<_>>()),
        ),
        (
            "speakers-idx1-ubyte",
            idx(&[30_000], &(0..30_000).map(|i| (i / 500 + 1) as u8).collect::<Vec<_>>()),
        ),
    ];
    for (name, bytes) in files {
        fs::write(here.path().join(name), bytes).unwrap();
    }
    let set = entry.load(&[here.path().to_path_buf()]).unwrap();
    // The speakers are those of the real set, and the rest is made up.
    assert_eq!((set.train.len(), set.test.len(), set.altered.len()), (30_000, 0, 2));
    let data = Data::from(set).hold_out(0.2, Seed(0)).unwrap();
    assert_eq!((data.test.len(), data.clients.unwrap().sizes()), (6_000, vec![400; 60]));
}

/// Steps of SGD on bytes and on the numbers that they stand for give the same bits.
#[test]
fn numbers_train_like_pixels() {
    let shape = ImageShape::new(2, 4, 4);
    let bytes: Vec<u8> = (0..12 * 32).map(|i: u32| (i * 97 % 251) as u8).collect();
    let classes: Vec<u8> = (0..12).map(|i| i % 3).collect();
    let pictures = Images::new(shape, 3, bytes.clone(), classes.clone()).unwrap();
    let pixels = PixelNormalization::new(PixelScale::Unit, &pictures);
    let floats: Vec<f32> = bytes.iter().map(|&byte| pixels.of(0)[usize::from(byte)]).collect();
    let labels = Labels::Classes { classes: 3, labels: classes.into() };
    let numbers = Table::new(shape, floats, labels).unwrap();
    let spec = ModelSpec::named("mlp:7", shape, 3).unwrap();
    let trainer = Trainer::new(Model::new(spec).unwrap());
    let params = LocalTrainingParams {
        batch: 5,
        work: LocalWork::Epochs(3),
        ..LocalTrainingParams::default()
    };
    let training = params.check().unwrap();
    let play = |samples| {
        let task = LocalTask { training: &training, samples, seed: Seed(1), round: 0, client: 2 };
        let mut worker = trainer.worker();
        let mut parameters = trainer.initial(Seed(1));
        let report = worker.train(&task, &mut parameters).unwrap();
        let evaluation = worker.evaluate(&parameters, &samples).unwrap();
        (report, parameters, evaluation)
    };
    assert_eq!(play(Samples::all(&pictures, &pixels)), play(Samples::of_table(&numbers, None)));
}

#[test]
fn a_linear_model_finds_the_line() {
    let owners: Vec<String> = (0..40).map(|row| (row % 4).to_string()).collect();
    let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
    let data = natural(&owners).standardised();
    let params = LocalTrainingParams {
        work: LocalWork::Epochs(60),
        batch: 10,
        learning_rate: 0.1,
        ..LocalTrainingParams::default()
    };
    let task = NativeTask::named(data, "linear", params.check().unwrap()).unwrap();
    let task = task.with_partition(PartitionDistribution::Clients, SizeDistribution::Equal);
    let key = PartitionKey { seed: Seed(0), clients: 4 };
    assert_eq!((task.metric(), task.sizes(key).unwrap()), (Metric::Loss, vec![10; 4]));
    assert!(task.client_labels(key).unwrap().is_none());
    assert_eq!(task.describe().label_scale.map(|(shift, _)| shift), Some(38.0));
    let mut parameters = task.initial(Seed(0)).unwrap();
    task.train(&TrainJob::round(key, 0, 1), &mut parameters).unwrap();
    // Both are standardised, so that the line is y = x; without noise SGD comes as near as its last steps are small.
    assert!((parameters[0] - 1.0).abs() < 1e-4 && parameters[1].abs() < 1e-4, "{parameters:?}");
    let evaluation = task.evaluate(&parameters, 0).unwrap();
    assert!(evaluation.loss() < 1e-6 && evaluation.accuracy().is_nan());
    let wrong = NativeTask::named(natural(&owners), "mlp:3", params.check().unwrap()).unwrap();
    assert!(wrong.client_loss(key, 0, &parameters).is_err());
}
