"""An attempt is locked and read in one trip."""

from potluck.store.migrations.sql import run_beside

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_beside(__file__)
