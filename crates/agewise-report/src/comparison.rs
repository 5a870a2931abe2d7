//! Policies against each other: a matrix for each measure, with the sentence behind each cell.

use crate::findings::{finding, is_without_result};
use crate::format::{capitalised, signed};
use crate::section::ReportSection;
use agewise_experiment::{Measure, Pair, Significance};
use agewise_plot::{Comparison, Matrix, MatrixCell, Page};

impl ReportSection<'_> {
    /// Adds the matrix of the main measure, those of the others folded away, and all sentences. The key makes ids unlike
    /// those of other experiments in the page.
    pub(crate) fn comparisons(&self, mut page: Page, key: &str) -> Page {
        let Some(main) = self.summary.main_measure() else {
            return page.paragraph("One policy alone: there is nothing to compare.");
        };
        page = page.paragraph(
            "Each row against each column, from pairs of runs under common seeds. ▲ better and ▼ worse: significant after Holm \
             correction for all pairs of the matrix. △ and ▽: significant only without that correction. ○: undecided.",
        );
        let mut measures = vec![main];
        measures.extend(self.measures().into_iter().filter(|measure| *measure != main));
        let mut sentences = Vec::new();
        for (number, &measure) in measures.iter().enumerate() {
            let pairs: Vec<&Pair> =
                self.summary.pairs.iter().filter(|pair| pair.measure == measure).collect();
            let id = |index: usize| format!("{key}_{number}_{index}");
            sentences.extend(
                (pairs.iter().enumerate())
                    .map(|(index, pair)| (id(index), finding(pair, pairs.len()))),
            );
            let matrix = self.matrix(measure, &pairs, id);
            if number == 0 {
                page = page.matrix(matrix);
                continue;
            }
            let found =
                pairs.iter().filter(|pair| pair.verdict == Significance::Significant).count();
            let name = capitalised(&measure.to_string());
            let summary = format!("{name}: {found} of {} differences significant", pairs.len());
            // Beside rounds to a target the mean over the rounds says more with fewer seeds.
            page = page.folded_matrix(summary, measure.is_area() && found > 0, matrix);
        }
        page.sentences("Every comparison in a sentence", sentences)
    }

    fn matrix(&self, measure: Measure, pairs: &[&Pair], id: impl Fn(usize) -> String) -> Matrix {
        let names = || self.summary.policies.iter().map(|policy| policy.policy.clone());
        let unit = match measure {
            measure if measure.is_cost() => "change in percent",
            measure if measure.is_in_points() => "difference in percentage points",
            _ => "difference",
        };
        let better = if measure.lower_is_better() { "less" } else { "more" };
        let caption = format!("{}, {unit}; {better} is better", capitalised(&measure.to_string()));
        let place = |name: &str| names().position(|other| other == name);
        pairs.iter().enumerate().fold(Matrix::new(caption, names()), |matrix, (index, pair)| {
            let Some((row, column)) = place(&pair.policy).zip(place(&pair.other)) else {
                return matrix;
            };
            let comparison = comparison(pair);
            let cell = |comparison, effect: f64| MatrixCell {
                comparison,
                text: if is_without_result(pair) { "-".to_string() } else { signed(effect) },
                sentence: id(index),
            };
            matrix.cell(row, column, cell(comparison, pair.effect)).cell(
                column,
                row,
                cell(comparison.reversed(), turned_around(pair)),
            )
        })
    }
}

/// What a pair says about its first policy.
fn comparison(pair: &Pair) -> Comparison {
    let is_better = pair.measure.lower_is_better() == (pair.effect < 0.0);
    match (pair.verdict, is_better) {
        (Significance::NotSignificant | Significance::TooFew, _) => Comparison::Undecided,
        (Significance::Significant, true) => Comparison::Better,
        (Significance::Significant, false) => Comparison::Worse,
        (Significance::OnlyUncorrected, true) => Comparison::PerhapsBetter,
        (Significance::OnlyUncorrected, false) => Comparison::PerhapsWorse,
    }
}

/// The effect of the second policy against the first: changes in percent are ratios.
fn turned_around(pair: &Pair) -> f64 {
    if pair.measure.is_cost() {
        100.0 * (1.0 / (1.0 + pair.effect / 100.0) - 1.0)
    } else {
        -pair.effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_experiment::Unit;

    fn pair(measure: Measure, verdict: Significance, effect: f64) -> Pair {
        Pair {
            measure,
            policy: "a".to_string(),
            other: "b".to_string(),
            pairs: 10,
            effect,
            interval: None,
            p_value: None,
            p_adjusted: None,
            at_limit: 0,
            verdict,
        }
    }

    #[test]
    fn better_depends_on_the_measure() {
        let of = |measure, effect| comparison(&pair(measure, Significance::Significant, effect));
        assert_eq!(of(Measure::RoundsTo(0.9), -5.0), Comparison::Better);
        assert_eq!(of(Measure::RoundsTo(0.9), 5.0), Comparison::Worse);
        assert_eq!(of(Measure::Area, 5.0), Comparison::Better);
        assert_eq!(of(Measure::FinalLoss, 5.0), Comparison::Worse);
        let alone = pair(Measure::Area, Significance::OnlyUncorrected, -1.0);
        assert_eq!(comparison(&alone), Comparison::PerhapsWorse);
        let open = pair(Measure::Area, Significance::TooFew, -1.0);
        assert_eq!(comparison(&open), Comparison::Undecided);
    }

    #[test]
    fn a_change_turned_around_is_the_inverse_ratio() {
        let half = pair(Measure::RoundsTo(0.9), Significance::Significant, -50.0);
        assert!((turned_around(&half) - 100.0).abs() < 1e-9);
        let bytes = Measure::CostTo { unit: Unit::Bytes, target: 0.9, is_loss: false };
        let cheaper = pair(bytes, Significance::Significant, -50.0);
        assert!((turned_around(&cheaper) - 100.0).abs() < 1e-9);
        assert_eq!(turned_around(&pair(Measure::Area, Significance::Significant, 2.0)), -2.0);
    }
}
