"""What the tests share."""

import os
from collections.abc import Generator

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that skips for want of a library fails where all of them are said to be there."""
    report = yield
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if os.environ.get("AGEWISE_FRAMEWORKS") and report.skipped and "could not import" in reason:
        report.outcome = "failed"
        report.longrepr = f"AGEWISE_FRAMEWORKS is set, and {item.nodeid} was skipped: {reason}"
    return report
