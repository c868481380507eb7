"""Checks the provider's data directory, its node key, its process and its service."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from potluck.cli.doctor.finding import (
    CheckedMachine,
    Finding,
    failed,
    failed_with,
    passed,
    skipped,
    warned,
)
from potluck.cli.provider.local import LocalTarget, provider_directory
from potluck.local.data_directory import data_dir_of
from potluck.model.error import NotInstalled, PotluckError
from potluck.model.units import show_bytes, show_count, show_seconds

_ENOUGH_BYTES = 10 * 10**9
_LEAST_BYTES = 500 * 10**6
_SOON_SECONDS = 7 * 86_400.0
_KEY_NEEDED = "authorised by a wallet"
_SERVICE_NEEDED = "starts with the machine"


def check_provider(machine: CheckedMachine) -> Iterator[Finding]:
    yield _check_writable(machine.directory)
    yield _check_free_space(machine.directory)
    yield _check_node_key(machine)
    yield _check_running(machine)
    yield from _check_service()


def _check_writable(directory: Path) -> Finding:
    existing = _nearest_existing(directory)
    if not existing.is_dir():
        fix = "Name a directory: --data-dir DIR"
        return failed("data directory", f"{existing} is a file", "can be written", fix)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        found = f"{existing}: {error.strerror}"
        fix = f'sudo chown "$USER" {existing}  (or choose another: --data-dir DIR)'
        return failed("data directory", found, "can be written", fix)
    made = "" if existing == directory else ", created at the first start"
    return passed("data directory", f"{directory}{made}", "can be written")


def _check_free_space(directory: Path) -> Finding:
    free = shutil.disk_usage(_nearest_existing(directory)).free
    found, needed = f"{show_bytes(free)} free", f"{show_bytes(_ENOUGH_BYTES)} or more"
    fix = f"Free some space; see: du -sh {directory}/*"
    if free < _LEAST_BYTES:
        return failed("disk space", found, needed, fix)
    if free < _ENOUGH_BYTES:
        return warned("disk space", found, needed, fix)
    return passed("disk space", found, needed)


def _nearest_existing(directory: Path) -> Path:
    """The directory itself, or its nearest parent that exists and is visible."""
    paths = (directory, *directory.parents)
    return next(path for path in paths if os.path.exists(path))  # noqa: PTH110, Path's raises


def _check_node_key(machine: CheckedMachine) -> Finding:
    from potluck.provider.server.node_key import load_authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    if machine.url is None:
        return skipped("node key", "no server is known", _KEY_NEEDED)
    try:
        key = load_authorised(machine.directory, origin_of(machine.url))
    except PotluckError as error:
        return failed_with("node key", error, _KEY_NEEDED)
    fix = f"potluck provide {machine.url} --authorise{_directory_option(machine.directory)}"
    if key is None:
        return failed("node key", f"no wallet has signed for it at {machine.url}", _KEY_NEEDED, fix)
    left = key.expires_at - time.time()
    if left <= 0:
        return failed("node key", f"expired {show_seconds(-left)} ago", _KEY_NEEDED, fix)
    found = f"{key.key}, valid for {show_seconds(left)}"
    if left < _SOON_SECONDS:
        return warned("node key", found, _KEY_NEEDED, fix)
    return passed("node key", found, _KEY_NEEDED)


def _check_running(machine: CheckedMachine) -> Finding:
    needed, option = "runs, in contact with the server", _directory_option(machine.directory)
    try:
        status = LocalTarget(machine.directory).running()
    except PotluckError as error:
        return failed_with("provider", error, needed)
    if status is None:
        fix = f"potluck provide {machine.url or 'URL'}{option}"
        return warned("provider", f"none runs in {machine.directory}", needed, fix)
    devices = show_count(len(status.devices), "device")
    found = f"{status.name} with {devices}, up {show_seconds(status.up_seconds)}"
    if status.problem:
        fix = f"potluck provider explain{option}"
        return failed("provider", f"{found}: {status.problem}", f"{needed}, without problems", fix)
    return passed("provider", found, needed)


def _directory_option(directory: Path) -> str:
    """The option that names this provider, unless it is the default one."""
    return "" if directory == provider_directory(None) else f" --data-dir {data_dir_of(directory)}"


def _check_service() -> Iterator[Finding]:
    from potluck.provider.service.choose import find_manager

    try:
        state = find_manager().state()
    except NotInstalled as error:
        yield skipped("service", error.detail, _SERVICE_NEEDED)
        return
    if state.url is None:
        yield warned("service", "not installed", _SERVICE_NEEDED, "potluck provider install")
        return
    is_running = state.is_enabled and state.is_active
    enabled = "enabled" if state.is_enabled else "not enabled"
    found = f"{state.path}: {enabled}, {'runs' if state.is_active else 'does not run'}"
    fix = "potluck provider install --now"
    yield (
        passed("service", found, _SERVICE_NEEDED)
        if is_running
        else warned("service", found, _SERVICE_NEEDED, fix)
    )
    if state.lingers is False:
        fix = 'loginctl enable-linger "$USER"'
        yield warned("service at boot", "stops when you log out", "continues when you log out", fix)
