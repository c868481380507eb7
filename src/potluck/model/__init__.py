"""Frozen values that everyone shares. No I/O here, and no import of anything else in Potluck."""
