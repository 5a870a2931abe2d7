"""An asynchronous loop: the model moves whenever some updates have arrived, from whatever round.

Clients that still train are not available; those that were not heard of for long come first.
"""

import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import numpy as np

from agewise import Selector

CLIENTS, AT_A_TIME, BUFFER = 30, 9, 3
targets = np.random.default_rng(1).normal(size=(CLIENTS, 4))
model = np.zeros(4)


def train(client, parameters):
    """The change that a client asks for; slow clients take longer."""
    time.sleep(0.001 * (1 + client % 5))
    return 0.2 * (targets[client] - parameters)


selector = Selector("oldest-first", clients=CLIENTS, cohort=BUFFER, seed=1)
idle, running = set(range(CLIENTS)), {}
with ThreadPoolExecutor(AT_A_TIME) as pool:
    for _ in range(100):
        for client in selector.select(available=idle):
            idle.remove(client)
            running[pool.submit(train, client, model.copy())] = client
        arrived, failed = [], []
        # Until as many train at a time as may, nothing is waited for.
        while len(running) >= AT_A_TIME and len(arrived) < BUFFER:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for update in done:
                client = running.pop(update)
                idle.add(client)
                if update.exception() is None:
                    model += update.result() / BUFFER
                    arrived.append(client)
                else:
                    failed.append(client)
        selector.report(arrived, failed=failed)

error = float(np.abs(model - targets.mean(axis=0)).max())
never = selector.metrics().never_selected
print(f"error {error:.2f}, never heard of {never}, longest wait {selector.metrics().longest_wait}")
