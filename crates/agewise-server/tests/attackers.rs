//! Attackers, each its own client: whatever they do is refused and counted, and the honest clients' run ends with the same model as
//! without them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

#[path = "attackers/bombs.rs"]
mod bombs;
#[path = "attackers/draws.rs"]
mod draws;
#[path = "attackers/drips.rs"]
mod drips;
#[path = "attackers/floods.rs"]
mod floods;
#[path = "attackers/frames.rs"]
mod frames;
#[path = "attackers/game.rs"]
mod game;
#[path = "attackers/keys.rs"]
mod keys;
#[path = "attackers/mutation.rs"]
mod mutation;
#[path = "attackers/mutator.rs"]
mod mutator;
#[path = "attackers/replays.rs"]
mod replays;
#[path = "attackers/revoked.rs"]
mod revoked;
#[path = "faults/site.rs"]
#[allow(dead_code, reason = "shared with the faults, which need more of it")]
mod site;
#[path = "attackers/updates.rs"]
mod updates;
#[path = "attackers/villain.rs"]
mod villain;
