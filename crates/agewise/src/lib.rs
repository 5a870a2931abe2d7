//! agewise.
