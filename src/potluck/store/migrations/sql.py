"""Runs the SQL file next to a migration as one script."""

from pathlib import Path

from alembic import op


def run_beside(migration: str) -> None:
    """`0001_x.py` names the revision, `0001_x.sql` contains its statements."""
    statements = Path(migration).with_suffix(".sql").read_text()
    adapted = op.get_bind().connection.dbapi_connection
    assert adapted is not None
    # Bypasses SQLAlchemy's prepared statements, which take one command at a time.
    adapted.run_async(lambda connection: connection.execute(statements))
