"""Events are read in an order in which nobody who reads on misses any."""

from potluck.store.migrations.sql import run_beside

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_beside(__file__)
