"""Wallets instead of tokens: accounts with roles, sessions, API keys, invites and the audit."""

from potluck.store.migrations.sql import run_beside

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_beside(__file__)
