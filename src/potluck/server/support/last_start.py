"""The record of a server's last start, for commands that run beside it.

They have neither the options nor the variables that the server was started with. The record has no
secret: of a setting that may be one, only whether it is set. It stays when the server has ended.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from potluck import __version__
from potluck.local.durable_files import remove_drafts, write_atomically
from potluck.server.http import exposure
from potluck.server.settings import ServerSettings
from potluck.server.support.redaction import redact_settings

_FILE: Final = "last-start.json"

log = structlog.get_logger()


class LastStart(Struct, frozen=True):
    version: str
    process_id: int
    started_at: datetime
    address: str  # where this machine reaches it
    settings: dict[str, Any]


def record_start(settings: ServerSettings, port: int, now: datetime) -> None:
    """`port` is the one that it listens on. Called while the data directory is locked."""
    path = settings.data_directory / _FILE
    record = LastStart(
        __version__, os.getpid(), now, local_address(settings, port), redact_settings(settings)
    )
    try:
        remove_drafts(path)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(record)))
    except OSError as error:  # only those who look for a fault miss it
        log.warning("cannot record the start", path=str(path), error=error.strerror)


def read_last_start(data_directory: Path) -> LastStart | None:
    """None if no server has started here, or an earlier version."""
    try:
        return msgspec.json.decode((data_directory / _FILE).read_bytes(), type=LastStart)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def local_address(settings: ServerSettings, port: int) -> str:
    """Where this machine reaches the server: one that listens everywhere also does on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    scheme = "https" if exposure.serves_tls(settings) else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
