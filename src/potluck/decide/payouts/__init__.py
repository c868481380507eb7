"""Deposits and payouts on a chain: which blocks to read, which root and transaction are next."""
