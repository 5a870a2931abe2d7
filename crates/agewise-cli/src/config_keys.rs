//! Every key of the configuration of an experiment: what it holds and what it means. The example, the schema and the
//! reference page are made from this list and from the defaults; a test compares its keys with those that files may have.

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A whole number of at least this; `1e6` may be written for it.
    Whole(u64),
    /// A number.
    Number,
    /// `true` or `false`.
    Switch,
    /// `auto` or a whole number.
    AutoOrWhole,
    /// `auto` or a number.
    AutoOrNumber,
    /// A list of texts.
    Texts,
    /// A list of numbers.
    Numbers,
    /// Texts by name.
    TextsByName,
    /// Lists of numbers by name.
    NumbersByName,
}

/// A key: the table around it, its name, what it holds, a value that shows how it is written where it has no default, and
/// what it means.
pub(crate) struct Key {
    pub(crate) table: &'static str,
    pub(crate) name: &'static str,
    pub(crate) holds: Holds,
    pub(crate) shown: &'static str,
    pub(crate) meaning: &'static str,
}

const fn key(
    table: &'static str,
    name: &'static str,
    holds: Holds,
    shown: &'static str,
    meaning: &'static str,
) -> Key {
    Key { table, name, holds, shown, meaning }
}

/// The tables in the order of a file, each with what it is about.
pub(crate) const TABLES: [(&str, &str); 7] = [
    ("", "The clients, the policies and the rounds."),
    ("world", "What happens to clients."),
    ("training", "What clients train; without this table only their selection is simulated."),
    ("aggregation", "How updates become the next model."),
    ("aggregation.server", "How the global model moves to what the rule found."),
    ("model.layer", "The layers of a model without a name, one table [[model.layer]] for each."),
    (
        "clock",
        "Real conditions: where this table is there, a run is told in simulated seconds and bytes too.",
    ),
];

use Holds::{
    AutoOrNumber, AutoOrWhole, Number, Numbers, NumbersByName, OneOf, Switch, Text, Texts,
    TextsByName, Whole,
};

/// All keys.
pub(crate) const KEYS: &[Key] = &[
    key("", "clients", Whole(1), "", "n: clients at the beginning."),
    key("", "cohort", Whole(1), "", "m: clients per round."),
    key(
        "",
        "max_age",
        AutoOrWhole,
        "",
        "m': the age at which age laws saturate; auto is as large as n/m asks.",
    ),
    key("", "rounds", Whole(1), "", "Rounds to play, at most."),
    key(
        "",
        "warmup",
        Whole(0),
        "",
        "Rounds at the beginning that are played and not counted in the figures of load.",
    ),
    key(
        "",
        "policies",
        Texts,
        "",
        "What is compared: POLICY[(OPTIONS)][@START][+AGGREGATION][/SCHEDULE]; `agewise policies` lists policies and rules of aggregation, `schedule` in `[clock]` says which schedules there are.",
    ),
    key(
        "",
        "baseline",
        Text,
        "\"random\"",
        "The variant with which the others are compared; random if it is one of them, else the first.",
    ),
    key(
        "",
        "weighting",
        OneOf(&["uniform", "data-size", "draw-count", "unbiased"]),
        "\"uniform\"",
        "One weighting for all variants; each policy's own if absent.",
    ),
    key(
        "",
        "start",
        OneOf(&["stationary", "cold"]),
        "",
        "First ages, where a variant does not say its own: as after a long time, or all 0.",
    ),
    key(
        "",
        "empty_cohort",
        OneOf(&["force-one", "skip"]),
        "",
        "What happens in a round in which no client takes part.",
    ),
    key(
        "",
        "calibrate",
        Switch,
        "true",
        "Whether age laws learn the target interval from the number of reports; they do where clients may be away, fail, join or leave.",
    ),
    key(
        "",
        "backoff",
        Switch,
        "true",
        "Whether clients that fail again and again are asked less often; they are unless this says false.",
    ),
    key(
        "",
        "sizes",
        Text,
        "",
        "How data sizes are spread over clients: equal, zipf:A or lognormal:S; `--sizes FILE` reads them from a file.",
    ),
    key(
        "",
        "size_list",
        Numbers,
        "[20, 30, 50]",
        "The size of each client, for experiments without training.",
    ),
    key("", "seed", Whole(0), "", "The first seed."),
    key("", "seeds", Whole(1), "", "How many seeds, from the first on."),
    key(
        "world",
        "availability",
        Text,
        "",
        "When clients can be reached: always, bernoulli:P, on-off:UP,DOWN, diurnal:PERIOD,DEPTH or more-data-first:LEAST, in rounds; with a clock also in seconds (bernoulli:P,600s; on-off:3600s,600s; diurnal:86400s,DEPTH), and slow-less:LEAST.",
    ),
    key("world", "dropout", Number, "", "The probability that a selected client never reports."),
    key(
        "world",
        "failing",
        Number,
        "0.1",
        "The share of clients that never report, however often they are selected.",
    ),
    key(
        "world",
        "join",
        Number,
        "",
        "Clients that join per round, as a share of the first population.",
    ),
    key("world", "leave", Number, "", "The probability that a client leaves for good in a round."),
    key(
        "training",
        "data",
        Text,
        "",
        "The name of a data set, a file, or a folder of pictures; `agewise data list` names the sets.",
    ),
    key(
        "training",
        "label",
        Text,
        "\"label\"",
        "Of a file: the column, the array or the file of the labels.",
    ),
    key(
        "training",
        "client",
        Text,
        "\"user\"",
        "Of a file: the column, the array or the file that says whose each sample is.",
    ),
    key("training", "test", Text, "\"test.csv\"", "A file with the test samples."),
    key(
        "training",
        "holdout",
        Number,
        "0.2",
        "The share of each client's samples that is held out, where there are no test samples.",
    ),
    key("training", "ignore", Texts, "[\"id\"]", "Of a table: columns that are no features."),
    key(
        "training",
        "features",
        OneOf(&["standardised", "raw"]),
        "\"standardised\"",
        "Of a file: how features become numbers.",
    ),
    key(
        "training",
        "loss",
        OneOf(&["auto", "cross-entropy", "squared"]),
        "\"squared\"",
        "Of a file: whether labels are classes or numbers; auto looks at them.",
    ),
    key("training", "pixels", OneOf(&["standardised", "unit"]), "", "How pixels become numbers."),
    key(
        "training",
        "partition",
        Text,
        "",
        "How labels are spread over clients: iid, dirichlet:ALPHA, shards:K, or clients (each has its own samples, as the data say).",
    ),
    key(
        "training",
        "speeds",
        Text,
        "",
        "How fast clients train, in samples per second: equal, lognormal:S, phones or phones-by-model, each with @MEDIAN behind it for another median than 1000; or FILE.csv:COLUMN with a row for each client.",
    ),
    key(
        "training",
        "model",
        Text,
        "",
        "The model: softmax, linear, mlp:64,32, 2nn, cnn or cnn-cifar.",
    ),
    key(
        "training",
        "local_work",
        Text,
        "",
        "How much a client trains in a round: `5 epochs` or `5 steps`.",
    ),
    key("training", "batch", Whole(1), "", "Samples of a batch."),
    key("training", "learning_rate", Number, "", "Learning rate in the first round."),
    key(
        "training",
        "decay",
        Number,
        "",
        "The learning rate is multiplied by this from round to round.",
    ),
    key(
        "training",
        "offset",
        Number,
        "",
        "If not 0, the learning rate also falls as offset/(offset + t), as Theorem 1 asks.",
    ),
    key("training", "momentum", Number, "", "Momentum of local training."),
    key("training", "weight_decay", Number, "", "L2 penalty."),
    key("training", "proximal", Number, "", "FedProx: the pull towards the global model."),
    key("training", "augment", Switch, "", "Random crops and mirrored images while training."),
    key("training", "eval_every", Whole(1), "", "Rounds from one evaluation to the next."),
    key(
        "training",
        "eval_from",
        Whole(1),
        "",
        "The first round after which there is an evaluation.",
    ),
    key(
        "training",
        "targets",
        Numbers,
        "",
        "Test accuracies in increasing order, or test losses in decreasing order; the rounds to each are counted.",
    ),
    key(
        "training",
        "stop_at_target",
        Switch,
        "",
        "Whether a run ends when it has reached all targets.",
    ),
    key("training", "skew", Switch, "", "Whether the selection skew is estimated (Definition 1)."),
    key(
        "training",
        "bound",
        Switch,
        "",
        "Whether the bound of Theorem 1 is drawn, for softmax with weight decay.",
    ),
    key(
        "training",
        "checksums",
        TextsByName,
        "{ data = \"SHA-256\" }",
        "The SHA-256 of each file of one's own; a run writes them, and goes on only with the same contents.",
    ),
    key(
        "aggregation",
        "rule",
        OneOf(&["mean", "trimmed-mean", "median"]),
        "",
        "How updates become one model.",
    ),
    key(
        "aggregation",
        "trim",
        Number,
        "",
        "The share of updates that a trimmed mean cuts at each end, from 0 to below 0.5.",
    ),
    key(
        "aggregation",
        "clip_norm",
        Number,
        "",
        "If above 0, an update farther than this from the global model is shortened to this distance.",
    ),
    key(
        "aggregation",
        "full_reports",
        Whole(1),
        "",
        "From so many updates on the model goes all the way; fewer of them move it by their share of this number.",
    ),
    key(
        "aggregation",
        "max_norm",
        AutoOrNumber,
        "\"auto\"",
        "An update farther than this from the global model is left out; auto is ten times the median of the last updates, and none is if absent.",
    ),
    key(
        "aggregation.server",
        "rule",
        OneOf(&["average", "momentum", "adam"]),
        "",
        "The step of the server: FedAvg, FedAvgM or FedAdam.",
    ),
    key("aggregation.server", "learning_rate", Number, "1.0", "Of momentum and adam: the step."),
    key(
        "aggregation.server",
        "beta",
        Number,
        "0.9",
        "Of momentum: how much of the last direction stays, from 0 to below 1.",
    ),
    key(
        "aggregation.server",
        "beta1",
        Number,
        "0.9",
        "Of adam: memory of the direction, from 0 to below 1.",
    ),
    key(
        "aggregation.server",
        "beta2",
        Number,
        "0.99",
        "Of adam: memory of its square, from 0 to below 1.",
    ),
    key(
        "aggregation.server",
        "tau",
        Number,
        "0.001",
        "Of adam: keeps steps small where little happens.",
    ),
    key(
        "model.layer",
        "kind",
        OneOf(&["dense", "relu", "convolution", "max-pool"]),
        "\"dense\"",
        "What the layer does.",
    ),
    key(
        "model.layer",
        "units",
        Whole(1),
        "10",
        "Of dense: outputs; the last layer may leave them out.",
    ),
    key("model.layer", "channels", Whole(1), "8", "Of convolution: channels of the output."),
    key("model.layer", "kernel", Whole(1), "5", "Of convolution: the side of the square."),
    key(
        "model.layer",
        "padding",
        Whole(0),
        "2",
        "Of convolution and max-pool: the border around the image.",
    ),
    key("model.layer", "size", Whole(1), "2", "Of max-pool: the side of the square."),
    key(
        "model.layer",
        "stride",
        Whole(1),
        "2",
        "Of max-pool: from one square to the next; the side unless it is given.",
    ),
    key(
        "clock",
        "links",
        Text,
        "",
        "Bandwidths: none (transfers take no time), equal, lognormal:S, phones or phones-by-model, each with @DOWN,UP in Mbit/s behind it for other medians than 20 and 5; or FILE.csv:DOWN,UP with a row for each client.",
    ),
    key(
        "clock",
        "schedule",
        Text,
        "",
        "When a round ends, where a policy does not say its own: sync, deadline:30s, deadline:0.8 (a share of the clients), over-select:1.3, buffered:K or async.",
    ),
    key(
        "clock",
        "unit",
        OneOf(&[
            "rounds",
            "seconds",
            "bytes",
            "bytes-down",
            "bytes-up",
            "client-seconds",
            "joules",
        ]),
        "",
        "The unit in which the cost of a target is told first.",
    ),
    key(
        "clock",
        "power",
        Number,
        "3.0",
        "What a client draws while it trains, in watts; energy is counted where this is given.",
    ),
    key(
        "clock",
        "link_power",
        Number,
        "1.0",
        "What it draws while it sends or receives, in watts; the same as power if absent.",
    ),
    key(
        "clock",
        "columns",
        NumbersByName,
        "{ \"devices.csv:speed\" = [900.0, 1100.0] }",
        "The columns that were read from files; a run writes them, and goes on without the files.",
    ),
];
