"""Federated learning on the embedded digits: agewise chooses the clients and trains them."""
