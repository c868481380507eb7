"""Where the provider keeps things, who stands behind it, and whether it runs."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from potluck.cli.doctor.finding import Finding, Patient, failed_by, odd, skipped, well, wrong
from potluck.cli.provider.local import Here, provider_directory
from potluck.cli.terminal.units import show_bytes, show_count, show_seconds
from potluck.model.error import NotInstalled, PotluckError

_ROOM_BYTES = 10 * 10**9
_LEAST_BYTES = 500 * 10**6
_SOON_SECONDS = 7 * 86_400.0
_WORD = "a wallet's word that holds"
_STARTS = "started with the machine"


def look_at_place(patient: Patient) -> Iterator[Finding]:
    yield _writable(patient.directory)
    yield _room(patient.directory)
    yield _authorised(patient)
    yield _running(patient)
    yield from _service()


def _writable(directory: Path) -> Finding:
    existing = _existing(directory)
    if not existing.is_dir():
        fix = "Name a directory: --data-dir DIR"
        return wrong("data directory", f"{existing} is a file", "can be written", fix)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        found = f"{existing}: {error.strerror}"
        fix = f'sudo chown "$USER" {existing}  (or name another: --data-dir DIR)'
        return wrong("data directory", found, "can be written", fix)
    made = "" if existing == directory else ", made at the first start"
    return well("data directory", f"{directory}{made}", "can be written")


def _room(directory: Path) -> Finding:
    free = shutil.disk_usage(_existing(directory)).free
    found, needed = f"{show_bytes(free)} free", f"{show_bytes(_ROOM_BYTES)} or more"
    fix = f"Make room; what takes it up: du -sh {directory}/*"
    if free < _LEAST_BYTES:
        return wrong("disk space", found, needed, fix)
    if free < _ROOM_BYTES:
        return odd("disk space", found, needed, fix)
    return well("disk space", found, needed)


def _existing(directory: Path) -> Path:
    """The nearest that there is, as far as one may look."""
    around = (directory, *directory.parents)
    return next(each for each in around if os.path.exists(each))  # noqa: PTH110, Path's raises


def _authorised(patient: Patient) -> Finding:
    from potluck.provider.server.node_key import load_authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    if patient.url is None:
        return skipped("node key", "no server is known", _WORD)
    try:
        known = load_authorised(patient.directory, origin_of(patient.url))
    except PotluckError as error:
        return failed_by("node key", error, _WORD)
    fix = f"potluck provide {patient.url} --authorise{_directory_option(patient.directory)}"
    if known is None:
        return wrong("node key", f"no wallet has signed for it at {patient.url}", _WORD, fix)
    left = known.expires_at - time.time()
    if left <= 0:
        return wrong("node key", f"over since {show_seconds(-left)}", _WORD, fix)
    found = f"{known.key}, for {show_seconds(left)} more"
    if left < _SOON_SECONDS:
        return odd("node key", found, _WORD, fix)
    return well("node key", found, _WORD)


def _running(patient: Patient) -> Finding:
    needed, option = "runs, and hears the server", _directory_option(patient.directory)
    try:
        status = Here(patient.directory).running()
    except PotluckError as error:
        return failed_by("provider", error, needed)
    if status is None:
        fix = f"potluck provide {patient.url or 'URL'}{option}"
        return odd("provider", f"none runs in {patient.directory}", needed, fix)
    devices = show_count(len(status.devices), "device")
    found = f"{status.name} with {devices}, up {show_seconds(status.up_seconds)}"
    if status.problem:
        fix = f"potluck provider explain{option}"
        return wrong("provider", f"{found}: {status.problem}", f"{needed} without trouble", fix)
    return well("provider", found, needed)


def _directory_option(directory: Path) -> str:
    """For commands about this provider, where it is not the one that they mean without it."""
    return "" if directory == provider_directory(None) else f" --data-dir {directory}"


def _service() -> Iterator[Finding]:
    from potluck.provider.service.choose import find_manager

    try:
        state = find_manager().state()
    except NotInstalled as error:
        yield skipped("service", error.detail, _STARTS)
        return
    if state.url is None:
        yield odd("service", "not installed", _STARTS, "potluck provider install")
        return
    is_well = state.is_enabled and state.is_active
    enabled = "enabled" if state.is_enabled else "not enabled"
    found = f"{state.path}: {enabled}, {'runs' if state.is_active else 'does not run'}"
    fix = "potluck provider install --now"
    yield well("service", found, _STARTS) if is_well else odd("service", found, _STARTS, fix)
    if state.lingers is False:
        fix = 'loginctl enable-linger "$USER"'
        yield odd("service at boot", "ends when you log out", "goes on when you log out", fix)
