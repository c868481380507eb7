"""Owners' terms, availability of devices, and wishes from elsewhere."""

from potluck.store.migrations.sql import run_beside

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_beside(__file__)
