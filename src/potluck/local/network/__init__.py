"""Names of hosts: looking them up, and presets that stand for several."""
