"""The queue: arrays, dependencies, quotas, and what the scheduler reads changes by."""

from potluck.store.migrations.sql import run_beside

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_beside(__file__)
