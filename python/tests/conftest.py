"""What the tests share."""

import os

import pytest

# Before anything of Flower or Ray is imported: nothing is sent anywhere.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def pytest_configure(config: pytest.Config) -> None:
    """Names the markers of these tests."""
    config.addinivalue_line(
        "markers", "flower_run: runs Flower for real, in simulation or deployment (slow)"
    )
