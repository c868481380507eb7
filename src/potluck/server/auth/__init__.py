"""Authentication of callers."""
