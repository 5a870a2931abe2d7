//! Links from a page to the files of a run's folder.

use agewise_experiment::run_dir::{CONFIG, FIGURES, MODELS, PROVENANCE, REPORT, SUMMARY, TIMING};
use agewise_plot::Link;
use std::path::PathBuf;

/// The folder of a run, as a page sees it.
#[derive(Debug, Clone)]
pub struct RunFiles {
    folder: PathBuf,
    from_page: String,
}

/// What a folder has beside figures and models, with what it is.
const FILES: [(&str, &str); 8] = [
    (CONFIG, "configuration"),
    (SUMMARY, "all figures as JSON"),
    ("rounds.csv", "rounds"),
    ("clients.csv", "clients"),
    ("intervals.csv", "waits"),
    ("windows.csv", "windows"),
    (TIMING, "timing"),
    (PROVENANCE, "provenance"),
];

impl RunFiles {
    /// A folder, and the way to it from the page: with slashes, and empty where the page is in the folder.
    pub fn new(folder: impl Into<PathBuf>, from_page: impl Into<String>) -> Self {
        let mut from_page = from_page.into();
        if !from_page.is_empty() && !from_page.ends_with('/') {
            from_page.push('/');
        }
        Self { folder: folder.into(), from_page }
    }

    fn link(&self, text: impl Into<String>, name: &str) -> Option<Link> {
        let exists = self.folder.join(name).is_file();
        exists.then(|| Link::new(text, format!("{}{name}", self.from_page)))
    }

    /// The tables, the configuration and the models that are there.
    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        if !self.from_page.is_empty() {
            links.extend(self.link("report of this run", REPORT));
        }
        links.extend(
            FILES.iter().filter_map(|(name, what)| self.link(format!("{what} ({name})"), name)),
        );
        let models = std::fs::read_dir(self.folder.join(MODELS)).into_iter().flatten().flatten();
        let mut models: Vec<String> =
            models.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        models.retain(|name| name.ends_with(".safetensors"));
        models.sort();
        let model = |name: &String| {
            let policy = name.trim_end_matches(".safetensors");
            self.link(format!("model of {policy}"), &format!("{MODELS}/{name}"))
        };
        links.extend(models.iter().filter_map(model));
        links
    }

    /// The files of a figure.
    pub(crate) fn figure(&self, name: &str) -> Vec<Link> {
        let link = |end: &str| self.link(end.to_uppercase(), &format!("{FIGURES}/{name}.{end}"));
        ["svg", "png"].into_iter().filter_map(link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_there_are_linked() {
        let folder = std::env::temp_dir().join(format!("agewise-files-{}", std::process::id()));
        std::fs::create_dir_all(folder.join(MODELS)).unwrap();
        for name in [CONFIG, "rounds.csv", "models/random.safetensors", "models/other.txt"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let files = RunFiles::new(&folder, "../run");
        let paths: Vec<String> = files.links().into_iter().map(|link| link.path).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            paths,
            ["../run/config.toml", "../run/rounds.csv", "../run/models/random.safetensors"]
        );
        assert!(files.figure("load").is_empty());
    }
}
