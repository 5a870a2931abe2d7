//! The files of the container fit the program. `python/tests/test_container.py` has what can be said of the compose file, and
//! `release/container-check` builds and runs all of it where Docker is.

use crate::common::{Outcome, root};
use agewise_server::CoordinatorParams;
use std::fs;
use std::process::Command;

#[test]
fn the_coordinator_of_the_container_has_a_configuration_that_works() -> Outcome {
    let text = fs::read_to_string(root().join("container/coordinator.toml"))?;
    let params: CoordinatorParams = toml::from_str(&text)?;
    // A container that keeps its state elsewhere loses it.
    assert!(params.state.starts_with("/data"), "{}", params.state.display());
    assert!(params.tls.certificate.starts_with("/data") && params.tls.key.starts_with("/data"));
    assert!(params.access.tokens, "the port is open to other containers");
    params.check()?;
    Ok(())
}

/// The words of a JSON array behind an instruction of the Dockerfile.
fn words(line: &str) -> Outcome<Vec<String>> {
    let list = line.find('[').map(|start| &line[start..]).ok_or("no list of words")?;
    Ok(serde_json::from_str(list)?)
}

/// Every command that the image runs on its own has flags that the program knows.
#[test]
fn the_commands_of_the_image_are_commands_of_the_program() -> Outcome {
    let dockerfile = fs::read_to_string(root().join("container/Dockerfile"))?;
    let mut tried = 0;
    for line in dockerfile.lines().filter(|line| line.trim_start().starts_with("CMD [")) {
        let mut words = words(line)?;
        words.retain(|word| word != "/agewise");
        if words == ["--help"] {
            continue;
        }
        let output = Command::new(env!("CARGO_BIN_EXE_agewise"))
            .args(&words)
            .arg("--and-no-more")
            .output()?;
        let said = String::from_utf8(output.stderr)?;
        // Flags are read in order: the first one that is not known is named.
        assert!(said.contains("unexpected argument '--and-no-more'"), "{words:?}: {said}");
        tried += 1;
    }
    assert_eq!(tried, 2, "the coordinator and its health check");
    let entry = dockerfile.lines().find(|line| line.starts_with("ENTRYPOINT")).ok_or("no entry")?;
    assert_eq!(words(entry)?, ["/agewise"]);
    assert!(dockerfile.contains("\nUSER 10001:10001\n"), "not root");
    Ok(())
}
