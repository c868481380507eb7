"""Accounts, their keys and sessions, and the audit log."""
