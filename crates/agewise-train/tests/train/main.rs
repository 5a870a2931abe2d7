//! Data, models, local training and aggregation against independent references.
//! One program, because each one is compiled and linked for itself.
#![allow(clippy::disallowed_methods, reason = "tests have tolerances")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

mod aggregation;
mod data_formats;
mod data_load;
mod data_partition;
mod golden;
mod gradients;
mod large_layers;
mod local_training;
mod model_files;
mod own_data;
mod parquet;
mod reference;
mod round_engine;
