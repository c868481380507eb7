"""Housekeeping: what has expired is ended, and what is unused is removed. Start with `expire`."""
