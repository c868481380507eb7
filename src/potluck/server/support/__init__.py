"""The support bundle: what helps to find a fault, without secrets. `bundle.py` is the entry."""
