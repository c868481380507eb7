"""A task may be another one, tried again."""

from potluck.store.migrations.sql import run_beside

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_beside(__file__)
