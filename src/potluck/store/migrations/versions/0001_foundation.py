"""Accounts, nodes, devices, tasks, attempts, the ledger, the outbox and the leader's row."""

from potluck.store.migrations.sql import run_beside

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_beside(__file__)
