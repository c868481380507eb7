"""Builds a TaskRequest from the command line of `run`, `submit` and `map`."""
