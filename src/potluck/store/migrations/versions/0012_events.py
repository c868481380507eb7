"""Events have a place in the order in which they are told, and are forgotten by their age."""

from potluck.store.migrations.sql import run_beside

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_beside(__file__)
