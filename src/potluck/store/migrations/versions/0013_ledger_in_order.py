"""An account reads its ledger by kind and time."""

from potluck.store.migrations.sql import run_beside

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_beside(__file__)
