"""What the provider tells Prometheus, on loopback, if its owner wants that."""
