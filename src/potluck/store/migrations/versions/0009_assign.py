"""What items of arrays took, for those of the same name; and what is news to a snapshot."""

from potluck.store.migrations.sql import run_beside

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_beside(__file__)
