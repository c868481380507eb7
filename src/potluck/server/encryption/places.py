"""Where the encryption keys come from: a file, a variable, or the answer of a command.

In all three a key is 64 hexadecimal digits, and the first one is current. Only the file can be
given a new key by the server itself; for the other two, whoever keeps the keys does that.
"""

import os
import secrets
import shlex
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from potluck.local.durable import sync, write_new, write_whole
from potluck.model.error import BadSettings
from potluck.server.settings import ServerSettings
from potluck.store.key_ring import KEY_BYTES, GivenKeys, KeyPlace, KeyRing, key_id, new_key

FILE_NAME = "encryption-key"
_HOW = "A key is 64 hexadecimal digits, as `openssl rand -hex 32` prints; the first one seals."
_COMMENT = "# Potluck's encryption keys; the first seals. Without them the database is lost.\n"
_COMMAND_SECONDS = 10.0
# A row that names an unknown key must not start the command again and again.
_ASK_AGAIN_SECONDS = 30.0


def key_place(settings: ServerSettings) -> KeyPlace:
    said = [
        settings.encryption_key and "POTLUCK_ENCRYPTION_KEY",
        settings.encryption_key_command and "--encryption-key-command",
        settings.encryption_key_file and "--encryption-key-file",
    ]
    named = [place for place in said if place]
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
    """Several instances share one file; each notices when another has put a new key in front."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = f"the file {path}"
        self._seen: tuple[int, ...] = ()

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> KeyRing:
        self._seen = self._look()
        try:
            others_may = os.name != "nt" and stat.S_IMODE(self.path.stat().st_mode) & 0o007
            text = self.path.read_text("ascii")
        except (OSError, UnicodeError) as error:
            raise self._bad(f"can not be read: {error}") from error
        if others_may:
            raise BadSettings(
                f"Every user of this machine can read {self.name}.", f"chmod 600 {self.path}"
            )
        return parse(text, self.name)

    def has_changed(self) -> bool:
        return self._look() not in (self._seen, ())

    def make(self) -> None:
        """The first key, unless another instance was quicker."""
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            write_new(draft, _written([new_key()]))
            try:
                os.link(draft, self.path)
            except FileExistsError:
                return
            finally:
                draft.unlink()
            sync(self.path.parent)
        except OSError as error:
            raise self._bad(f"can not be written: {error.strerror}") from error

    def put(self, keys: Sequence[bytes]) -> None:
        """Whole and on the disk before anything is sealed with it."""
        try:
            write_whole(self.path, _written(keys))
        except OSError as error:
            raise self._bad(f"can not be written: {error.strerror}") from error

    def _look(self) -> tuple[int, ...]:
        """Tells one content from another without reading it: it is only ever replaced whole."""
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)

    def _bad(self, why: str) -> BadSettings:
        return BadSettings(f"The encryption key's file {self.path} {why}.", "Mend it, or its path.")


class KeyCommand:
    """Asks a program that knows them, such as the client of a secret store."""

    def __init__(self, command: str) -> None:
        self.name = "the answer of --encryption-key-command"
        self._command = command
        self._asked: tuple[float, KeyRing] | None = None

    def read(self) -> KeyRing:
        now = time.monotonic()
        if self._asked is None or now - self._asked[0] > _ASK_AGAIN_SECONDS:
            self._asked = (now, parse(self._ask(), self.name))
        return self._asked[1]

    def has_changed(self) -> bool:
        """Not known without asking; it is asked when a row names a key that it did not tell."""
        return False

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
            why = type(error).__name__ if isinstance(error, ValueError) else str(error)
            raise BadSettings(
                f"--encryption-key-command gave no key: {why}.",
                f"Try it by hand. {_HOW}",
            ) from error


def parse(text: str, name: str) -> KeyRing:
    """The sentences about what is wrong never quote what was read."""
    lines = [line.partition("#")[0].replace(",", " ") for line in text.splitlines()]
    words = " ".join(lines).split()
    keys = [_key(word) for word in words]
    if not keys or None in keys:
        raise BadSettings(f"There is no key in {name}, or something that is none.", _HOW)
    found = [key for key in keys if key is not None]
    if len({key_id(key) for key in found}) < len(found):
        raise BadSettings(f"Two keys in {name} are the same.", "Take one of them out.")
    return KeyRing(found)


def _key(word: str) -> bytes | None:
    try:
        key = bytes.fromhex(word)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None


def _written(keys: Sequence[bytes]) -> bytes:
    return (_COMMENT + "".join(f"{key.hex()}\n" for key in keys)).encode()
