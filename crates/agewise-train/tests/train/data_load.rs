//! Data sets from files: small ones in the true formats, and the real ones where `AGEWISE_DATA` points to them.

use agewise_train::data::{
    CATALOGUE, CatalogueEntry, Checksum, ContentFile, DataError, DatasetFiles, Holds, ImageShape,
    Integrity, Layout, PixelNormalization, PixelScale, PublishedFile, Split, digest_of,
    embedded_digits, load,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// An empty folder for one test, inside the build folder.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-load-{name}"));
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx(dimensions: &[u32], values: &[u8]) -> Vec<u8> {
    let sizes = dimensions.iter().flat_map(|size| size.to_be_bytes());
    [0, 0, 8, dimensions.len() as u8].into_iter().chain(sizes).chain(values.to_vec()).collect()
}

fn checksum(bytes: &[u8]) -> Checksum {
    Checksum(Box::leak(digest_of(bytes).unwrap().into_boxed_str()))
}

/// Four small idx files by name: 3 training and 2 test images of 2 x 2 pixels.
fn small_files() -> [(&'static str, Vec<u8>); 4] {
    [
        ("train-images-idx3-ubyte", idx(&[3, 2, 2], &(0..12).collect::<Vec<u8>>())),
        ("train-labels-idx1-ubyte", idx(&[3], &[0, 1, 9])),
        ("t10k-images-idx3-ubyte", idx(&[2, 2, 2], &[5; 8])),
        ("t10k-labels-idx1-ubyte", idx(&[2], &[3, 4])),
    ]
}

/// A data set like MNIST, but small.
fn small() -> CatalogueEntry {
    let content = small_files().map(|(name, bytes)| ContentFile {
        name,
        split: if name.starts_with("train") { Split::Train } else { Split::Test },
        holds: if name.contains("images") { Holds::Pixels } else { Holds::Labels },
        images: if name.starts_with("train") { 3 } else { 2 },
        bytes: bytes.len() as u64,
        checksum: Some(checksum(&bytes)),
    });
    CatalogueEntry {
        name: "small",
        shape: ImageShape::new(1, 2, 2),
        classes: 10,
        layout: Layout::Idx,
        content: Box::leak(Box::new(content)),
        published: &[],
        mirrors: &[],
        subfolders: &["small", "SMALL/raw"],
        licence: "none",
        source: "this test",
    }
}

#[test]
fn files_are_found_plain_or_packed_in_any_known_place() {
    let here = folder("places");
    for (number, place) in ["", "small", "SMALL/raw"].into_iter().enumerate() {
        for packed in [false, true] {
            let root = here.join(format!("{number}-{packed}"));
            for (name, bytes) in small_files() {
                let (name, bytes) = if packed {
                    (format!("{name}.gz"), gzip(&bytes))
                } else {
                    (name.into(), bytes)
                };
                write(&root.join(place).join(name), &bytes);
            }
            let elsewhere = here.join("not-there");
            let found = small().find_in(&[elsewhere.clone(), root.clone()]).unwrap();
            let set = small().load_found(&found).unwrap();
            assert_eq!((set.train.labels(), set.test.labels()), (&[0, 1, 9][..], &[3, 4][..]));
            assert_eq!(set.train.image(1), [4, 5, 6, 7]);
            let verdicts = small().verify(&found).unwrap();
            assert_eq!(verdicts.len(), 4);
            assert!(verdicts.iter().all(|(_, verdict)| *verdict == Integrity::SameContents));
            assert!(set.altered.is_empty());
        }
    }
}

#[test]
fn a_missing_set_says_where_it_was_looked_for() {
    let here = folder("missing");
    write(&here.join("b/train-labels-idx1-ubyte"), &[]);
    let error = load("mnist", &[here.join("a"), here.join("b")]).unwrap_err();
    assert!(matches!(error, DataError::Missing { .. }));
    let text = error.to_string();
    assert!(text.contains(&here.join("a").display().to_string()), "{text}");
    assert!(text.contains("but not ") && text.contains("b/train-images-idx3-ubyte"), "{text}");
    assert!(text.contains("agewise data fetch mnist") && text.contains("--data-dir"), "{text}");
    let unknown = load("minst", &[]).unwrap_err().to_string();
    assert!(unknown.contains("dataset = minst") && unknown.contains("fashion-mnist"), "{unknown}");
}

#[test]
fn an_altered_file_is_loaded_and_named() {
    let here = folder("altered");
    let files = small_files();
    for (name, bytes) in &files {
        write(&here.join(name), bytes);
    }
    let labels = idx(&[3], &[0, 1, 8]);
    write(&here.join(files[1].0), &labels);
    let set = small().load(std::slice::from_ref(&here)).unwrap();
    assert_eq!((set.train.labels(), set.altered.len()), (&[0, 1, 8][..], 1));
    let text = set.altered[0].to_string();
    let path = here.join(files[1].0).display().to_string();
    let (found, expected) = (digest_of(&labels[..]).unwrap(), checksum(&files[1].1));
    for part in [path.as_str(), found.as_str(), expected.0, "`agewise data fetch small`"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_bad_file_is_named() {
    let here = folder("bad");
    let files = small_files();
    let spoil = |which: usize, bytes: &[u8]| {
        for (name, bytes) in &files {
            write(&here.join(name), bytes);
        }
        write(&here.join(files[which].0), bytes);
        let found = small().find_in(std::slice::from_ref(&here)).unwrap();
        let altered = small().altered(&found).unwrap();
        assert_eq!(altered[0].path, here.join(files[which].0));
        let verdict = small().verify(&found).unwrap().swap_remove(which).1;
        assert!(matches!(verdict, Integrity::Wrong { .. }), "{verdict:?}");
        small().load_found(&found).unwrap_err().to_string()
    };
    let name = |which: usize| here.join(files[which].0).display().to_string();
    let empty = spoil(0, &[]);
    assert!(empty.starts_with(&name(0)) && empty.contains("ends within its header"), "{empty}");
    let label = spoil(1, &idx(&[3], &[0, 1, 10]));
    assert!(label.starts_with(&name(1)) && label.contains("labels[2] = 10"), "{label}");
    let other = spoil(3, &idx(&[3], &[0, 1, 2]));
    assert!(other.starts_with(&name(3)) && other.contains("announces 3 values"), "{other}");
    let cut = spoil(2, &gzip(&files[2].1)[..20]);
    assert!(cut.starts_with(&name(2)) && cut.contains("cannot be read"), "{cut}");
}

/// A data set like CIFAR, with two small training batches.
fn small_cifar(archive: &[u8]) -> (CatalogueEntry, Vec<(&'static str, Vec<u8>)>) {
    let batch = |label: u8, pixel: u8| [vec![label], vec![pixel; 3072]].concat();
    let files = vec![
        ("data_batch_1.bin", [batch(1, 10), batch(2, 20)].concat()),
        ("data_batch_2.bin", [batch(3, 30), batch(4, 40)].concat()),
        ("test_batch.bin", batch(5, 50)),
    ];
    let content: Vec<ContentFile> = files
        .iter()
        .map(|(name, bytes)| ContentFile {
            name,
            split: if name.starts_with("data") { Split::Train } else { Split::Test },
            holds: Holds::Records,
            images: bytes.len() as u32 / 3073,
            bytes: bytes.len() as u64,
            checksum: None,
        })
        .collect();
    let published = PublishedFile {
        name: "small-binary.tar.gz",
        bytes: archive.len() as u64,
        checksum: checksum(archive),
    };
    let entry = CatalogueEntry {
        name: "small-cifar",
        shape: ImageShape::new(3, 32, 32),
        layout: Layout::Cifar,
        content: content.leak(),
        published: vec![published].leak(),
        subfolders: &["small-batches-bin"],
        ..small()
    };
    (entry, files)
}

fn tar_gz(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("small-batches-bin/{name}"), &bytes[..]).unwrap();
    }
    gzip(&builder.into_inner().unwrap())
}

#[test]
fn cifar_is_read_from_files_and_from_the_archive() {
    let here = folder("cifar");
    let (_, files) = small_cifar(&[]);
    let mut members = vec![("batches.meta.txt", b"airplane".to_vec())];
    // The order in the archive is not the order of the batches.
    members.extend(files.iter().rev().cloned());
    let archive = tar_gz(&members);
    let (entry, files) = small_cifar(&archive);

    write(&here.join("packed/small-binary.tar.gz"), &archive);
    let found = entry.find_in(&[here.join("packed")]).unwrap();
    assert_eq!(found, DatasetFiles::Archive(here.join("packed/small-binary.tar.gz")));
    assert_eq!(entry.verify(&found).unwrap()[0].1, Integrity::Published);
    let packed = entry.load_found(&found).unwrap();
    assert_eq!(packed.train.labels(), [1, 2, 3, 4]);
    assert_eq!((packed.train.image(2)[0], packed.test.image(0)[3071]), (30, 50));

    for (name, bytes) in &files {
        write(&here.join("plain/small-batches-bin").join(name), bytes);
    }
    let plain = entry.load(&[here.join("plain")]).unwrap();
    assert_eq!(plain.train.pixels(), packed.train.pixels());
    assert_eq!(plain.test.labels(), packed.test.labels());
}

#[test]
fn bad_archives_are_named() {
    let here = folder("bad-archive");
    let path = here.join("small-binary.tar.gz");
    let (entry, files) = small_cifar(&[]);
    let flaw = |bytes: &[u8]| {
        write(&path, bytes);
        let found = entry.find_in(std::slice::from_ref(&here)).unwrap();
        assert!(matches!(
            entry.verify(&found).unwrap()[0].1,
            Integrity::Published | Integrity::Wrong { .. }
        ));
        let error = entry.load_found(&found).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        error
    };
    assert!(flaw(&[]).contains("an archive without data_batch_1.bin"));
    assert!(flaw(b"not an archive at all").contains("cannot be read"));
    let whole = tar_gz(&files);
    assert!(flaw(&whole[..whole.len() / 2]).contains("cannot be read"));
    assert!(flaw(&tar_gz(&files[1..])).contains("without data_batch_1.bin"));
    let mut short = files.clone();
    short[1].1.pop();
    assert!(flaw(&tar_gz(&short)).contains("data_batch_2.bin: found 6145 bytes"));
    // 64 MB of zeros, in 64 kB: read no further than what a right archive can hold.
    let bomb = tar_gz(&[("bomb", vec![0; 64 << 20])]);
    assert!(flaw(&bomb).contains("expected"), "a bomb");
}

#[test]
fn digits_are_embedded_and_balanced() {
    let digits = embedded_digits().unwrap();
    assert_eq!((digits.train.len(), digits.test.len()), (6_000, 1_000));
    assert_eq!(digits.train.class_counts(), [600; 10]);
    assert_eq!(digits.test.class_counts(), [100; 10]);
    // The first labels of MNIST.
    assert_eq!(digits.train.labels()[..8], [5, 0, 4, 1, 9, 2, 1, 3]);
    let table = PixelNormalization::new(PixelScale::Standardised, &digits.train);
    assert!((table.means()[0] - 0.1307).abs() < 0.005, "{:?}", table.means());
    assert!((table.deviations()[0] - 0.3081).abs() < 0.005, "{:?}", table.deviations());
    let entry = CatalogueEntry::named("digits").unwrap();
    let verdicts = entry.verify(&DatasetFiles::Embedded).unwrap();
    assert!(
        verdicts.iter().all(|(_, verdict)| *verdict == Integrity::SameContents),
        "{verdicts:?}"
    );
    let again = load("digits", &[]).unwrap();
    assert_eq!((again.name.as_str(), again.train.len()), ("digits", 6_000));
}

#[test]
fn the_catalogue_is_sound() {
    for entry in CATALOGUE {
        let sums = entry.content.iter().filter_map(|file| file.checksum);
        let all = sums.chain(entry.published.iter().map(|file| file.checksum));
        for Checksum(text) in all {
            assert!(text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
            assert_eq!(text.to_lowercase(), text);
        }
        assert!(entry.mirrors.iter().all(|url| url.ends_with('/')));
        // What is not inside the program is published, but for the pictures that were made of AudioMNIST.
        let not_published = entry.layout == Layout::Embedded || entry.name == "audiomnist";
        assert_eq!(entry.published.is_empty(), not_published);
        let expected = if entry.name == "digits" { 6_000 } else { entry.images(Split::Train) };
        assert_eq!(entry.images(Split::Train), expected);
    }
}

/// The real data sets: right files, right images, and nobody takes MNIST for Fashion-MNIST.
#[test]
fn real_data_is_loaded_where_it_is() {
    let Some(folder) = env::var_os("AGEWISE_DATA") else {
        println!("skipped: AGEWISE_DATA is not set");
        return;
    };
    let folders = [PathBuf::from(folder)];
    for entry in CATALOGUE {
        match entry.find_in(&folders) {
            Ok(found) => {
                let set = entry.load_found(&found).unwrap();
                assert_eq!(set.train.len(), entry.images(Split::Train) as usize);
                assert_eq!(set.test.len(), entry.images(Split::Test) as usize);
                for (path, verdict) in entry.verify(&found).unwrap() {
                    assert!(!matches!(verdict, Integrity::Wrong { .. }), "{path:?}: {verdict:?}");
                }
                let table = PixelNormalization::new(PixelScale::Standardised, &set.train);
                println!("{}: {:?} {:?}", entry.name, table.means(), table.deviations());
            }
            Err(DataError::Missing { name, .. }) => println!("skipped: {name} is not there"),
            Err(error) => panic!("{error}"),
        }
    }
}
