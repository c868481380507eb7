"""Blobs and whose they are, files, results, secrets and checkpoints of tasks."""

from potluck.store.migrations.sql import run_beside

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_beside(__file__)
