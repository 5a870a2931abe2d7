//! What selfish clients gain: 100 clients of which 30 ask to join in every round, with the check of draws and without it.
//!
//! `cargo run --release -p agewise-server --example selfish -- docs/figures [ROUNDS [SECONDS]]` plays three runs over loopback, prints what
//! docs/security.md shows, and draws `selfish.svg` into the folder. Clients have so many SECONDS to join a round: 0.3 are enough on an idle
//! machine, and three runs take three minutes then.

#[path = "selfish/figure.rs"]
mod figure;
#[path = "selfish/measures.rs"]
mod measures;
#[path = "selfish/trial.rs"]
mod trial;

use agewise_core::{AgeLaw, Error};
use figure::Shown;
use measures::{Measured, Outcome};
use std::path::{Path, PathBuf};
use trial::{Failure, Trial};

const CLIENTS: u32 = 100;
const COHORT: u32 = 15;
const MAX_AGE: u32 = 10;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map(PathBuf::from);
    let folder = folder.ok_or_else(|| Error::new("folder", "nothing", "where to draw"))?;
    let rounds = match arguments.next() {
        None => 200,
        Some(text) => text.parse().map_err(|_| Error::new("rounds", &text, "a whole number"))?,
    };
    let join_seconds = match arguments.next() {
        None => 0.3,
        Some(text) => text.parse().map_err(|_| Error::new("seconds", &text, "a number"))?,
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let play = |has_selfish, has_check| -> Result<Outcome, Failure> {
        let trial = Trial {
            clients: CLIENTS,
            cohort: COHORT,
            rounds,
            join_seconds,
            has_selfish,
            has_check,
        };
        let state = std::env::temp_dir().join(format!("agewise-selfish-{}", std::process::id()));
        let played = runtime.block_on(trial.play(&state));
        let outcome = played.and_then(|()| Outcome::read(&state));
        std::fs::remove_dir_all(&state).ok();
        outcome
    };
    let control = play(false, true)?;
    let checked = play(true, true)?;
    let unchecked = play(true, false)?;

    let law = AgeLaw::optimal(f64::from(CLIENTS) / f64::from(COHORT), MAX_AGE)?;
    print_table(&law, &[&control, &checked, &unchecked]);
    let same = control.cohorts.iter().zip(&checked.cohorts).filter(|(one, other)| one == other);
    println!("\nthe same cohort as without selfish clients: {} of {rounds} rounds", same.count());
    for (name, outcome) in
        [("all honest", &control), ("with the check", &checked), ("without", &unchecked)]
    {
        println!("{name}: refused {:?}, X {:?}", outcome.refusals, outcome.histogram(false));
    }
    save(&folder, &Shown { law, rounds, checked, unchecked })
}

/// The table of docs/security.md: theory, and what was measured.
fn print_table(law: &AgeLaw, runs: &[&Outcome; 3]) {
    let n = f64::from(CLIENTS);
    let (rate, x) = (law.rate(), law.interval());
    let row = |name: &str, theory: String, of: &dyn Fn(&Outcome) -> String| {
        let [control, checked, unchecked] = runs.map(of);
        println!("| {name} | {theory} | {control} | {checked} | {unchecked} |");
    };
    println!("| | theory | all honest | 30 selfish, with the check | 30 selfish, without it |");
    println!("|---|---|---|---|---|");
    row("mean of X", format!("{:.3}", x.mean), &|run| text(run.mean_wait(), 3));
    row("Var[X]", format!("{:.3}", x.variance), &|run| text(run.wait_variance(), 3));
    let longest = law.longest_interval().map_or_else(String::new, |longest| longest.to_string());
    row("longest wait, finished or not", longest, &|run| run.longest().to_string());
    let credits = format!("{:.2}", 100.0 * rate);
    row("rounds of 100 with an honest client", credits.clone(), &|run| text(run.credits(false), 2));
    row("rounds of 100 with a selfish client", credits, &|run| text(run.credits(true), 2));
    let share = |share: f64| format!("{:.1}%", 100.0 * share);
    row("credits of the 30", share(0.3), &|run| share(run.selfish_share()));
    row("mean cohort", format!("{:.2}", n * rate), &|run| text(run.mean_size(), 2));
    let deviation = (n * rate * (1.0 - rate)).sqrt();
    row("its sd", format!("{deviation:.2}"), &|run| text(run.size_deviation(), 2));
    row("honest clients told \"full\"", "0".to_string(), &|run| run.turned_away.to_string());
    let refused = |run: &Outcome| run.refusals.values().sum::<i64>().to_string();
    row("calls refused", String::new(), &refused);
}

/// A number with its interval.
fn text(measured: Measured, digits: usize) -> String {
    format!("{:.digits$} ± {:.digits$}", measured.value, measured.half_width)
}

fn save(folder: &Path, shown: &Shown) -> Result<(), Failure> {
    shown.figure().save(&folder.join("selfish.svg"))?;
    Ok(())
}
