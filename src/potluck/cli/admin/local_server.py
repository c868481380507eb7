"""Options of commands that work on a server's data on its own machine, without its API."""

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from potluck.cli.options import DataDirOption
from potluck.local.optional_dependency import server_part_missing
from potluck.model.error import OutputLost

if TYPE_CHECKING:
    from potluck.server.settings import ServerSettings

T = TypeVar("T")


@dataclass(frozen=True)
class LocalServerOptions:
    """As for `potluck server`; the same POTLUCK_ variables apply."""

    data_directory: DataDirOption = None
    database_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The server's PostgreSQL, if you name one.", show_default="embedded"
        ),
    ] = None
    encryption_key_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The file with the encryption keys.",
            show_default="in the data directory",
        ),
    ] = None


def read_local_settings(options: LocalServerOptions) -> "ServerSettings":
    try:
        from potluck.server.settings import read_settings
    except ImportError as error:
        raise server_part_missing(error.name) from error
    return read_settings(asdict(options))


def read_settings_of_existing(options: LocalServerOptions) -> "ServerSettings":
    """Raises NotFound where no server has been: a command about its data makes none."""
    settings = read_local_settings(options)
    from potluck.server.stored_data import check_server_exists

    check_server_exists(settings)
    return settings


def run_locally(work: Coroutine[Any, Any, T]) -> T:
    """Translates errors of the file system."""
    try:
        return asyncio.run(work)
    except OSError as error:
        raise OutputLost(
            f"{error.filename or 'A file'} cannot be read or written: {error.strerror}.",
            "Choose another name."
            if isinstance(error, FileExistsError)
            else "Check the permissions and the free space.",
        ) from error
