"""Federated learning with a PyTorch model: agewise chooses the clients."""
