//! The learning engine: real data split among clients, models as lists of layers over one flat slice of parameters,
//! local training at the machine's limit, and aggregation with the core's weights.

pub mod data;
