"""The leader's state in memory, and how it is kept in step with the database."""
