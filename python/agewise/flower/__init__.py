"""agewise in Flower: client selection by age, in a strategy or by the clients themselves.

- [`AgeStrategy`][agewise.flower.AgeStrategy] replaces Flower's `FedAvg` in a ServerApp.
- [`AgeSelection`][agewise.flower.AgeSelection] selects the clients of any other strategy: FedProx,
  FedAdam, Krum, differential privacy.
- `identify` and `identity_mod` let a ClientApp state its partition id.
- `age_mod` lets each client decide on its own whether it trains (the decentralised mode).

```python
from flwr.clientapp import ClientApp
from agewise.flower import AgeStrategy, identify

app = identify(ClientApp())
strategy = AgeStrategy(policy="oldest-first", clients=100, cohort=15, seed=1)
```
"""

try:
    import flwr as _flwr  # noqa: F401  (only to say what is missing)
except ImportError as missing:
    raise ImportError(
        "agewise.flower needs Flower 1.30 or newer, which is not installed: "
        'pip install "agewise[flower]"'
    ) from missing

from agewise.flower.client import age_mod, identify, identity_mod, server_round
from agewise.flower.selection import AgeSelection
from agewise.flower.strategy import AgeStrategy

__all__ = ["AgeSelection", "AgeStrategy", "age_mod", "identify", "identity_mod", "server_round"]
