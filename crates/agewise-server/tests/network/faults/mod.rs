//! What goes wrong between a coordinator and its clients: hang-ups in each phase, slow and hostile clients, clocks that jump, files that were
//! damaged. Nothing that was promised is lost, and no client can stall the others.

mod back_off;
mod cohorts;
mod damage;
mod disks;
mod endings;
mod hang_ups;
mod raw;
mod times;
mod updates;
