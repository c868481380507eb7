"""The schema's history: SQL files that are applied in the order of their numbers.

A committed migration is never edited; a change is a new file. A test compares them with the
history of git, and `potluck.store.schema` with what was applied to a database.
"""
