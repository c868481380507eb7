"""Finds out when the machine's owner was last active.

Linux: the access times of terminals, and the desktop sessions of logind. macOS and Windows: the
system's idle time. Nothing is guessed: `through` names the sources that answered.
"""

import asyncio
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

_ASK_SECONDS = 2.0
_DESKTOPS = {"x11", "wayland", "mir"}
_PROPERTIES = ("Type", "Class", "State", "IdleHint", "IdleSinceHint")


class Presence(Struct, frozen=True):
    idle_seconds: float | None  # since the last activity; None: no source can tell
    through: tuple[str, ...] = ()


async def look() -> Presence:
    if sys.platform == "darwin":
        return _presence({"the system": _mac_idle(await _output("ioreg", "-c", "IOHIDSystem"))})
    if sys.platform == "win32":
        return _presence({"the system": _windows_idle()})
    return _presence(
        {"terminals": terminals_idle(Path("/dev"), time.time()), "desktop": await desktop_idle()}
    )


def _presence(sources: dict[str, float | None]) -> Presence:
    idle_seconds = {name: seconds for name, seconds in sources.items() if seconds is not None}
    return Presence(min(idle_seconds.values(), default=None), tuple(idle_seconds))


def terminals_idle(devices: Path, now: float) -> float | None:
    """The kernel notes when a terminal was last read, to within a few seconds."""
    paths = [*(devices / "pts").glob("[0-9]*"), *devices.glob("tty[0-9]*")]
    read_at = [seconds for path in paths if (seconds := _read_at(path)) is not None]
    return max(0.0, now - max(read_at)) if read_at else None


def _read_at(path: Path) -> float | None:
    try:
        return path.stat().st_atime
    except OSError:
        return None  # it was just closed


async def desktop_idle() -> float | None:
    """From logind: a desktop session without the idle hint is in use."""
    sessions = await _output("loginctl", "list-sessions", "--no-legend")
    ids = [line.split()[0] for line in sessions.splitlines() if line.strip()]
    if not ids:
        return None
    properties = [f"--property={name}" for name in _PROPERTIES]
    return session_idle(await _output("loginctl", "show-session", *properties, *ids), time.time())


def session_idle(shown: str, now: float) -> float | None:
    """Parses `loginctl show-session`: one block for each session."""
    idle = [_session_idle(dict(_pairs(block)), now) for block in shown.split("\n\n")]
    return min((seconds for seconds in idle if seconds is not None), default=None)


def _pairs(block: str) -> Iterable[tuple[str, str]]:
    for line in block.splitlines():
        name, _, value = line.partition("=")
        yield name, value


def _session_idle(session: dict[str, str], now: float) -> float | None:
    # Terminal sessions: the terminals themselves tell more.
    if session.get("Type") not in _DESKTOPS:
        return None
    # A login screen belongs to no user and never sets the idle hint.
    if not session.get("Class", "user").startswith("user") or session.get("State") == "closing":
        return None
    if session.get("IdleHint") != "yes":
        return 0.0
    since_micro = session.get("IdleSinceHint", "")
    return max(0.0, now - int(since_micro) / 1e6) if since_micro.isdigit() else None


def _mac_idle(shown: str) -> float | None:
    match = re.search(r'"HIDIdleTime" = (\d+)', shown)
    return int(match[1]) / 1e9 if match else None


def _windows_idle() -> float | None:
    if sys.platform == "win32":
        import ctypes

        class LastInput(ctypes.Structure):
            _fields_ = [("size", ctypes.c_uint), ("tick", ctypes.c_uint)]

        last = LastInput(ctypes.sizeof(LastInput))
        if ctypes.windll.user32.GetLastInputInfo(ctypes.byref(last)):
            # Both count milliseconds and wrap around at 2^32.
            ticks = int(ctypes.windll.kernel32.GetTickCount()) - int(last.tick)
            return (ticks % 2**32) / 1000
    return None


async def _output(*command: str) -> str:
    """The command's output; empty if it is missing, fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return printed.decode(errors="replace") if process.returncode == 0 else ""
