"""Tasks, their dependencies, failed items and function results."""
