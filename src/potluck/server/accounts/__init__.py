"""Accounts: registration, roles, credit, quotas and suspension."""
