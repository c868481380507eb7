"""`potluck admin backup`: the database and the files, in a directory or a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.admin.backup_secret import BackupKeyFileOption, new_secret
from potluck.cli.admin.local_server import (
    LocalServerOptions,
    read_settings_of_existing,
    run_locally,
)
from potluck.cli.options import JsonOption, expand_option_groups
from potluck.cli.terminal.live_line import LiveLine, draw_bar
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import InvalidInput
from potluck.model.units import show_bytes, show_count

if TYPE_CHECKING:
    from potluck.server.backup.encryption import BackupSecret
    from potluck.server.backup.place import BackupPlace
    from potluck.server.backup.run import BackupOptions, BackupReport, Progress
    from potluck.server.settings import ServerSettings


@expand_option_groups
def backup(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A directory, which keeps several backups and copies each file once; or a file"
            " for one backup, with a name that ends in .potluck.",
            show_default=False,
        ),
    ],
    options: LocalServerOptions,
    encrypt: Annotated[
        bool,
        typer.Option(
            "--encrypt", help="Encrypt with a passphrase: POTLUCK_BACKUP_PASSPHRASE, or asked for."
        ),
    ] = False,
    key_file: BackupKeyFileOption = None,
    without_key: Annotated[
        bool,
        typer.Option(
            "--without-key", help="Leave the server's encryption key out of an encrypted backup."
        ),
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Remove all but the newest N backups afterwards."),
    ] = None,
    check_all: Annotated[
        bool,
        typer.Option(
            "--check-all",
            help="Also reread files that earlier backups copied, and copy damaged ones again.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Back up the database and the files, even while the server runs."""
    screen = Screen(json)
    settings = read_settings_of_existing(options)
    if path.resolve().is_relative_to(settings.data_directory.resolve()):
        raise InvalidInput(
            f"{path} is in the server's data directory, which is what is backed up.",
            "Name a place outside of it, best on another disk.",
        )
    secret = new_secret(encrypt, key_file)
    place = _place(path, secret, keep)
    from potluck.server.backup.run import BackupOptions

    keys = None if secret is None or without_key else _keys(settings)
    chosen = BackupOptions(keys, keep, check_all)
    with LiveLine(screen) as line:
        progress = show_progress(line, screen.err.is_live)
        report = run_locally(_back_up(settings, place, chosen, progress))
    if json:
        screen.emit(_summary(report, path))
    else:
        _show(screen, report, path)


def show_progress(line: LiveLine, is_live: bool) -> "Progress":
    """A bar in a terminal; elsewhere one line for each step."""

    def report(what: str, done: int, total: int) -> None:
        line.say(f"{what}: {draw_bar(done * 100 // total)}" if total and is_live else what)

    return report


def _place(path: Path, secret: "BackupSecret | None", keep: int | None) -> "BackupPlace":
    from potluck.server.backup.archive import FileBackup
    from potluck.server.backup.directory import DirectoryBackups
    from potluck.server.backup.place import SUFFIX

    if path.suffix != SUFFIX:
        return DirectoryBackups.create(path, secret)
    if keep is not None:
        raise InvalidInput("A file holds one backup, so --keep does nothing.", "Name a directory.")
    return FileBackup(path, secret)


def _keys(settings: "ServerSettings") -> bytes:
    from potluck.server.encryption.key_sources import key_place

    return "".join(f"{key.hex()}\n" for key in key_place(settings).read().keys).encode()


async def _back_up(
    settings: "ServerSettings", place: "BackupPlace", options: "BackupOptions", progress: "Progress"
) -> "BackupReport":
    from potluck.server.backup.run import make_backup
    from potluck.server.stored_data import blobs_of, database_of

    async with database_of(settings) as url, blobs_of(settings, is_owner=False) as blobs:
        return await make_backup(url, blobs, place, options, progress)


def _summary(report: "BackupReport", path: Path) -> dict[str, object]:
    manifest = report.manifest
    return {
        "path": str(path),
        "name": report.name,
        "id": manifest.id,
        "started_at": manifest.started_at,
        "finished_at": manifest.finished_at,
        "size_bytes": manifest.size_bytes,
        "new_bytes": report.new_bytes,
        "rows": sum(table.rows for table in manifest.tables),
        "blobs": manifest.blobs,
        "missing_blobs": manifest.missing_blobs,
        "read_blobs": report.read_blobs,
        "replaced_blobs": report.replaced_blobs,
        "is_encrypted": report.is_encrypted,
        "has_encryption_key": manifest.has_keys,
        "removed": report.removed,
    }


def _show(screen: Screen, report: "BackupReport", path: Path) -> None:
    manifest = report.manifest
    rows = sum(table.rows for table in manifest.tables)
    screen.out.line(
        f"{path}: {show_count(rows, 'row')} and {show_count(manifest.blobs, 'file')},"
        f" {show_bytes(manifest.size_bytes)},"
        f" of which {show_bytes(report.new_bytes)} are new. {_about_check(report)}"
    )
    if report.replaced_blobs:
        screen.err.prose(
            f"Files of the backup that were damaged, and were replaced: {report.replaced_blobs:,}."
            " Check the disk.",
            Tone.WAITING,
        )
    if report.removed:
        screen.out.line(f"Older backups removed: {report.removed}.")
    if manifest.missing_blobs:
        missing = show_count(manifest.missing_blobs, "file or log", "files or logs")
        screen.err.prose(
            f"The database names {missing} that the server does not"
            " have. The backup does not have them either.",
            Tone.WAITING,
        )
    screen.err.prose(_about_key(manifest.has_keys))


def _about_check(report: "BackupReport") -> str:
    if report.read_blobs == report.manifest.blobs:
        return "All were read again and verified."
    return (
        f"The rows and {show_count(report.read_blobs, 'new file')} were read again and verified;"
        " `--check-all` reads all."
    )


def _about_key(has_keys: bool) -> str:
    if has_keys:
        return (
            "The backup contains the server's encryption key. Keep the passphrase or the key file"
            " of the backup elsewhere: without it nothing can be restored."
        )
    return (
        "The backup does not contain the server's encryption key. Keep a copy of that elsewhere:"
        " without it a restored server does not start."
    )
