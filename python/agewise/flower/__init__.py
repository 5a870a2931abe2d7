"""agewise in Flower: client selection by age, in a strategy or by the clients themselves.

- [`AgeStrategy`][agewise.flower.AgeStrategy] replaces Flower's `FedAvg` in a ServerApp.
- [`AgeSelection`][agewise.flower.AgeSelection] selects the clients of any other strategy: FedProx,
  FedAdam, Krum, differential privacy.
- `identify` and `identity_mod` let a ClientApp state its partition id.
- `probe_kind` tells a ClientApp that its update is only looked at.
- `age_mod` lets each client decide on its own whether it trains (the decentralised mode).

```python
from flwr.clientapp import ClientApp
from agewise.flower import AgeStrategy, identify

app = identify(ClientApp())
strategy = AgeStrategy(policy="oldest-first", clients=100, cohort=15, seed=1)
```
"""

from agewise.flower import _required  # noqa: F401  (first: it says what is missing)
from agewise.flower.client import age_mod, identify, identity_mod, server_round
from agewise.flower.probes import probe_kind
from agewise.flower.selection import AgeSelection
from agewise.flower.strategy import AgeStrategy

__all__ = [
    "AgeSelection",
    "AgeStrategy",
    "age_mod",
    "identify",
    "identity_mod",
    "probe_kind",
    "server_round",
]
