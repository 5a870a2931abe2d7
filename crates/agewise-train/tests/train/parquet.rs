//! Parquet files as other programs write them (`fixtures/README.md` says how), and damaged ones.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

use agewise_train::data::{Loss, OwnData, OwnDataParams, SampleSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/train/fixtures").join(name)
}

fn params(name: &str, label: &str, client: Option<&str>, ignore: &[&str]) -> OwnDataParams {
    OwnDataParams {
        data: fixture(name),
        label: Some(label.to_string()),
        client: client.map(str::to_string),
        ignore: ignore.iter().map(ToString::to_string).collect(),
        ..OwnDataParams::default()
    }
}

fn features(own: &OwnData) -> Vec<f32> {
    match &own.data.train {
        SampleSet::Table(table) => table.features().to_vec(),
        SampleSet::Images(_) => Vec::new(),
    }
}

#[test]
fn a_table_of_pandas_has_features_classes_and_clients() {
    // Small unsigned numbers, floats, decimals and flags are features; the index of pandas is none.
    let own = params("visits.parquet", "bought", Some("user"), &[]).load().unwrap();
    assert_eq!(own.data.feature_names, ["age", "visits", "price", "vip"]);
    let rows = [[31.0, 4.0, 20.5, 1.0], [54.0, 1.0, -3.25, 0.0], [31.0, 2.5, 7.0, 1.0]];
    assert_eq!(features(&own), rows.concat());
    assert_eq!(own.data.class_names, ["no", "yes"]);
    assert_eq!(own.data.train.class_labels(), Some(&[1, 0, 1][..]));
    let clients = own.data.clients.unwrap();
    assert_eq!(clients.names(), ["ann", "bob"]);
    assert_eq!((clients.owners(), own.checksums["data"].len()), (&[0, 1, 0][..], 64));
}

#[test]
fn groups_of_rows_are_one_table_and_test_samples_have_a_file() {
    let test = Some(fixture("groups.parquet"));
    let params = OwnDataParams { test, ..params("groups.parquet", "label", Some("user"), &[]) };
    let own = params.load().unwrap();
    assert_eq!(features(&own), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(own.data.class_names, ["1", "3"]);
    assert_eq!(own.data.clients.unwrap().owners(), [1, 0, 1, 0]);
    assert_eq!(own.data.test.class_labels(), Some(&[1, 0, 1, 0][..]));
}

#[test]
fn what_is_wrong_in_a_parquet_file_is_named_with_its_row_and_column() {
    let error = |client: Option<&str>, ignore: &[&str]| {
        params("odd.parquet", "y", client, ignore).load().unwrap_err().to_string()
    };
    let cases: [(Option<&str>, &[&str], &str); 4] = [
        (None, &["user", "day", "tags"], "row 1 (from 0), column a: no value"),
        (None, &["user", "a", "tags"], "column day: times or other values"),
        (None, &["user", "a", "day"], "column tags: lists or structures"),
        (Some("usr"), &[], "did you mean user?"),
    ];
    for (client, ignore, words) in cases {
        let error = error(client, ignore);
        assert!(error.contains(words) && error.contains("odd.parquet"), "{error}");
    }
    // The names of clients are exact, also beyond what a float can tell apart; the last row has none.
    let own = OwnDataParams {
        label: Some("user".into()),
        ..params("odd.parquet", "y", None, &["a", "day", "tags"])
    };
    let error = own.load().unwrap_err().to_string();
    assert!(error.contains("row 2 (from 0): the label \"\""), "{error}");
}

#[test]
fn damaged_parquet_files_are_errors() {
    let here = TempDir::new().unwrap();
    let path = here.path().join("damaged.parquet");
    let mut refused = 0;
    for (name, label, ignore) in [
        ("visits.parquet", "bought", &["user"][..]),
        ("groups.parquet", "label", &["user"]),
        ("odd.parquet", "y", &["user", "a", "day", "tags"]),
    ] {
        let whole = fs::read(fixture(name)).unwrap();
        let load = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let loss = Loss::CrossEntropy;
            OwnDataParams { data: path.clone(), loss, ..params(name, label, None, ignore) }.load()
        };
        for end in (0..whole.len()).step_by(97) {
            assert!(load(&whole[..end]).is_err());
        }
        for place in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] ^= change;
                refused += usize::from(load(&damaged).is_err());
            }
        }
    }
    // Many bytes are those of names and statistics that nothing depends on; that is fine.
    assert!(refused > 1_000, "{refused}");
}
