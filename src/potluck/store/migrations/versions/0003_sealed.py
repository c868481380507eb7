"""What is sensitive is sealed: what tasks are made of, and the installation's secret."""

from potluck.store.migrations.sql import run_beside

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_beside(__file__)
