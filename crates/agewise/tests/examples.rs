//! `docs/extending.md`, which is run as a test, shows the examples as they are.

use std::fs;
use std::path::Path;

#[test]
fn the_docs_show_every_example_and_each_is_short() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/extending.md")).unwrap();
    let mut shown = 0;
    for entry in fs::read_dir(here.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let example = fs::read_to_string(&path).unwrap();
        assert!(page.contains(&example), "docs/extending.md does not show {}", path.display());
        assert!(example.lines().count() < 80, "{} is long", path.display());
        shown += 1;
    }
    assert!(shown >= 7, "only {shown} examples were found");
}
