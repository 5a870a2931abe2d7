//! Who trains next, in a training loop of your own: only the selector is ours.
//!
//! `cargo run --release -p agewise --example selector`

use agewise::prelude::*;

fn main() -> Result<()> {
    // 100 clients, 15 per round; each takes part in every sixth or seventh round.
    let setting = SettingParams::new(100, 15, 10).check()?;
    let policy = PolicySpec::named("oldest-first");
    let mut selector = Selector::new(&policy, setting, Seed(1), Start::Stationary)?;

    for _ in 0..50 {
        let cohort = selector.select(Availability::Everyone)?;
        // Here your own code trains these clients and averages their updates with these weights.
        assert_eq!((cohort.clients.len(), cohort.weights.len()), (15, 15));
        // A client that delivers is credited: its age is 0. One that fails keeps its age and is due again.
        let delivered = cohort.clients.iter().filter(|&&client| client != 7);
        let reports: Vec<Report<'_>> = delivered.map(|&client| Report::plain(client)).collect();
        selector.finish(&reports)?;
    }
    // A client can join at any time, with a data size and an age, and one can leave.
    let newcomer = selector.admit(1.0, 3)?;
    selector.leave(7)?;
    let cohort = selector.select(Availability::Everyone)?;
    assert!(!cohort.clients.contains(&7));

    let oldest = selector.population().ages().iter().max().unwrap_or(0);
    println!("client {newcomer} has joined; the oldest client waits for {oldest} rounds");
    Ok(())
}
