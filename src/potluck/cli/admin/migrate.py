"""`potluck admin migrate`: the schema of the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.admin.local_server import (
    LocalServerOptions,
    read_settings_of_existing,
    run_locally,
)
from potluck.cli.options import JsonOption, expand_option_groups
from potluck.cli.terminal.screen import Screen, Tone

if TYPE_CHECKING:
    from potluck.server.settings import ServerSettings
    from potluck.store.schema import Migration


@expand_option_groups
def migrate_database(
    options: LocalServerOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be applied; change nothing.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the SQL of each migration.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Bring the database to the schema of this version, or show what that would do."""
    screen = Screen(json)
    settings = read_settings_of_existing(options)
    migrations = run_locally(_migrate(settings, dry_run))
    if json:
        key = "pending" if dry_run else "applied"
        screen.emit({key: [_described(migration, verbose) for migration in migrations]})
        return
    if not migrations:
        screen.out.line("The database has the schema of this version.")
    for migration in migrations:
        screen.out.line(
            f"{'would apply' if dry_run else 'applied'} {migration.number} {migration.name}"
        )
        if verbose:
            screen.out.line(migration.text.rstrip(), Tone.FAINT)


async def _migrate(settings: "ServerSettings", dry_run: bool) -> "list[Migration]":
    from potluck.server.stored_data import database_of
    from potluck.store.schema import list_pending, migrate

    async with database_of(settings) as url:
        if dry_run:
            return await list_pending(url)
        return await migrate(url, settings.migration_lock_seconds)


def _described(migration: "Migration", verbose: bool) -> dict[str, str]:
    described = {"number": migration.number, "name": migration.name}
    return {**described, "sql": migration.text} if verbose else described
