"""A training loop with scikit-learn, in which agewise says who trains."""

import numpy as np
from sklearn.linear_model import SGDClassifier

from agewise import Selector

rng = np.random.default_rng(1)
centres = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
shops = {}
for number in range(20):
    labels = rng.integers(3, size=20 + number)
    shops[f"shop {number}"] = centres[labels] + rng.normal(size=(len(labels), 2)), labels

selector = Selector("oldest-first", clients=shops, cohort=5, seed=1)
coef, intercept = np.zeros((3, 2)), np.zeros(3)
for _ in range(12):
    cohort = selector.select()
    trained = []
    for shop in cohort:
        x, y = shops[shop]
        model = SGDClassifier(loss="log_loss", alpha=0.01, random_state=0)
        model.partial_fit(x[:1], y[:1], classes=[0, 1, 2])
        model.coef_, model.intercept_ = coef.copy(), intercept.copy()
        model.partial_fit(x, y)
        trained.append((model.coef_, model.intercept_))
    weights = cohort.weights
    coef = sum(w * c for w, (c, _) in zip(weights, trained, strict=True))
    intercept = sum(w * i for w, (_, i) in zip(weights, trained, strict=True))
    selector.report(cohort, sizes=[len(shops[shop][1]) for shop in cohort])

x, y = (np.concatenate(part) for part in zip(*shops.values(), strict=True))
model.coef_, model.intercept_ = coef, intercept
print(f"accuracy {model.score(x, y):.2f}, longest wait {selector.metrics().longest_wait}")
