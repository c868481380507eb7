"""Payout: deposits and claims on a chain reach the ledger, and rewards reach the contract.

Start with `payout`.
"""
