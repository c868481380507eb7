"""Accounts: who gets one, what it may be, and what becomes of it."""
