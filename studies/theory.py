"""Theorem 1 and the selection skew over the runs of a study, from the logs and without any code of the program.

Definition 1 of the paper: with gap_k = F_k(theta) - F_k*, weights w and shares q, rho = sum w_k gap_k / sum q_k gap_k. The
definition takes the expectation of the weights; the paper's table takes single cohorts. The logs hold both, with the losses
of all clients under the models that rounds began with, and the optima of the clients.
"""

import statistics
import sys


class Run:
    """What a run says of the objectives: one entry for each round that was looked at."""

    def __init__(self, name, rounds, clients):
        self.rounds = [line for line in rounds if "objectives" in line]
        if not self.rounds:
            sys.exit(f"study {name}: its logs hold no objectives; play it with --skew")
        # With clients of equal size every share is 1/n.
        self.share = 1 / clients
        self.optima = self.rounds[0]["objectives"]["optima"]

    def skew(self, losses, weights):
        gaps = [loss - least for loss, least in zip(losses, self.optima["local"])]
        return sum(gap * weight for gap, weight in zip(gaps, weights)) / (self.share * sum(gaps))

    def expected(self):
        """Rho with the expectation of the weights, in every round that was looked at."""
        return [self.skew(line["objectives"]["losses"], line["objectives"]["expected_weights"]) for line in self.rounds]

    def single(self):
        """Rho with the weights of the cohort itself."""
        found = []
        for line in self.rounds:
            weights = [0.0] * len(self.optima["local"])
            for client, weight in zip(line["clients"], line["weights"]):
                weights[client] = weight
            found.append(self.skew(line["objectives"]["losses"], weights))
        return found

    def at_optimum(self):
        """Rho at the optimum of all clients together, where it is known."""
        losses = self.optima["at_optimum"]
        return [self.skew(losses, line["objectives"]["expected_weights"]) for line in self.rounds]

    def bounds(self, steps, cohort, sigma):
        """The last round that was looked at, the error there, and Theorem 1 as proven and as printed."""
        known = self.optima["constants"]
        at_optimum = self.at_optimum()
        low, high = min(*self.expected(), *at_optimum), max(at_optimum)
        last = self.rounds[-1]
        error = self.share * sum(last["objectives"]["losses"]) - known["optimum_value"]
        L, mu, G, sd = (known[name] for name in ("smoothness", "convexity", "gradient_bound", "gradient_sd"))
        gap, start, K, m, T = known["objective_gap"], known["initial_distance"], steps, cohort, last["round"]
        gamma = 4 * K * (K + 1) * L / mu
        falling = L / (2 * (T + gamma))
        # The recursion of the proof for the rate 1/(mu (t + gamma)), with 2K where the paper has K + 1.
        divisor = (K + (K - 1) * low) - 1
        constant = 16 * G**2 * K**2 * m**2 * 2 * K * (sigma + 1) + m * K**2 * sd**2 + 6 * K * L * low * gap
        proven = falling * (gamma * start**2 + constant / (mu**2 * divisor)) + L * K * (high - low) * gap / (mu * divisor)
        weights = (16 * G**2 * K * m**2 * (K + 1) * (sigma + 1) + m * K * sd**2) / (low * (K - 1) * mu**2)
        printed = falling * (gamma * start**2 + weights + 6 * L * gap / ((K - 1) * mu**2))
        printed += K * L * gap * (high / low - 1) / ((K - 1) * mu)
        return T, error, proven, printed


def runs_of(study):
    """The runs of every policy, in the order of the summary."""
    if study.config.get("sizes", "equal") != "equal":
        sys.exit(f"study {study.name}: sizes = {study.config['sizes']}: expected clients of equal size")
    logs = study.runs()
    clients, seeds = study.config["clients"], range(study.summary["seeds"])
    for place, row in enumerate(study.rows):
        yield row, [Run(study.name, logs[place, seed], clients) for seed in seeds]


def skew_rows(study):
    """Least and mean rho over the rounds: the expectation, and single cohorts as the paper takes them; means over seeds."""
    for row, runs in runs_of(study):
        ways = [[run.expected() for run in runs], [run.single() for run in runs]]
        columns = [[pick(values) for values in way] for way in ways for pick in (min, statistics.fmean)]
        yield row, [(statistics.fmean(column), statistics.stdev(column)) for column in columns]


def bound_rows(study):
    """Theorem 1 at the end of the runs: round, error, proven and printed bound; means over seeds."""
    work = study.config["training"]["local_work"]
    if not work.endswith(" steps"):
        sys.exit(f"study {study.name}: local_work = {work}: expected steps, the K of Theorem 1")
    for row, runs in runs_of(study):
        sigma, steps = row["means"]["sigma"]["mean"], int(work.removesuffix(" steps"))
        found = [run.bounds(steps, study.config["cohort"], sigma) for run in runs]
        yield row, [statistics.fmean(column) for column in zip(*found)]
