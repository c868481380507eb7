"""Runs the SQL file that stands beside a migration, whole, as PostgreSQL reads it."""

from pathlib import Path

from alembic import op


def run_beside(migration: str) -> None:
    """SQL is kept as SQL: `0001_x.py` names the revision, `0001_x.sql` says what it does."""
    statements = Path(migration).with_suffix(".sql").read_text()
    adapted = op.get_bind().connection.dbapi_connection
    assert adapted is not None
    # Past SQLAlchemy's prepared statements, which take one command at a time.
    adapted.run_async(lambda connection: connection.execute(statements))
