//! The report: one page that explains itself, about one experiment or several, of either kind.

use crate::figures::{ReportFigure, across};
use crate::section::{ReportError, ReportSection};
use crate::tables::{learning_overview, load_overview};
use agewise_experiment::run_dir::config_text;
use agewise_plot::{Link, Page};

const LEARNING: &str = "Which policy learns faster?";
const LOAD: &str = "How the policies load your clients";

/// The report of one experiment, or of several, one after the other.
pub fn page(sections: &[ReportSection<'_>]) -> Result<Page, ReportError> {
    if let [section] = sections {
        return page_of(section, &section.figures()?);
    }
    let training = sections.iter().filter(|section| section.trains()).count();
    let title = match training {
        0 => LOAD,
        count if count == sections.len() => LEARNING,
        _ => "Policies side by side",
    };
    let mut page = Page::new(title).lead(format!("{} experiments side by side.", sections.len()));
    page = page.choices(choices(sections)).heading("All experiments");
    for figure in across::figures(sections) {
        page = page.subheading(figure.heading).figure(&figure.figure, &figure.reading);
    }
    if let Some(table) = learning_overview(sections) {
        page = page.table(table);
    }
    page = page.table(load_overview(sections));
    for (number, section) in sections.iter().enumerate() {
        page = page.heading(section.name.as_str()).paragraph(section.lead());
        let key = format!("pair_{number}");
        page = section.fill(page, &section.figures()?, Page::subheading, &key)?;
    }
    Ok(page.footer(footer()))
}

/// The report of one experiment with these figures.
pub(crate) fn page_of(
    section: &ReportSection<'_>,
    figures: &[ReportFigure],
) -> Result<Page, ReportError> {
    let page = Page::new(if section.trains() { LEARNING } else { LOAD }).lead(section.lead());
    let page = page.choices(choices(std::slice::from_ref(section)));
    let page = section.fill(page, figures, Page::heading, "pair")?;
    Ok(page.footer(footer()))
}

/// Every variant of any section with its look.
fn choices(sections: &[ReportSection<'_>]) -> Vec<(String, usize)> {
    let mut choices: Vec<(String, usize)> = Vec::new();
    for (name, slot) in sections.iter().flat_map(ReportSection::styles) {
        if choices.iter().all(|(known, _)| known != name) {
            choices.push((name.to_string(), slot));
        }
    }
    choices
}

fn footer() -> String {
    format!("agewise {}", env!("CARGO_PKG_VERSION"))
}

impl ReportSection<'_> {
    /// Adds everything about the experiment. The key makes ids unlike those of other experiments in the page.
    fn fill(
        &self,
        page: Page,
        figures: &[ReportFigure],
        heading: fn(Page, &'static str) -> Page,
        key: &str,
    ) -> Result<Page, ReportError> {
        let mut page = page.units(self.units()?).key_figures(self.key_figures());
        let command = self.experiment().command();
        if self.summary.finished_runs < self.summary.runs {
            page = page.note(format!(
                "Not finished: {} of {} runs are at their end, and the tables count only those. Go on with agewise {command} \
                 --resume.",
                self.summary.finished_runs, self.summary.runs
            ));
        }
        page = heading(page, "Results").paragraph(self.main_finding());
        if let Some(text) = self.caution() {
            page = page.note(text);
        }
        if self.trains() {
            page = self.comparisons(heading(page, "Which differences are significant"), key);
        }
        let drawn = |page: Page, figure: &ReportFigure| {
            let files =
                self.files.as_ref().map_or_else(Vec::new, |files| files.figure(figure.name));
            let page = heading(page, figure.heading);
            page.figure_with_files(&figure.figure, &figure.reading, files)
        };
        // The first figure says most; the others follow the numbers that they are about.
        let (first, others) = figures.split_at(figures.len().min(1));
        page = first.iter().fold(page, drawn);
        page = self.tables().into_iter().fold(heading(page, "The numbers"), Page::table);
        page = others.iter().fold(page, drawn);
        page = heading(page, "How this was measured").list(self.methods());
        let summary = format!("config.toml (agewise {command} config.toml)");
        page = page.preformatted(summary, config_text(self.experiment().params())?);
        let links: Vec<Link> = self.files.iter().flat_map(crate::RunFiles::links).collect();
        if !links.is_empty() {
            page = heading(page, "Files").links(links);
        }
        Ok(page)
    }
}
