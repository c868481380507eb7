"""Frozen values that all parts share. No I/O, and no imports from the rest of Potluck."""
