"""The selection simulation with all metrics, as a careful vectorised NumPy program: what agewise is measured
against. Prints one line per policy: name and seconds per round.

int16 ages, one vectorised draw per round, counts per window from snapshots of the total counts (so that a
window costs something only when it ends), no Python loop over clients.
"""

import sys
import time

import numpy as np

WINDOWS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """X, Y for all windows, Sigma, load and cohort sizes."""

    def __init__(self, n):
        self.n = n
        self.rounds = 0
        self.intervals = np.zeros(4096, np.int64)
        self.counts = np.zeros(n, np.int32)
        self.snapshots = {t: np.zeros(n, np.int32) for t in WINDOWS if t > 1}
        self.windows = {t: [0, 0.0, 0.0] for t in WINDOWS}
        self.weight_sums = np.zeros(n, np.float32)
        self.squares = 0.0
        self.growth = 0.0
        self.sizes = []

    def record(self, chosen, ages, weights):
        interval = np.bincount(ages[chosen], minlength=1)
        self.intervals[: len(interval)] += interval
        self.counts[chosen] += 1
        before = self.weight_sums[chosen]
        self.squares += float(np.sum(np.square(weights))) if np.ndim(weights) else len(chosen) * weights**2
        self.growth += float(np.sum(weights * (2.0 * before + weights)))
        self.weight_sums[chosen] = before + weights
        self.sizes.append(len(chosen))
        self.rounds += 1
        for t in WINDOWS:
            if self.rounds % t == 0:
                sums = self.windows[t]
                if t == 1:
                    y_sum = y_square = len(chosen)
                else:
                    y = self.counts - self.snapshots[t]
                    y_sum = int(y.sum())
                    y_square = int(np.dot(y, y))
                    self.snapshots[t] = self.counts.copy()
                sums[0] += self.n
                sums[1] += y_sum
                sums[2] += y_square


def optimal_law(n, m, max_age):
    interval = n / m
    i = int(interval)
    p = np.zeros(max_age + 1, np.float32)
    if max_age < i:
        p[max_age] = 1.0 / (interval - max_age)
    else:
        p[i - 1] = i + 1 - interval
        p[i:] = 1.0
    return p


def run(policy, n, m, rounds, rng):
    max_age = 10
    p = optimal_law(n, m, max_age)
    ages = rng.integers(0, max(1, n // m), n).astype(np.int16)
    sizes = np.ones(n)
    cdf = np.cumsum(sizes) / sizes.sum()
    metrics = Metrics(n)

    def one_round():
        nonlocal ages
        if policy == "markov-optimal":
            u = rng.random(n, dtype=np.float32)
            chosen = np.flatnonzero(u < p[np.minimum(ages, max_age)])
            weights = 1.0 / max(1, len(chosen))
        elif policy == "oldest-first":
            key = ages.astype(np.float32) + rng.random(n, dtype=np.float32)
            chosen = np.argpartition(key, n - m)[n - m :]
            weights = 1.0 / m
        elif policy == "random":
            chosen = rng.choice(n, m, replace=False, shuffle=False)
            weights = 1.0 / m
        else:
            drawn = np.searchsorted(cdf, rng.random(m), side="right")
            times = np.bincount(drawn, minlength=n)
            chosen = np.flatnonzero(times)
            weights = (times[chosen] / m).astype(np.float32)
        metrics.record(chosen, ages, weights)
        ages += 1
        ages[chosen] = 0

    for _ in range(3):
        one_round()
    start = time.perf_counter()
    for _ in range(rounds):
        one_round()
    return (time.perf_counter() - start) / rounds


if __name__ == "__main__":
    n, m, rounds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for policy in sys.argv[4:]:
        print(policy, run(policy, n, m, rounds, np.random.default_rng(1)), flush=True)
