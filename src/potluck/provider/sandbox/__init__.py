"""Sandboxes for untrusted code: the interface is in `driver.py`, each driver has its own module."""
