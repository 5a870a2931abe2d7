"""Seconds per round of Flower on the `cnn` workload: one app, three trainers inside its clients."""
