"""Sources of the encryption keys: a file, a variable, or a command.

A key is 64 hexadecimal digits, and the first one is current. The server can add a key only to the
file; in the other sources the operator does it.
"""

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from potluck.local.durable_files import (
    check_private,
    draft_path,
    remove_drafts,
    sync,
    write_atomically,
    write_new,
)
from potluck.model.error import BadSettings, Unavailable
from potluck.server.settings import ServerSettings
from potluck.store.sealing.vault import KEY_BYTES, GivenKeys, KeyPlace, KeyRing, key_id, new_key

FILE_NAME = "encryption-key"
_HOW = "A key is 64 hexadecimal digits, as `openssl rand -hex 32` prints; the first one encrypts."
_COMMENT = (
    "# Potluck's encryption keys; the first one encrypts. Without them the database is lost.\n"
)
_COMMAND_SECONDS = 10.0
# A row with an unknown key must not start the command again and again.
_ASK_AGAIN_SECONDS = 30.0
# How long a running server waits for the command; it serves no requests meanwhile.
_WAIT_SECONDS = 0.5


def key_place(settings: ServerSettings) -> KeyPlace:
    places = [
        settings.encryption_key and "POTLUCK_ENCRYPTION_KEY",
        settings.encryption_key_command and "--encryption-key-command",
        settings.encryption_key_file and "--encryption-key-file",
    ]
    named = [place for place in places if place]
    if len(named) > 1:
        raise BadSettings(
            f"The encryption key is given twice: by {' and by '.join(named)}.", "Choose one."
        )
    if settings.encryption_key:
        name = "the variable POTLUCK_ENCRYPTION_KEY"
        return GivenKeys(name, parse(settings.encryption_key, name))
    if settings.encryption_key_command:
        return KeyCommand(settings.encryption_key_command)
    return KeyFile(settings.encryption_key_file or settings.data_directory / FILE_NAME)


class KeyFile:
    """Several instances share one file; each detects when another has added a key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = f"the file {path}"
        self._seen: tuple[int, ...] = ()

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> KeyRing:
        self._seen = self._look()
        try:
            check_private(self.path, group_may=True)
            text = self.path.read_text("ascii")
        except (OSError, UnicodeError) as error:
            raise self._bad(f"cannot be read: {error}") from error
        return parse(text, self.name)

    def has_changed(self) -> bool:
        return self._look() not in (self._seen, ())

    def make(self) -> None:
        """Writes the first key, unless another instance was faster."""
        path = self._real_path()
        draft = draft_path(path)
        try:
            write_new(draft, _written([new_key()]))
            try:
                os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
            sync(path.parent)
        except (FileExistsError, FileNotFoundError) as error:
            # Another instance has made the file, or has removed our draft.
            if not self.exists():
                raise self._bad(f"cannot be written: {error.strerror}") from error
        except OSError as error:
            raise self._bad(f"cannot be written: {error.strerror}") from error

    def put(self, keys: Sequence[bytes]) -> None:
        """Replaces the file atomically and syncs it, before a new key encrypts anything."""
        path = self._real_path()
        try:
            write_atomically(path, _written(keys), like=path.stat() if path.exists() else None)
        except OSError as error:
            raise self._bad(f"cannot be written: {error.strerror}") from error

    def remove_drafts(self) -> None:
        """Removes files that a crash left, which contain keys. Ignores unreadable directories."""
        with suppress(OSError):
            remove_drafts(self._real_path())

    def _real_path(self) -> Path:
        """Resolves links: replacing the link itself would separate it from the shared file."""
        return Path(os.path.realpath(self.path))

    def _look(self) -> tuple[int, ...]:
        """Detects a new content without reading it: the file is only ever replaced."""
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)

    def _bad(self, why: str) -> BadSettings:
        return BadSettings(
            f"The encryption key file {self.path} {why}.", "Fix the file or its path."
        )


class KeyCommand:
    """Runs a command that prints the keys, such as the client of a secret store.

    The start waits for it. Later, when a row needs an unknown key, it runs in a thread; requests
    that need the key meanwhile fail with Unavailable.
    """

    def __init__(self, command: str, ask_again_seconds: float = _ASK_AGAIN_SECONDS) -> None:
        self.name = "the output of --encryption-key-command"
        self._command = command
        self._ask_again_seconds = ask_again_seconds
        self._answered_at = 0.0
        self._ring: KeyRing | None = None
        self._failure: BadSettings | None = None
        self._asking: threading.Thread | None = None

    def read(self) -> KeyRing:
        if self._ring is None:
            self._ring = parse(self._ask(), self.name)
            self._answered_at = time.monotonic()
        elif not self._is_asking() and self._is_time_to():
            self._asking = threading.Thread(target=self._ask_again, daemon=True)
            self._asking.start()
            self._asking.join(_WAIT_SECONDS)
        if self._is_asking():
            raise Unavailable("The server is reading its encryption keys.", "Try again.", 1.0)
        if self._failure is not None:
            raise BadSettings(self._failure.detail, self._failure.hint)
        return self._ring

    def has_changed(self) -> bool:
        """Unknown without running the command, which happens when a row needs an unknown key."""
        return False

    def _is_asking(self) -> bool:
        return self._asking is not None and self._asking.is_alive()

    def _is_time_to(self) -> bool:
        return time.monotonic() - self._answered_at > self._ask_again_seconds

    def _ask_again(self) -> None:
        try:
            self._ring, self._failure = parse(self._ask(), self.name), None
        except BadSettings as error:
            self._failure = error
        finally:
            self._answered_at = time.monotonic()

    def _ask(self) -> str:
        try:
            answer = subprocess.run(
                shlex.split(self._command) or ["(nothing)"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_COMMAND_SECONDS,
                check=True,
            )
            return answer.stdout.decode("ascii")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise BadSettings(
                f"--encryption-key-command gave no key: {_why(error)}.", f"Run it by hand. {_HOW}"
            ) from error


def _why(error: Exception) -> str:
    """Without the command, which may contain a password."""
    match error:
        case subprocess.TimeoutExpired():
            return f"it took longer than {_COMMAND_SECONDS:g} s"
        case subprocess.CalledProcessError():
            return f"it exited with status {error.returncode}"
        case OSError():
            return error.strerror or type(error).__name__
    return "it cannot be run, or its output cannot be read"


def parse(text: str, name: str) -> KeyRing:
    """Errors never quote the input."""
    lines = [line.partition("#")[0].replace(",", " ") for line in text.splitlines()]
    words = " ".join(lines).split()
    keys = [_key(word) for word in words]
    if not keys or None in keys:
        raise BadSettings(f"No valid key in {name}.", _HOW)
    valid_keys = [key for key in keys if key is not None]
    if len({key_id(key) for key in valid_keys}) < len(valid_keys):
        raise BadSettings(f"Two keys in {name} are the same.", "Remove one of them.")
    return KeyRing(valid_keys)


def _key(word: str) -> bytes | None:
    try:
        key = bytes.fromhex(word)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None


def _written(keys: Sequence[bytes]) -> bytes:
    return (_COMMENT + "".join(f"{key.hex()}\n" for key in keys)).encode()
