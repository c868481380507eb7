"""What Alembic runs: the connection is handed in by `potluck.store.schema.migrate`."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, version_table="schema_version")
with context.begin_transaction():
    context.run_migrations()
