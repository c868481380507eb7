"""Claims that are due are found by their account."""

from potluck.store.migrations.sql import run_beside

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_beside(__file__)
