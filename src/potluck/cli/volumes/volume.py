"""`potluck volume`: named data sets that tasks mount read-only."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.live_line import report_progress, resumable_transfer
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_list, show_table
from potluck.model.blob import SHORT_VERSION, check_volume_name
from potluck.model.error import InvalidInput
from potluck.model.units import parse_seconds, show_age, show_bytes, show_count, show_seconds
from potluck.wire.volumes import VolumeDetails, VolumeFile, VolumeVersion, VolumeView

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The volume; another account's is WALLET/NAME.")
]
WalletsArgument = Annotated[
    list[str], typer.Argument(metavar="WALLET...", help="Wallets of other accounts.")
]


def put(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The volume; made if it is new.")],
    sources: Annotated[
        list[Path], typer.Argument(metavar="DIR|FILE...", help="A folder, or files and folders.")
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Put files into a volume, as its newest version.

    The files of one folder keep their paths in it; several files and folders keep their names. Only
    data that none of my volumes has yet is sent. An interrupted put resumes when it is repeated.
    """
    screen = Screen(json)
    check_volume_name(name)
    with connect(server) as potluck, resumable_transfer(screen) as line:
        progress = report_progress(screen, line, f"Sending {name}")
        result = potluck.volumes.put(name, *sources, on_progress=progress)
    if json:
        screen.emit(result)
        return
    newest = result.volume.versions[0]
    size = f"{show_count(newest.files, 'file')}, {show_bytes(newest.size_bytes)}"
    what = f"{name}@{newest.version[:SHORT_VERSION]} ({size})"
    if result.is_new:
        screen.out.line(f"✓ {what}: sent {show_bytes(result.sent_bytes)}.", Tone.GOOD)
    else:
        screen.out.line(f"{what} has this content already.")
    screen.err.prose(f"Mount it with `potluck run --volume {name}:/data SCRIPT`.")


def list_volumes(server: ServerOption = None, json: JsonOption = False) -> None:
    """List my volumes, and those shared with me."""
    screen = Screen(json)
    with connect(server) as potluck:
        volumes = potluck.volumes.list()
    show_list(
        screen,
        "volumes",
        volumes,
        _show_volumes,
        "You have no volumes. Make one with `potluck volume put NAME DIR`.",
    )


def _show_volumes(pane: Pane, volumes: Sequence[VolumeView]) -> None:
    columns = [
        TableColumn("NAME", shrinks=True),
        TableColumn("VERSION"),
        TableColumn("FILES", is_number=True),
        TableColumn("SIZE", is_number=True),
        TableColumn("VERSIONS", is_number=True),
        TableColumn("STORED", is_number=True),
        TableColumn("PUT", is_number=True),
        TableColumn("SHARED", shrinks=True),
    ]
    now = datetime.now(UTC)
    show_table(pane, columns, [_row(volume, now) for volume in volumes])


def _row(volume: VolumeView, now: datetime) -> list[Cell]:
    name = volume.name if volume.is_own else f"{volume.owner}/{volume.name}"
    shared = f"with {len(volume.shared_with)}" if volume.shared_with else ""
    return [
        Cell(name, Tone.STRONG),
        Cell(volume.newest.version[:SHORT_VERSION]),
        Cell(f"{volume.newest.files:,}"),
        Cell(show_bytes(volume.newest.size_bytes)),
        Cell(str(volume.versions)),
        Cell(show_bytes(volume.stored_bytes)),
        Cell(show_age(volume.newest.put_at, now)),
        Cell(shared if volume.is_own else "with me", Tone.FAINT),
    ]


def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME[@VERSION]", help="The volume, or [WALLET/]NAME.")
    ],
    files: Annotated[bool, typer.Option("--files", help="List the files of the version.")] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the versions or the files of a volume."""
    screen = Screen(json)
    plain, at, version = name.partition("@")
    with connect(server) as potluck:
        if files or at:
            listed = potluck.volumes.files(plain, version if at else None)
            _show_files(screen, listed, as_json=json)
        else:
            _show(screen, potluck.volumes.get(name), as_json=json)


def _show(screen: Screen, details: VolumeDetails, *, as_json: bool) -> None:
    if as_json:
        screen.emit(details)
        return
    volume, now = details.volume, datetime.now(UTC)
    columns = [
        TableColumn("VERSION"),
        TableColumn("FILES", is_number=True),
        TableColumn("SIZE", is_number=True),
        TableColumn("PUT", is_number=True),
        TableColumn("USED", is_number=True),
    ]
    show_table(screen.out, columns, [_version_row(version, now) for version in details.versions])
    screen.err.prose(f"{show_bytes(volume.stored_bytes)} are stored. {_describe_rules(volume)}")


def _version_row(version: VolumeVersion, now: datetime) -> list[Cell]:
    return [
        Cell(version.version[:SHORT_VERSION], Tone.STRONG),
        Cell(f"{version.files:,}"),
        Cell(show_bytes(version.size_bytes)),
        Cell(show_age(version.put_at, now)),
        Cell(show_age(version.used_at, now)),
    ]


_DAY_SECONDS = 86_400


def _describe_rules(volume: VolumeView) -> str:
    sentences = []
    if volume.shared_with:
        sentences.append(f"Shared with {', '.join(volume.shared_with)}.")
    if volume.keep_versions is not None:
        sentences.append(f"The newest {show_count(volume.keep_versions, 'version')} are kept.")
    if volume.keep_seconds is not None:
        days = volume.keep_seconds / _DAY_SECONDS
        time = (
            show_count(int(days), "day") if days.is_integer() else show_seconds(volume.keep_seconds)
        )
        sentences.append(f"Versions unused for {time} are removed.")
    return " ".join(sentences)


def remove(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME[@VERSION]...", help="Volumes, or versions of them.")
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Remove volumes or versions of them.

    Tasks that mount one keep it until they have ended.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        for text in names:
            name, at, version = text.partition("@")
            potluck.volumes.remove(name, version if at else None)
            if not json:
                screen.out.line(f"Removed {printable(text)}.")
    if json:
        screen.emit({"removed": names})


def share(
    name: NameArgument,
    wallets: WalletsArgument,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="Stop sharing; tasks that were submitted before still get it."),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Let other wallets mount and read a volume."""
    screen = Screen(json)
    with connect(server) as potluck:
        change = potluck.volumes.unshare if stop else potluck.volumes.share
        details = change(name, *wallets)
    shared = details.volume.shared_with
    sentence = f"Shared with {', '.join(shared)}." if shared else "Not shared with other accounts."
    how = f" They mount it as {details.volume.owner}/{name}." if shared else ""
    _tell(screen, details, f"{sentence}{how}", as_json=json)


def keep(
    name: NameArgument,
    versions: Annotated[
        int | None, typer.Option(min=1, max=1_000, metavar="N", help="Keep the newest N versions.")
    ] = None,
    unused: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Remove versions that have not been used for this long, such as 30d.",
        ),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Limit how many versions are kept, and for how long.

    Without options all versions are kept.
    """
    screen = Screen(json)
    seconds = None if unused is None else parse_seconds(unused, "--unused")
    if seconds is not None and seconds < 60:
        raise InvalidInput("--unused must be at least a minute.", "Write it like 30d.")
    with connect(server) as potluck:
        details = potluck.volumes.keep(name, versions=versions, seconds=seconds)
    rules = _describe_rules(details.volume) or "All versions are kept until you remove them."
    _tell(screen, details, rules, as_json=json)


def _tell(screen: Screen, details: VolumeDetails, *sentences: str, as_json: bool) -> None:
    if as_json:
        screen.emit(details)
    else:
        for sentence in sentences:
            screen.out.prose(sentence)


def _show_files(screen: Screen, files: Sequence[VolumeFile], *, as_json: bool) -> None:
    if as_json:
        listed = [{"path": file.path, "size_bytes": file.size_bytes} for file in files]
        screen.emit({"files": listed})
        return
    columns = [TableColumn("PATH", shrinks=True), TableColumn("SIZE", is_number=True)]
    rows = [[Cell(file.path, Tone.STRONG), Cell(show_bytes(file.size_bytes))] for file in files]
    show_table(screen.out, columns, rows)
