"""Metrics for Prometheus, as server and provider declare and export them."""
