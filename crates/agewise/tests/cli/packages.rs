//! What a registry would get: every crate says what it is, and a package has all files that it is compiled from.
//! `release/check` packs and compiles each of them, which takes too long here.

use crate::common::{Outcome, root};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The categories that we use, of those that the registry of crates has: it refuses others.
const CATEGORIES: [&str; 9] = [
    "algorithms",
    "command-line-utilities",
    "cryptography",
    "hardware-support",
    "mathematics",
    "network-programming",
    "science",
    "simulation",
    "visualization",
];

/// The packages of the workspace that are published, as `cargo metadata` tells it.
fn published() -> Outcome<Vec<Value>> {
    let metadata = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()?;
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    // `publish = false` is an empty list of registries.
    Ok(packages.iter().filter(|package| package["publish"].is_null()).cloned().collect())
}

fn folder_of(package: &Value) -> Outcome<PathBuf> {
    let manifest = Path::new(package["manifest_path"].as_str().ok_or("no manifest")?);
    Ok(manifest.parent().ok_or("a manifest without a folder")?.to_path_buf())
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn every_package_says_what_it_is() -> Outcome {
    let packages = published()?;
    assert!(packages.len() >= 9, "only {} packages", packages.len());
    for package in &packages {
        let name = package["name"].as_str().ok_or("no name")?;
        let folder = folder_of(package)?;
        let description = package["description"].as_str().unwrap_or_default();
        assert!((20..200).contains(&description.len()), "{name}: {description:?}");
        let keywords = texts(&package["keywords"]);
        assert!((1..=5).contains(&keywords.len()), "{name}: the registry takes five keywords");
        assert!(keywords.iter().all(|word| word.len() <= 20), "{name}: {keywords:?}");
        let categories = texts(&package["categories"]);
        assert!((1..=5).contains(&categories.len()), "{name}: {categories:?}");
        for category in categories {
            assert!(CATEGORIES.contains(&category), "{name}: {category}");
        }
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{name}");
        assert!(package["rust_version"].is_string(), "{name}");
        assert!(!texts(&package["authors"]).is_empty(), "{name}");
        let readme = folder.join(package["readme"].as_str().ok_or("no readme")?);
        let readme = fs::read_to_string(readme)?;
        assert!(readme.starts_with(&format!("# {name}\n")) && readme.len() > 300, "{name}");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert_eq!(
                fs::read(folder.join(licence))?,
                fs::read(root().join(licence))?,
                "{name}: {licence}"
            );
        }
    }
    Ok(())
}

/// A registry knows no folders: what a package needs of ours needs a version, but for tests, which are not published.
#[test]
fn every_dependency_on_ours_has_a_version() -> Outcome {
    for package in published()? {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if !dependency["path"].is_null() && dependency["kind"] != "dev" {
                let (from, to) = (&package["name"], &dependency["name"]);
                assert_eq!(
                    dependency["req"],
                    format!("^{}", env!("CARGO_PKG_VERSION")),
                    "{from}, {to}"
                );
            }
        }
    }
    Ok(())
}

/// The files below a folder whose name ends with this.
fn sources(folder: &Path, end: &str) -> Outcome<Vec<PathBuf>> {
    let mut folders = vec![folder.to_path_buf()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// A package is compiled without the repository around it, so a file that is compiled in lies in the package. What only the
/// tests of the docs include is not compiled there.
#[test]
fn no_source_includes_a_file_of_another_place() -> Outcome {
    let mut found = 0;
    for package in published()? {
        let folder = folder_of(&package)?;
        for source in sources(&folder.join("src"), ".rs")? {
            let text =
                fs::read_to_string(&source)?.replace("#[cfg(doctest)]\n#[doc = include_str!", "");
            let calls = ["include_str!(\"", "include_bytes!(\""];
            for path in calls.iter().flat_map(|call| text.split(call).skip(1)) {
                let path = path.split('"').next().unwrap_or_default();
                // Without following links: what a link names is packed in its place.
                let mut place = source.parent().ok_or("a source without a folder")?.to_path_buf();
                for part in Path::new(path) {
                    if part == ".." {
                        place.pop();
                    } else {
                        place.push(part);
                    }
                }
                assert!(place.starts_with(&folder), "{}: {path}", source.display());
                assert!(place.is_file(), "{}: {path}", source.display());
                found += 1;
            }
        }
    }
    assert!(found > 10, "only {found} files are compiled in");
    Ok(())
}
