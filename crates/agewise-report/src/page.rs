//! The report: one page that explains itself, about one experiment or several, of either kind.

use crate::figures::ReportFigure;
use crate::findings::finding;
use crate::section::{ReportError, ReportSection};
use crate::tables::{learning_overview, load_overview};
use agewise_experiment::Measure;
use agewise_experiment::run_dir::config_text;
use agewise_plot::Page;

/// The most findings about one measure that are all shown; of more, only those about the baseline are.
const MOST_FINDINGS: usize = 15;

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
    page = page.heading("All experiments");
    if let Some(table) = learning_overview(sections) {
        page = page.table(table);
    }
    page = page.table(load_overview(sections));
    for section in sections {
        page = page.heading(section.name.as_str()).paragraph(section.lead());
        page = section.fill(page, &section.figures()?, Page::subheading)?;
    }
    Ok(page.footer(footer()))
}

/// The report of one experiment with these figures.
pub(crate) fn page_of(
    section: &ReportSection<'_>,
    figures: &[ReportFigure],
) -> Result<Page, ReportError> {
    let page = Page::new(if section.trains() { LEARNING } else { LOAD }).lead(section.lead());
    let page = section.fill(page, figures, Page::heading)?;
    Ok(page.footer(footer()))
}

fn footer() -> String {
    format!("agewise {}", env!("CARGO_PKG_VERSION"))
}

impl ReportSection<'_> {
    /// Adds everything about the experiment.
    fn fill(
        &self,
        page: Page,
        figures: &[ReportFigure],
        heading: fn(Page, &'static str) -> Page,
    ) -> Result<Page, ReportError> {
        let mut page = page.key_figures(self.key_figures());
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
        page = self.tables().into_iter().fold(page, Page::table);
        if self.trains() {
            page = self.findings(heading(page, "Which differences are significant"));
        }
        for figure in figures {
            page = heading(page, figure.heading).figure(&figure.figure, &figure.reading);
        }
        page = heading(page, "How this was measured").list(self.methods());
        let summary = format!("config.toml (agewise {command} config.toml)");
        Ok(page.preformatted(summary, config_text(self.experiment().params())?))
    }

    /// One sentence for each pair: the main measure first, the others folded away by their number.
    fn findings(&self, mut page: Page) -> Page {
        let Some(main) = self.summary.main_measure() else {
            return page.paragraph("One policy alone: there is nothing to compare.");
        };
        let of = |measure: Measure| {
            let pairs = self.summary.pairs.iter().filter(move |pair| pair.measure == measure);
            let count = pairs.clone().count();
            pairs.map(move |pair| finding(pair, count)).collect::<Vec<_>>()
        };
        // Those with the baseline come first.
        let mut findings = of(main);
        let with_baseline = self.summary.policies.len().saturating_sub(1);
        let shown = if findings.len() > MOST_FINDINGS { with_baseline } else { findings.len() };
        let hidden = findings.split_off(shown.min(findings.len()));
        page = page.list(findings);
        if !hidden.is_empty() {
            page = page.preformatted("All other pairs of policies", hidden.join("\n"));
        }
        let others = self.measures().into_iter().filter(|measure| *measure != main);
        let others: Vec<String> = others.flat_map(of).collect();
        if others.is_empty() {
            return page;
        }
        page.preformatted("The same for the other measures", others.join("\n"))
    }
}
