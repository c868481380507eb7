"""Settle: an attempt ends and is paid for in one transaction. Start with `settle`."""
