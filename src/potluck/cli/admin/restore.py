"""`potluck admin restore`: a server from a backup, on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.admin.backup import show_progress
from potluck.cli.admin.backup_secret import BackupKeyFileOption, known_secret
from potluck.cli.admin.local_server import LocalServerOptions, read_local_settings, run_locally
from potluck.cli.options import JsonOption, expand_option_groups
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.units import show_bytes, show_count

if TYPE_CHECKING:
    from potluck.server.backup.place import BackupPlace
    from potluck.server.backup.restore import RestoreReport
    from potluck.server.backup.run import Progress
    from potluck.server.settings import ServerSettings


@expand_option_groups
def restore(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="The directory or the file with the backup.", show_default=False
        ),
    ],
    options: LocalServerOptions,
    name: Annotated[
        str | None,
        typer.Option(
            "--backup", metavar="NAME", help="Which backup of a directory.", show_default="newest"
        ),
    ] = None,
    key_file: BackupKeyFileOption = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if the database is not empty: its tables are moved to another schema.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Restore a backup into an empty database and data directory."""
    screen = Screen(json)
    settings = read_local_settings(options)
    place = _place(path, key_file)
    with LiveLine(screen) as line:
        report = run_locally(
            _restore(settings, place, name, force, show_progress(line, screen.err.is_live))
        )
    if json:
        screen.emit(_summary(report, settings))
    else:
        _show(screen, report, settings)


def _place(path: Path, key_file: Path | None) -> "BackupPlace":
    from potluck.server.backup.archive import FileBackup
    from potluck.server.backup.directory import DirectoryBackups

    if path.is_dir():
        secret = known_secret(DirectoryBackups.is_encrypted_at(path), key_file)
        return DirectoryBackups.open(path, secret)
    return FileBackup(path, known_secret(FileBackup.is_encrypted_at(path), key_file))


async def _restore(
    settings: "ServerSettings",
    place: "BackupPlace",
    name: str | None,
    force: bool,
    progress: "Progress",
) -> "RestoreReport":
    from potluck.server.backup.restore import restore_backup
    from potluck.server.encryption.key_sources import key_place
    from potluck.server.stored_data import blobs_of, own_database_of

    with place.read(name) as reader:
        async with own_database_of(settings) as url, blobs_of(settings, is_owner=True) as blobs:
            keys = key_place(settings)
            return await restore_backup(
                url, blobs, keys, reader, place.is_encrypted, force, progress
            )


def _summary(report: "RestoreReport", settings: "ServerSettings") -> dict[str, object]:
    return {
        "name": report.name,
        "id": report.manifest.id,
        "started_at": report.manifest.started_at,
        "rows": sum(table.rows for table in report.manifest.tables),
        "blobs": report.manifest.blobs,
        "size_bytes": report.manifest.size_bytes,
        "data_directory": str(settings.data_directory),
        "restored_encryption_key": report.restored_keys,
        "lacks_encryption_key": report.lacks_keys,
        "previous_schema": report.set_aside,
    }


def _show(screen: Screen, report: "RestoreReport", settings: "ServerSettings") -> None:
    manifest = report.manifest
    rows = sum(table.rows for table in manifest.tables)
    screen.out.line(
        f"Restored {show_count(rows, 'row')} and {show_count(manifest.blobs, 'file')}"
        f" ({show_bytes(manifest.size_bytes)})"
        f" as of {manifest.started_at:%Y-%m-%d %H:%M:%S} UTC. The ledger sums to zero."
    )
    if report.set_aside is not None:
        screen.out.line(f"The earlier tables are in the schema {report.set_aside}.")
    if report.lacks_keys:
        ids = ", ".join(manifest.sealed_by)
        screen.err.prose(
            f"Before the first start, put the server's encryption key ({ids}) into"
            f" {settings.data_directory / 'encryption-key'}, with mode 600.",
            Tone.WAITING,
        )
    screen.err.prose(
        "Keys, sessions and invites that were revoked or used after the backup are valid again:"
        " revoke them again. Tasks that finished after it run again."
    )
