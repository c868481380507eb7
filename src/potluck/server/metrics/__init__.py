"""What the server tells Prometheus about itself and the pool. Start at `definitions.py`."""
