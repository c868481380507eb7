"""Events are sent to addresses that accounts name, again and again until they have arrived."""

from potluck.store.migrations.sql import run_beside

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_beside(__file__)
