//! What was played and how it was measured, in words.

use crate::format::{counted, number};
use crate::section::ReportSection;
use agewise_experiment::{AvailabilityModel, TrainingParams};
use agewise_plot::KeyFigure;
use agewise_train::Metric;
use agewise_train::data::ImageShape;
use agewise_train::model::Model;

impl ReportSection<'_> {
    /// Whether models are compared by their accuracy, and not by their loss.
    pub(crate) fn is_measured_by_accuracy(&self) -> bool {
        self.experiment().metric() == Metric::Accuracy
    }

    /// What models are compared by.
    pub(crate) fn score_name(&self) -> &'static str {
        if self.is_measured_by_accuracy() { "accuracy" } else { "loss" }
    }

    /// What is trained, if anything is: the data, the model, and the local work where it is ours.
    pub(crate) fn description(&self) -> Option<(String, String, String)> {
        let (task, training) = self.experiment().task().zip(self.experiment().training())?;
        let (data, model) = self.task_names();
        Some(if task.as_native().is_some() {
            (format!("{data}, {}", training.partition), model, training.local_work.clone())
        } else {
            (data, model, String::new())
        })
    }

    /// What the data and the model are called; a task need not say it.
    pub(crate) fn task_names(&self) -> (String, String) {
        let task = self.experiment().task();
        let mut about = task.map(|task| task.describe()).unwrap_or_default();
        if let Some(native) = task.and_then(|task| task.as_native()) {
            about.model = outline(native.trainer().model(), &about.model);
        }
        let or = |name: String, other: &str| if name.is_empty() { other.to_string() } else { name };
        (or(about.data, "own data"), or(about.model, "own model"))
    }

    /// What happens to clients, in a line.
    pub(crate) fn world_line(&self) -> String {
        let world = &self.experiment().params().world;
        let mut parts = Vec::new();
        if self.experiment().world().availability != AvailabilityModel::Always {
            parts.push(format!("availability {}", world.availability));
        }
        for (name, value) in [
            ("dropout", world.dropout),
            ("failing", self.experiment().world().failing),
            ("join", world.join),
            ("leave", world.leave),
        ] {
            if value > 0.0 {
                parts.push(format!("{name} {value}"));
            }
        }
        if self.loses_places() && !self.experiment().params().backs_off() {
            parts.push("no back-off".to_string());
        }
        match self.experiment().params().calibrate {
            Some(true) => parts.push("calibrated".to_string()),
            Some(false) => parts.push("not calibrated".to_string()),
            None => {}
        }
        parts.join(", ")
    }

    /// Whether clients can be selected that do not report.
    pub(crate) fn loses_places(&self) -> bool {
        self.experiment().loses_updates()
    }

    /// What the experiment is about, under the title.
    pub(crate) fn lead(&self) -> String {
        let params = self.experiment().params();
        let Some((data, model, work)) = self.description() else {
            return "A simulation of client selection without training. X is the number of rounds between two selections of \
                    a client, Sigma the sum of the variances of the aggregation weights; both as small as possible is what \
                    you want."
                .to_string();
        };
        let variants = self.experiment().variants();
        let work = if work.is_empty() { work } else { format!(", {work} of local training") };
        let rules = variants.iter().map(|variant| variant.aggregation().name());
        let mut causes = vec!["selection"];
        if params.weighting.is_none() {
            causes.push("each policy's own weights");
        }
        if rules.clone().any(|rule| Some(rule) != rules.clone().next()) {
            causes.push("aggregation");
        }
        format!(
            "{} policies trained {model} on {data}, {} of {} clients per round{work}. Paired by design: for one seed every \
             policy got the same partition, the same first model and the same client batches, so differences come from {} alone.",
            variants.len(),
            params.cohort,
            params.clients,
            causes.join(" and "),
        )
    }

    /// Numbers that matter, for cards.
    pub(crate) fn key_figures(&self) -> Vec<KeyFigure> {
        let experiment = self.experiment();
        let params = experiment.params();
        let (clients, sizes) = (params.clients.to_string(), experiment.sizes());
        let world = || {
            let world = &params.world;
            let failing = match world.failing {
                Some(share) if share > 0.0 => format!(", failing {share}"),
                _ => String::new(),
            };
            KeyFigure::new("availability", world.availability.clone()).note(format!(
                "dropout {}{failing}, join {}, leave {}",
                world.dropout, world.join, world.leave
            ))
        };
        let Some((task, training)) = experiment.task().zip(experiment.training()) else {
            let interval = number(experiment.setting().interval());
            let seeds = counted(params.seeds, "seed");
            return vec![
                KeyFigure::new("clients", clients).note(format!("sizes {sizes}")),
                KeyFigure::new("per round", params.cohort.to_string())
                    .note(format!("each every {interval} rounds")),
                KeyFigure::new("rounds", params.rounds.to_string())
                    .note(format!("{seeds}, warm-up {}", params.warmup)),
                world(),
            ];
        };
        let (data_name, model) = self.task_names();
        let samples = experiment.context(0).map_or(0, |context| context.samples.iter().sum());
        let mut data = counted(samples, "sample");
        let mut work = String::new();
        if task.as_native().is_some() {
            data = format!("{data}, {}", training.partition);
            work = format!("{}, batches of {}", training.local_work, training.batch);
        }
        let mut figures = vec![
            KeyFigure::new("data", data_name).note(data),
            KeyFigure::new("clients", clients)
                .note(format!("{} per round, sizes {sizes}", params.cohort)),
            KeyFigure::new("model", model).note(format!("{} parameters", task.parameters())),
            KeyFigure::new("rounds", format!("up to {}", params.rounds)).note(work),
            KeyFigure::new("seeds", params.seeds.to_string())
                .note(format!("{} of {} runs", self.summary.finished_runs, self.summary.runs)),
        ];
        if !experiment.is_calm() {
            figures.push(world());
        }
        figures
    }

    /// How everything was measured.
    pub(crate) fn methods(&self) -> Vec<String> {
        let mut methods = Vec::new();
        if let Some(training) = self.experiment().training() {
            self.training_methods(training, &mut methods);
        }
        methods.push(
            "A stationary start draws first ages as if the policy had always run, so a wait may have begun before round 1; \
             from a cold start every client counts as selected in the round before the first."
                .to_string(),
        );
        if !self.experiment().is_calm() {
            methods.push(
                "Clients that were selected and did not report keep their ages; X and the load count reports. Jain's index, \
                 never reached, windows and Sigma are over everyone who was ever there."
                    .to_string(),
            );
        }
        if self.trains() {
            methods.push(
                "Wall times are in timing.csv: they differ from run to run, and this page does not."
                    .to_string(),
            );
        }
        methods
    }

    fn training_methods(&self, training: &TrainingParams, methods: &mut Vec<String>) {
        let seeds = self.experiment().params().seeds;
        let by_accuracy = self.is_measured_by_accuracy();
        let target =
            if by_accuracy { "at least that test accuracy" } else { "at most that test loss" };
        methods.push(format!(
            "Rounds to a target: the first evaluation with {target}. The median over seeds, with a percentile bootstrap \
             interval over seeds; runs that never get there count as longer than all others."
        ));
        methods.push(
            "Changes and differences: the two policies under the same seed make a pair. Student's t on the logarithms of the \
             ratios of rounds, or on the differences of accuracies. The Holm correction is over all pairs of policies."
                .to_string(),
        );
        let score = self.score_name();
        let worst = if by_accuracy {
            " Worst 10%: the mean over the tenth of the clients whose classes the last model recognises worst."
        } else {
            ""
        };
        methods.push(format!(
            "Mean {score}: the area under the {score} curve from the first evaluation to the last, divided by the rounds.{worst}"
        ));
        methods.push(
            "Traffic: model downloads to and uploads from every selected client, in 32-bit floats, and downloads to every \
             client that is probed before selection."
                .to_string(),
        );
        let rules: Vec<String> = (self.summary.policies.iter())
            .filter_map(|policy| {
                Some(format!("{}: {}", policy.policy, policy.aggregation.as_ref()?))
            })
            .collect();
        let usual = |policy: &agewise_experiment::VariantSummary| {
            policy.aggregation.as_deref().is_none_or(|rule| rule == "mean")
        };
        if !self.summary.policies.iter().all(usual) {
            methods.push(format!("Rules of aggregation: {}.", rules.join("; ")));
        }
        if (2..6).contains(&seeds) {
            methods.push(format!(
                "With {seeds} seeds the interval of a median cannot promise 95%: it lies between the smallest and the \
                 largest run, which hold the true median in {:.0}% of all cases.",
                100.0 * (1.0 - libm::exp2(1.0 - seeds as f64))
            ));
        }
        if self.experiment().has_clock() {
            methods.extend(self.clock_methods());
        } else if !self.experiment().speeds().is_usual() {
            methods.push(format!(
                "Speeds: {}, with a median of 1,000 samples per second where no other is written. Only policies that look at durations see them; the \
                 simulated time of a run is in rounds.csv and leaves out what is asked before a choice.",
                training.speeds
            ));
        }
        if training.bound {
            methods.push(
                "Learning rate and decay of the configuration were not used: the theorem has its own."
                    .to_string(),
            );
        }
        if training.eval_every > 1 || training.eval_from > 1 {
            methods.push(format!(
                "The model was evaluated every {} rounds from round {} on, and at the end; rounds to a target are known up \
                 to that.",
                training.eval_every, training.eval_from
            ));
        }
    }
}

/// The name of a model; where that does not say its shapes, with them.
fn outline(model: &Model, name: &str) -> String {
    let spec = model.spec();
    let is_own = name == "layers" || name == "linear" || name.starts_with("mlp:");
    let Some(layers) = spec.outline().ok().filter(|_| is_own) else {
        return name.to_string();
    };
    // A ReLU keeps the shape.
    let behind =
        layers.iter().filter(|layer| layer.layer != "relu").map(|layer| layer.output.clone());
    let ImageShape { channels, height, width } = spec.input;
    let input = if height * width == 1 { channels.to_string() } else { spec.input.to_string() };
    let shapes: Vec<String> = std::iter::once(input).chain(behind).collect();
    format!("{name} ({}; {} parameters)", shapes.join(" > "), model.parameters())
}
