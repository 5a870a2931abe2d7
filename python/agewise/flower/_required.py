"""Says what is missing if Flower is not installed, or if its version is too old."""

#: The oldest version of Flower that the tests run with.
OLDEST = (1, 24)

try:
    import flwr as _flwr
except ImportError as missing:
    raise ImportError(
        "agewise.flower needs Flower 1.24 or newer, which is not installed: "
        'pip install "agewise[flower]"'
    ) from missing

if tuple(int(part) for part in _flwr.__version__.split(".")[:2]) < OLDEST:
    raise ImportError(
        f"agewise.flower needs Flower 1.24 or newer, and flwr {_flwr.__version__} is installed: "
        'pip install --upgrade "flwr>=1.24"'
    )
