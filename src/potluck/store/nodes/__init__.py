"""Nodes and their devices: availability, bindings and owner requests."""
