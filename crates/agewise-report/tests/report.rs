//! Sections of a report appear where there is something to show, whatever the experiment is.
#![allow(clippy::disallowed_methods, reason = "tests have tolerances")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

use agewise_core::{Result, Seed};
use agewise_experiment::{Experiment, ExperimentParams, NoCallbacks, Results, play};
use agewise_report::{ReportSection, page};
use agewise_train::local::LocalReport;
use agewise_train::task::{PartitionKey, Task, TrainJob};
use agewise_train::{Evaluation, Metric};

/// The mean of numbers: a task without images and classes, which does not say what it is called.
struct MeanOfNumbers;

impl Task for MeanOfNumbers {
    fn parameters(&self) -> usize {
        1
    }

    fn initial(&self, _: Seed) -> Result<Vec<f32>> {
        Ok(vec![0.0])
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        Ok(vec![1; key.clients as usize])
    }

    fn train(&self, job: &TrainJob, model: &mut [f32]) -> Result<LocalReport> {
        let error = model[0] - 1.0 - (job.client % 3) as f32;
        model[0] -= 0.3 * error;
        let loss = f64::from(error * error);
        Ok(LocalReport { steps: 1, samples: 1, loss, mean_square: loss * loss })
    }

    fn evaluate(&self, model: &[f32], _: usize) -> Result<Evaluation> {
        Ok(Evaluation::regression(1, f64::from(model[0] - 2.0).powi(2)))
    }

    fn metric(&self) -> Metric {
        Metric::Loss
    }
}

fn played(experiment: &Experiment) -> Results {
    play(experiment, None, 2, &NoCallbacks, &false.into()).unwrap()
}

fn simulated(change: impl FnOnce(&mut ExperimentParams)) -> Results {
    let mut params = ExperimentParams { rounds: 60, seeds: 2, ..ExperimentParams::default() };
    change(&mut params);
    played(&Experiment::new(params, &[]).unwrap())
}

fn regression() -> Results {
    let policies = ["random", "oldest-first"].map(str::to_string).to_vec();
    let experiment = Experiment::builder()
        .task(MeanOfNumbers)
        .change(|params| params.policies = policies)
        .clients(12)
        .cohort(3)
        .rounds(10)
        .seeds(3)
        .targets([0.5])
        .build();
    played(&experiment.unwrap())
}

fn figures(section: &ReportSection<'_>) -> Vec<&'static str> {
    section.figures().unwrap().iter().map(|figure| figure.name).collect()
}

const LOAD: [&str; 6] = ["load", "intervals", "cohorts", "windows", "sigma", "ages"];

#[test]
fn a_simulation_shows_load_beside_the_theory() {
    let results = simulated(|_| ());
    let section = ReportSection::new("calm", &results).unwrap();
    assert_eq!(figures(&section), LOAD);
    let html = page(&[section]).unwrap().to_html();
    for words in [
        "closed form",
        "So few seeds give intervals",
        "The most even load",
        "The least Sigma",
        "simulate config.toml",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(
        !html.contains("Who is reached?") && !html.contains("Which differences are significant")
    );
}

#[test]
fn a_world_shows_who_was_reached_and_no_theory() {
    let results = simulated(|params| params.world.dropout = 0.3);
    let section = ReportSection::new("restless", &results).unwrap();
    assert_eq!(figures(&section)[0], "world");
    let table = section.summary_table();
    assert!(table.title.ends_with("dropout 0.3"), "{}", table.title);
    assert!(table.verdict.contains("reached"), "{}", table.verdict);
    let html = page(&[section]).unwrap().to_html();
    assert!(html.contains("Who was reached") && html.contains("never reached"));
    assert!(!html.contains(">closed form<"));
}

#[test]
fn a_task_measured_by_its_loss_is_compared_by_it() {
    let results = regression();
    let section = ReportSection::new("regression", &results).unwrap();
    let learning = ["learning", "rounds-to-target", "differences"];
    assert_eq!(figures(&section), [&learning[..], &LOAD].concat());
    let table = section.summary_table();
    assert!(table.title.starts_with("own data, 12 clients"), "{}", table.title);
    for column in ["rounds to a loss of 0.5", "mean loss", "final loss"] {
        assert!(table.columns.iter().any(|found| found == column), "{:?}", table.columns);
    }
    assert!(table.columns.iter().all(|column| !column.contains("acc")), "{:?}", table.columns);
    let html = page(&[section]).unwrap().to_html();
    assert!(html.contains("mean loss over the rounds") && !html.contains("final accuracy"));
}

/// Each policy against each other stands in a cell, and the sentence behind it is in the page.
#[test]
fn every_cell_of_a_matrix_has_its_sentence() {
    let results = regression();
    let section = ReportSection::new("regression", &results).unwrap();
    let html = page(&[section]).unwrap().to_html();
    let measures = ["Rounds to a loss of 0.5", "Mean loss over the rounds", "Final loss"];
    for measure in measures {
        assert!(html.contains(&format!("{measure}, ")), "{measure}");
    }
    let links: Vec<&str> = html.split("href=\"#pair_").skip(1).collect();
    assert_eq!(links.len(), 2 * measures.len(), "both cells of the only pair, for each measure");
    for link in links {
        let id = link.split('"').next().unwrap();
        assert!(html.contains(&format!("<li id=\"pair_{id}\">")), "{id}");
    }
    assert!(html.contains("oldest-first against random, "));
}

/// Axes of rounds can be shown in other units, of which each policy has its own.
#[test]
fn a_page_knows_what_rounds_cost() {
    let units = |results: &Results| {
        let section = ReportSection::new("run", results).unwrap();
        let html = page(&[section]).unwrap().to_html();
        let (_, text) = html.split_once("class=\"units\">").unwrap();
        let units: serde_json::Value =
            serde_json::from_str(text.split("</script>").next().unwrap()).unwrap();
        units
    };
    let trained = units(&regression());
    let names: Vec<&str> =
        trained.as_array().unwrap().iter().map(|unit| unit["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["uploads", "megabytes"]);
    // 3 of 12 clients report in each of 10 rounds, and a model of one number goes to them and back.
    let last =
        |unit: usize| trained[unit]["by"]["random"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last(0), serde_json::json!([10.0, 30.0]));
    assert_eq!(last(1), serde_json::json!([10.0, 0.00024]));
    let simulated = units(&simulated(|_| ()));
    assert_eq!(simulated.as_array().unwrap().len(), 1);
    assert_eq!(simulated[0]["name"], "uploads");
}

#[test]
fn the_same_experiment_twice_has_figures_across() {
    let (one, other) = (regression(), regression());
    let sections = [("one", &one), ("other", &other)];
    let sections = sections.map(|(name, results)| ReportSection::new(name, results).unwrap());
    let html = page(&sections).unwrap().to_html();
    for heading in ["Does it hold everywhere?", "When does it matter, in each experiment?"] {
        assert!(html.contains(heading), "{heading}");
    }
    assert!(html.contains("oldest-first, one") && html.contains("oldest-first, other"));
    assert!(html.contains("href=\"#pair_0_0_0\"") && html.contains("href=\"#pair_1_0_0\""));
}

#[test]
fn experiments_of_both_kinds_stand_in_one_page() {
    let (calm, trained) = (simulated(|_| ()), regression());
    let sections = [("one", &calm), ("other", &trained)];
    let sections = sections.map(|(name, results)| ReportSection::new(name, results).unwrap());
    let html = page(&sections).unwrap().to_html();
    assert!(html.contains("Policies side by side"));
    assert_eq!(html.matches("<figure>").count(), 16);
    assert!(html.contains("How are the clients of each experiment loaded?"));
    assert!(html.contains(">one<") && html.contains(">other<"));
}
