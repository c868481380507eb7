"""A migration that was committed is never edited: databases have it as it was."""

from potluck.store.schema import REPAIR, read_migrations
from tests.store.schema_history import FOLDER, git, need_history

# A file that is renamed is deleted in its place.
_EDITS = ("--no-renames", "--diff-filter=MDT", "--name-only")
_LOG = ("log", "-m", "--first-parent", "--format=", *_EDITS)


def test_no_committed_migration_was_edited_since_the_repair() -> None:
    """Up to then many were, and what the repair makes equal is what was there when it came."""
    need_history()
    repair = f"{FOLDER}/{REPAIR}_repair.sql"
    added = git("log", "--first-parent", "-m", "--diff-filter=A", "--format=%H", "--", repair)
    if not added:
        return  # it is not committed yet
    since = added.split()[-1]
    edited = git(*_LOG, f"{since}..HEAD", "--", f"{FOLDER}/*.sql")
    edited += git("diff", *_EDITS, "HEAD", "--", f"{FOLDER}/*.sql")
    assert edited.split() == [], "a committed migration is never edited; write a new one"


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [each.number for each in read_migrations()]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
