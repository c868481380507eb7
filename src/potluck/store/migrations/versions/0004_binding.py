"""Node keys, and devices that are bound to one wallet."""

from potluck.store.migrations.sql import run_beside

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_beside(__file__)
