"""Attempts: assigned, leased, reported and ended."""
