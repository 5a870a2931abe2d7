"""Estimators of scikit-learn as tasks of :func:`agewise.compare`: all that have ``partial_fit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from agewise.checks import positive, shown
from agewise.task import Parameters, by_client

try:
    from sklearn.base import is_classifier
except ImportError as error:
    raise ImportError("agewise.sklearn needs scikit-learn: pip install scikit-learn") from error

#: Where linear models and networks keep what they have learnt.
_LINEAR, _NETWORK = ("coef_", "intercept_"), ("coefs_", "intercepts_")
#: The least probability in a logarithm.
_LEAST = 1e-12


class PartialFitTask:
    """Clients that call ``partial_fit`` on their own data.

    - ``estimator``: an estimator with ``partial_fit`` and coefficients: ``SGDClassifier``,
      ``SGDRegressor``, ``Perceptron``, ``MLPClassifier``, ``MLPRegressor``. It is copied.
    - ``client_data``: for each client a pair (inputs, targets); in a list, or in a dict by the
      names of the clients.
    - ``test``: a pair on which models are evaluated: by accuracy, or by the squared error of
      estimators that are no classifiers.
    - ``epochs``: how often ``partial_fit`` sees the data of a client in a round.

    The first model of a linear estimator is 0. That of a network is drawn under the seed of the
    run, with one step on one sample of the first client, because scikit-learn draws it then.
    """

    def __init__(
        self,
        estimator: Any,
        client_data: Sequence[Any] | Mapping[Any, Any],
        test: Any,
        *,
        epochs: int = 1,
        name: str = "own data",
    ) -> None:
        if not callable(getattr(estimator, "partial_fit", None)):
            expected = "an estimator with partial_fit"
            raise ValueError(f"estimator = {shown(estimator)}: expected {expected}")
        named = by_client(client_data)
        self._data = {client: _pair(f"data of client {client!r}", d) for client, d in named}
        if not self._data:
            raise ValueError("client_data = []: expected at least one client")
        self._test = _pair("test", test)
        width = self._test[0].shape[1]
        for client, (inputs, _) in self._data.items():
            if inputs.shape[1] != width:
                field, found = f"data of client {client!r}", f"{inputs.shape[1]} columns"
                raise ValueError(f"{field} = {found}: expected {width}, as in test")
        #: The number of samples of each client.
        self.clients = {client: len(targets) for client, (_, targets) in self._data.items()}
        self._epochs = positive("epochs", epochs)
        self._classifies = bool(is_classifier(estimator))
        self._classes = np.unique(np.concatenate([targets for _, targets in self._data.values()]))
        if self._classifies:
            strange = np.flatnonzero(~np.isin(self._test[1], self._classes))
            if strange.size:
                field, found = f"test, row {strange[0]}", shown(self._test[1][strange[0]])
                expected = f"one of the {len(self._classes)} classes that clients have"
                raise ValueError(f"{field}: target {found}: expected {expected}")
        self._estimator = estimator
        #: By which models are compared.
        self.metric = "accuracy" if self._classifies else "loss"
        #: What reports call the data and the model.
        self.name, self.model = name, type(estimator).__name__
        first = self._begun(0)
        self._kept = next((kept for kept in (_NETWORK, _LINEAR) if hasattr(first, kept[0])), None)
        if self._kept is None:
            expected = "one that has coef_ or coefs_ after partial_fit"
            raise ValueError(f"estimator = {shown(estimator)}: expected {expected}")

    def _begun(self, seed: int) -> Any:
        """An estimator that knows its shapes."""
        begun = deepcopy(self._estimator)
        if "random_state" in begun.get_params():
            begun.set_params(random_state=seed)
        inputs, targets = next(iter(self._data.values()))
        self._fit(begun, inputs[:1], targets[:1])
        return begun

    def _fit(self, estimator: Any, inputs: Any, targets: Any) -> None:
        classes = {"classes": self._classes} if self._classifies else {}
        estimator.partial_fit(inputs, targets, **classes)

    def _arrays(self, estimator: Any) -> list[Any]:
        """The arrays of an estimator, which are views."""
        assert self._kept is not None
        found = [getattr(estimator, name) for name in self._kept]
        return [array for part in found for array in (part if isinstance(part, list) else [part])]

    def _with(self, parameters: Parameters, seed: int) -> Any:
        estimator, begin = self._begun(seed), 0
        for array in self._arrays(estimator):
            array[...] = parameters[begin : begin + array.size].reshape(array.shape)
            begin += array.size
        return estimator

    def _parameters(self, estimator: Any) -> Parameters:
        arrays = [np.asarray(a, dtype=np.float32).ravel() for a in self._arrays(estimator)]
        return np.concatenate(arrays)

    def initial(self, seed: int) -> Parameters:
        """The first model under a seed."""
        first = self._parameters(self._begun(seed))
        return first if self._kept == _NETWORK else np.zeros_like(first)

    def train(
        self, client: Any, parameters: Parameters, round: int, seed: int
    ) -> tuple[Parameters, dict[str, float]]:
        """Trains for a round."""
        estimator = self._with(parameters, seed)
        inputs, targets = self._data[client]
        losses = self._losses(estimator, inputs, targets)
        for _ in range(self._epochs):
            self._fit(estimator, inputs, targets)
        metrics = {
            "loss": float(losses.mean()),
            "root_mean_square": float(np.sqrt((losses**2).mean())),
            "samples": self._epochs * len(targets),
        }
        return self._parameters(estimator), metrics

    def evaluate(self, parameters: Parameters) -> dict[str, float]:
        """The loss and, of classifiers, the accuracy on the test data."""
        estimator = self._with(parameters, 0)
        inputs, targets = self._test
        losses = self._losses(estimator, inputs, targets)
        metrics = {"loss": float(losses.mean()), "samples": len(targets)}
        if self._classifies:
            metrics["accuracy"] = float((estimator.predict(inputs) == targets).mean())
        return metrics

    def client_loss(self, client: Any, parameters: Parameters) -> float:
        """The mean loss of all samples of a client."""
        return float(self._losses(self._with(parameters, 0), *self._data[client]).mean())

    def _losses(self, estimator: Any, inputs: Any, targets: Any) -> Any:
        """The loss of each sample: logarithmic if there are probabilities, else 0 or 1; or the
        squared error.
        """
        if not self._classifies:
            return (estimator.predict(inputs) - targets) ** 2
        if not hasattr(estimator, "predict_proba"):
            return (estimator.predict(inputs) != targets).astype(float)
        places = np.searchsorted(self._classes, targets)
        found = estimator.predict_proba(inputs)[np.arange(len(targets)), places]
        return -np.log(np.maximum(found, _LEAST))


def _pair(what: str, given: Any) -> tuple[Any, Any]:
    if not (isinstance(given, (tuple, list)) and len(given) == 2):
        raise ValueError(f"{what} = {shown(given)}: expected a pair of inputs and targets")
    inputs, targets = np.asarray(given[0]), np.asarray(given[1])
    if inputs.ndim != 2 or targets.shape != (len(inputs),) or not len(inputs):
        shapes = f"{list(inputs.shape)} and {list(targets.shape)}"
        expected = "a table of inputs with at least one row, and as many targets"
        raise ValueError(f"{what} = {shapes}: expected {expected}")
    if not np.isfinite(inputs).all():
        row = int(np.flatnonzero(~np.isfinite(inputs).all(axis=1))[0])
        raise ValueError(f"{what} = not finite in row {row}: expected finite numbers")
    if np.issubdtype(targets.dtype, np.floating) and not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise ValueError(f"{what}, row {row}: target {targets[row]}: expected a finite number")
    return inputs, targets
