"""What a target costs in every unit, and what a probe costs by three ways of counting it: tables from the logs of a study."""

import math
import statistics

from evidence import curve, rounds_to, student_quantile

# The units of `summary.json` in the words of the docs.
UNITS = {
    "rounds": "rounds",
    "bytes": "bytes, down and up",
    "bytes-down": "downloads of the model (bytes down)",
    "bytes-up": "uploads (bytes up)",
    "client-seconds": "computations of clients (client-seconds)",
    "seconds": "simulated seconds",
}


def measure(unit, target):
    """The measure of a pair as `summary.json` names it."""
    return {"rounds_to": target} if unit == "rounds" else {"cost_to": {"unit": unit, "target": target}}


def counted_units(study):
    """The units that the study has counted, rounds first."""
    known = {"rounds"}
    for pair in study.summary["pairs"]:
        if isinstance(pair["measure"], dict) and "cost_to" in pair["measure"]:
            known.add(pair["measure"]["cost_to"]["unit"])
    return [unit for unit in UNITS if unit in known]


def paired_change(ones, others):
    """The mean change in percent over pairs of runs with its 95% interval: Student's t on logarithms of ratios."""
    logs = [math.log(one / other) for one, other in zip(ones, others)]
    mean = statistics.fmean(logs)
    half = student_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    percent = lambda value: 100 * math.expm1(value)
    return {"effect": percent(mean), "interval": {"low": percent(mean - half), "high": percent(mean + half)}, "at_limit": 0}


def probe_rows(study, policy, targets):
    """Changes of rounds of a policy that probes everyone, with the probe counted as nothing, as one round, as n/m rounds."""
    places = {row["policy"]: place for place, row in enumerate(study.rows)}
    runs, limit = study.runs(), study.summary["rounds"]
    interval = study.config["clients"] / study.config["cohort"]
    rounds = {
        (name, target): [
            min(rounds_to(curve(runs[places[name], seed]), target), limit) for seed in range(study.summary["seeds"])
        ]
        for name in (policy, study.baseline)
        for target in targets
    }
    ways = [("nothing", 0), ("one round", 1), (f"n/m = {interval:g} rounds", interval)]
    for name, price in ways:
        changes = [
            paired_change([count + price for count in rounds[policy, target]], rounds[study.baseline, target])
            for target in targets
        ]
        yield name, changes
