"""Deposits, roots, claims and transactions of contracts, by chain and contract."""
