"""A study that is kept in the repository, and whether its summary is what its logs say.

The check reads the logs itself and shares no code with the program that wrote them: rounds to each target, their medians,
the paired changes with their intervals and the mean accuracy over the rounds are computed here a second time.
"""

import functools
import io
import json
import lzma
import math
import pathlib
import statistics
import tarfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Sums may be taken in another order here.
TOLERANCE = 1e-9


class Study:
    """A folder below studies/."""

    def __init__(self, name):
        self.name = name
        self.folder = ROOT / "studies" / name
        self.summary = json.loads((self.folder / "summary.json").read_text())
        self.config = tomllib.loads((self.folder / "config.toml").read_text())
        self.rows = self.summary["policies"]
        self.baseline = self.summary["baseline"]

    def row(self, policy):
        """The figures of a policy."""
        for row in self.rows:
            if row["policy"] == policy:
                return row
        names = ", ".join(row["policy"] for row in self.rows)
        raise SystemExit(f"study {self.name} has no policy {policy}; it has {names}")

    def pair(self, measure, policy, other):
        """One policy against another in a measure; the other way round is not stored and is computed."""
        for pair in self.summary["pairs"]:
            if pair["measure"] == measure and {pair["policy"], pair["other"]} == {policy, other} and policy != other:
                return pair if pair["policy"] == policy else reverse(pair)
        return None

    def has_output(self):
        """Whether the study keeps what the program printed."""
        return (self.folder / "output.txt").exists()

    def output(self):
        """What the program printed at the end."""
        return (self.folder / "output.txt").read_text()

    def verdicts(self):
        """How often each verdict came out, in disjoint sets of seeds; the first set is the study's own."""
        return json.loads((self.folder / "verdicts.json").read_text())

    def is_stable(self, policy, measure="mean accuracy"):
        """Whether at least nine of ten disjoint sets of seeds have the verdict "better", where that was looked at."""
        if not (self.folder / "verdicts.json").exists():
            return True
        kept = self.verdicts()
        better = [row["better"] for row in kept["verdicts"] if (row["measure"], row["policy"]) == (measure, policy)]
        return all(10 * count >= 9 * kept["sets"] for count in better)

    def runs(self):
        """The rounds of every run, by variant and seed, from the logs."""
        runs = {}
        archive = lzma.decompress((self.folder / "log.tar.xz").read_bytes())
        with tarfile.open(fileobj=io.BytesIO(archive)) as logs:
            for entry in logs:
                variant, seed = pathlib.PurePath(entry.name).stem.split("-")
                lines = logs.extractfile(entry).read().splitlines()
                runs[int(variant), int(seed)] = [json.loads(line) for line in lines[1:]]
        return runs

    def rounds_in(self, place, steps):
        """The whole rounds in so many steps of a variant: where a step takes K updates, a round is as many as a cohort has clients."""
        schedule = self.rows[place].get("schedule", "sync").split("(")[0]
        taken = 1 if schedule == "async" else int(schedule.split(":")[1]) if schedule.startswith("buffered") else None
        cohort = self.config["cohort"]
        return steps if taken is None else min(steps * taken // cohort, self.config["rounds"])

    def problems(self):
        """What the summary says and the logs do not."""
        if (self.folder / "verdicts.json").exists():
            kept = self.verdicts()
            if any(row["better"] + row["worse"] + row["not significant"] != kept["sets"] for row in kept["verdicts"]):
                yield f"{self.name}: verdicts of verdicts.json do not add up to {kept['sets']} sets"
        logs = self.runs()
        runs = {
            (place, seed): [(self.rounds_in(place, steps), accuracy) for steps, accuracy in curve(rounds)]
            for (place, seed), rounds in logs.items()
        }
        if len(runs) != self.summary["runs"]:
            yield f"{self.name}: {len(runs)} logs of {self.summary['runs']} runs"
            return
        for place, row in enumerate(self.rows):
            mine = [runs[place, seed] for seed in range(self.summary["seeds"])]
            for reached in row.get("rounds_to", []):
                each = [rounds_to(points, reached["target"]) for points in mine]
                median = statistics.median(each)
                if (reached["median"] or math.inf) != median:
                    yield f"{self.name}: {row['policy']}: {reached['median']} rounds to {reached['target']}, logs say {median}"
            area = row["means"].get("area")
            if area is not None and not close(area["mean"], statistics.fmean(map(mean_accuracy, mine))):
                yield f"{self.name}: {row['policy']}: mean accuracy {area['mean']} is not that of the logs"
        yield from self.wrong_pairs(runs)
        yield from self.wrong_seconds(logs)

    def wrong_seconds(self, logs):
        """Changes of simulated seconds that do not follow from the logs."""
        places = {row["policy"]: place for place, row in enumerate(self.rows)}
        costs = functools.cache(lambda key, target: spent(logs[key], target))
        for pair in self.summary["pairs"]:
            measure = pair["measure"].get("cost_to") if isinstance(pair["measure"], dict) else None
            if measure is None or measure["unit"] != "seconds":
                continue
            changes = []
            for seed in range(self.summary["seeds"]):
                one, other = (costs((places[pair[side]], seed), measure["target"]) for side in ("policy", "other"))
                change = math.log(one[0] / other[0])
                # A run that never got there counts with all its seconds, and at least with those of the other.
                changes.append((change if one[1] else max(change, 0)) if other[1] else (min(change, 0) if one[1] else 0))
            change = 100 * math.expm1(statistics.fmean(changes))
            if not close(change, pair["effect"]):
                what = f"{pair['policy']} against {pair['other']} to {measure['target']}"
                yield f"{self.name}: {what}: {pair['effect']} of the seconds, logs say {change}"

    def wrong_pairs(self, runs):
        """Changes of rounds and differences of mean accuracies that do not follow from the logs."""
        places = {row["policy"]: place for place, row in enumerate(self.rows)}
        # A run that never reached the target counts as if it had in the last round.
        limit = self.summary["rounds"]
        for pair in self.summary["pairs"]:
            target = pair["measure"].get("rounds_to") if isinstance(pair["measure"], dict) else None
            if target is None and pair["measure"] != "area":
                continue
            both = [
                [runs[places[pair[side]], seed] for side in ("policy", "other")] for seed in range(self.summary["seeds"])
            ]
            if target is None:
                differences = [mean_accuracy(one) - mean_accuracy(other) for one, other in both]
                shown = lambda difference: 100 * difference
            else:
                rounds = [[min(rounds_to(points, target), limit) for points in pair_of_runs] for pair_of_runs in both]
                differences = [math.log(one / other) for one, other in rounds]
                shown = lambda difference: 100 * math.expm1(difference)
            mean = statistics.fmean(differences)
            found = {"effect": mean}
            if pair["interval"] is not None:
                half = student_quantile(len(differences) - 1) * statistics.stdev(differences) / math.sqrt(len(differences))
                found |= {"low": mean - half, "high": mean + half}
            for name, value in found.items():
                change, said = shown(value), pair["effect"] if name == "effect" else pair["interval"][name]
                if not close(change, said):
                    what = f"{pair['policy']} against {pair['other']} {'in mean accuracy' if target is None else f'to {target}'}"
                    yield f"{self.name}: {what}: {name} {said}, logs say {change}"


def reverse(pair):
    """A pair seen from the other policy: rounds change by a factor, accuracies by points."""
    is_factor = isinstance(pair["measure"], dict)
    turned = (lambda change: 100 * (100 / (100 + change) - 1)) if is_factor else (lambda change: -change)
    bounds = pair["interval"]
    swapped = {"policy": pair["other"], "other": pair["policy"], "effect": turned(pair["effect"])}
    if bounds is not None:
        swapped["interval"] = {"low": turned(bounds["high"]), "high": turned(bounds["low"])}
    return {**pair, **swapped}


def curve(rounds):
    """The evaluations of a run: rounds played, and the accuracy."""
    scored = [line for line in rounds if line.get("test") and line["test"].get("class_correct")]
    return [(line["round"] + 1, sum(line["test"]["class_correct"]) / line["test"]["samples"]) for line in scored]


def spent(rounds, target):
    """The simulated seconds of a run until the accuracy was first at least the target, or all, and whether it ever was."""
    seconds = 0
    for line in rounds:
        seconds += line["clock"]["costs"]["seconds"]
        test = line.get("test")
        if test and sum(test["class_correct"]) / test["samples"] >= target:
            return seconds, True
    return seconds, False


def rounds_to(points, target):
    """Rounds until the accuracy was first at least the target."""
    return next((played for played, accuracy in points if accuracy >= target), math.inf)


def mean_accuracy(points):
    """The area under the curve over the rounds between its ends."""
    pieces = [(b - a) * (x + y) / 2 for (a, x), (b, y) in zip(points, points[1:])]
    return sum(pieces) / (points[-1][0] - points[0][0]) if pieces else points[-1][1]


def close(one, other):
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


@functools.cache
def student_quantile(degrees, level=0.975):
    """The quantile of Student's t, by bisection on its distribution function."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < level else (low, middle)
    return (low + high) / 2


def student_cdf(t, degrees):
    """The distribution function of Student's t for t >= 0: Simpson's rule after t = sqrt(degrees) tan(angle)."""
    pieces, end = 400, math.atan(t / math.sqrt(degrees))
    density = lambda angle: math.cos(angle) ** (degrees - 1)
    width = end / pieces
    inner = sum((4 if place % 2 else 2) * density(place * width) for place in range(1, pieces))
    area = width / 3 * (density(0) + inner + density(end))
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(math.pi)
    return 0.5 + math.exp(log_scale) * area
