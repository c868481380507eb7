"""Collects versions, settings, readiness, figures and logs into one archive.

Every part is collected by itself: what fails is named in the archive, and the rest is there.
Address and settings are those of the server's last start, if it recorded one.
"""

import asyncio
import importlib.metadata
import io
import json
import os
import platform
import shutil
import ssl
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec

from potluck import __version__
from potluck.model.error import PotluckError, ServerUnreachable
from potluck.server.backup.announcement import connected
from potluck.server.encryption.key_sources import key_place
from potluck.server.settings import ServerSettings
from potluck.server.stored_data import check_server_exists, database_of
from potluck.server.support.last_start import local_address, read_last_start
from potluck.server.support.redaction import Redactor, redact_settings, secrets_of
from potluck.store import status, support, table_copy

_LOG_BYTES: Final = 2 * 2**20
_ANSWER_SECONDS: Final = 5.0

Part = Callable[[], Awaitable[Any]]


class SupportBundle:
    def __init__(
        self, settings: ServerSettings, logs: list[Path], variables: Mapping[str, str] = os.environ
    ) -> None:
        self._settings = settings
        self._logs = logs
        self._variables = variables
        self._last_start = read_last_start(settings.data_directory)
        self.failures: dict[str, str] = {}

    async def write(self, path: Path) -> list[str]:
        """Returns the names of its parts. Only the user can read the file."""
        redactor = Redactor(self._secrets())
        texts = {name: redactor.clean(text) for name, text in (await self._texts()).items()}
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, text in texts.items():
                info = tarfile.TarInfo(f"{path.name.partition('.')[0]}/{name}")
                info.size, info.mode = len(text.encode()), 0o600
                archive.addfile(info, io.BytesIO(text.encode()))
        return list(texts)

    def _secrets(self) -> set[str]:
        secrets = secrets_of(self._settings, self._variables)
        try:
            secrets.update(key.hex() for key in key_place(self._settings).read().keys)
        except PotluckError as error:
            self.failures["encryption key"] = error.detail
        password = self._settings.data_directory / "postgres" / "cluster" / "password"
        if password.is_file():
            secrets.add(password.read_text().strip())
        return secrets

    async def _texts(self) -> dict[str, str]:
        parts: dict[str, Part] = {
            "about.json": self._about,
            "settings.json": self._redacted_settings,
            "readiness.json": lambda: self._ask("/readyz", 200, 503),
            "metrics.txt": lambda: self._ask("/metrics", 200),
            "database.json": self._database,
            "disk.json": self._disk,
            **_log_parts(self._logs),
        }
        texts = {}
        for name, part in parts.items():
            try:
                texts[name] = _text(await part())
            except PotluckError as error:
                self.failures[name] = error.detail
            except Exception as error:  # noqa: BLE001 - the other parts help nevertheless
                self.failures[name] = type(error).__name__
        texts["failures.json"] = _text(self.failures)
        return texts

    async def _about(self) -> dict[str, Any]:
        packages = {
            distribution.name: distribution.version
            for distribution in importlib.metadata.distributions()
        }
        return {
            "potluck": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "packages": dict(sorted(packages.items())),
            "server": self._last_start
            and {
                "potluck": self._last_start.version,
                "process_id": self._last_start.process_id,
                "started_at": self._last_start.started_at,
            },
        }

    async def _redacted_settings(self) -> dict[str, Any]:
        """Of the last start; else those that this command was given."""
        if self._last_start is not None:
            return self._last_start.settings
        return redact_settings(self._settings)

    async def _ask(self, path: str, *accepted: int) -> str:
        """From the server on this machine."""
        if self._last_start is not None:
            address = self._last_start.address
        else:
            address = local_address(self._settings, self._settings.port)
        try:
            status, body = await asyncio.to_thread(_fetch, address + path)
        except OSError as error:
            raise ServerUnreachable(f"No server answers at {address}.") from error
        if status not in accepted:
            raise ServerUnreachable(f"The server answered {path} with {status}.")
        return body

    async def _database(self) -> dict[str, Any]:
        check_server_exists(self._settings)
        async with database_of(self._settings) as url, connected(url) as connection:
            return {
                "migrations": sorted(await table_copy.applied_migrations(connection)),
                "facts": await status.read_facts(connection),
                **await support.read_database(connection),
            }

    async def _disk(self) -> dict[str, int]:
        return dict(shutil.disk_usage(self._settings.data_directory)._asdict())


def _log_parts(logs: list[Path]) -> dict[str, Part]:
    """By their names; of several with one name, the later ones have a number."""
    parts: dict[str, Part] = {}
    for log in dict.fromkeys(log for log in logs if not _is_missing(log)):
        name, number = f"logs/{log.name}", 1
        while name in parts:
            number += 1
            name = f"logs/{log.stem}-{number}{log.suffix}"
        parts[name] = partial(asyncio.to_thread, _tail, log)
    return parts


def _is_missing(log: Path) -> bool:
    """Not if it cannot be looked at: that is told."""
    try:
        log.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _fetch(url: str) -> tuple[int, str]:
    # The certificate is for the server's public name, and nothing secret is sent.
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(url, timeout=_ANSWER_SECONDS, context=trust) as response:  # noqa: S310
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    return json.dumps(plain, indent=1, default=str) + "\n"


def _tail(log: Path) -> str:
    """From the beginning of a line on."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        start = max(0, file.tell() - _LOG_BYTES)
        file.seek(start)
        data = file.read()
    return (data if not start else data.partition(b"\n")[2]).decode("utf-8", "replace")
