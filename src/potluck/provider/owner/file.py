"""The owner's file, DATA/provider.toml: the one truth about what an owner allows and asks.

It is read whole or not at all: what is wrong in it is told with its key and what to write, and
whoever has read it before stays with what was right. Commands change it in place; comments, order
and spelling of all the rest stay as they are.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from potluck.local.durable_files import write_whole
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.terms import TermsChange
from potluck.provider.owner.file_values import OwnerValues
from potluck.provider.owner.settings_table import (
    KEYS,
    OwnerSetting,
    Written,
    key_named,
)

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import AbstractTable

_DEVICES = "device"
# Far more than all keys for all devices of a machine; a file that grows on is not read for ever.
_MOST_BYTES = 1_000_000

Mark = tuple[int, int, int] | None


def terms_file(data_directory: Path) -> Path:
    return data_directory / "provider.toml"


def mark_of(path: Path) -> Mark:
    """Differs when the file may have changed; none where there is no file to be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def read_file(path: Path) -> OwnerValues:
    """What it says; nothing where there is no file. BadSettings names what is wrong."""
    text = _text(path)
    try:
        return read_text(text)
    except InvalidInput as error:
        raise BadSettings(f"In {path}: {error.detail}", error.hint) from error


def read_text(text: str) -> OwnerValues:
    try:
        return _read(tomllib.loads(text))
    # Of numbers and brackets without end, too, which no program takes.
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"it is not TOML: {error}.", "Mend that line, or take it out with a # before it."
        ) from error


def _read(content: dict[str, object]) -> OwnerValues:
    tables = content.pop(_DEVICES, {})
    if not isinstance(tables, dict) or not all(isinstance(one, dict) for one in tables.values()):
        raise InvalidInput(
            f"{_DEVICES!r} is no table.", f'Write [{_DEVICES}."UUID"] above its keys.'
        )
    devices = {uuid: _change(table, uuid) for uuid, table in tables.items()}
    return OwnerValues(_change(content), devices)


def change_file(path: Path, change: TermsChange) -> None:
    """Writes the change into the file, or raises BadSettings and leaves it as it is.

    What is said of all devices is taken out where it was said of one: all means all.
    """
    text = _text(path)
    try:
        read_text(text)
        changed = change_text(text, change)
    except InvalidInput as error:
        raise BadSettings(f"In {path}: {error.detail}", error.hint) from error
    if changed != text:
        _save(path, changed)


def change_text(text: str, change: TermsChange) -> str:
    wanted = read_text(text).changed(change).keys()
    for key in KEYS if change.devices else ():
        if key.is_for_node and getattr(change, key.field) is not UNSET:
            raise InvalidInput(f"{key.name} is the whole machine's.", "Name no device with it.")
    changed = _edited(text, change)
    # TOML lets tables be written in ways that can not be added to.
    if changed is None or read_text(changed).keys() != wanted:
        raise InvalidInput(
            "its devices are written in a way that a command can not change.",
            f'Write each as a table of its own: [{_DEVICES}."UUID"] and its keys below.',
        )
    return changed if text else changed.lstrip()


def _edited(text: str, change: TermsChange) -> str | None:
    """Nothing where the way in which it is written does not allow that."""
    import tomlkit  # only whoever writes needs it
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        for key in KEYS:
            value = getattr(change, key.field)
            if value is not UNSET:
                _write(document, key, None if value is None else key.spell(value), change.devices)
        changed = tomlkit.dumps(document)
        tomllib.loads(changed)
    except (TOMLKitError, ValueError, RecursionError):
        return None
    return changed


def _change(table: Mapping[str, object], device: str | None = None) -> TermsChange:
    """The keys of one table, each read and checked."""
    named = [(key_named(name), written) for name, written in table.items()]
    said = {key.field: _value(key, written, device) for key, written in named}
    return replace(TermsChange(), **said)


def _value(key: OwnerSetting, written: object, device: str | None) -> object:
    if device is not None and key.is_for_node:
        raise InvalidInput(
            f"{key.name!r} of device {device!r} is not a device's, but the machine's.",
            f"Write it above the first [{_DEVICES}…] table.",
        )
    if not isinstance(written, str | int | float | list):
        raise InvalidInput(f"{key.name} is {written!r}, which it can not be.", key.hint)
    return key.parse(written)


def _write(
    document: "TOMLDocument", key: OwnerSetting, value: Written | None, devices: tuple[str, ...]
) -> None:
    if not devices:
        for table in document.get(_DEVICES, {}).values():
            table.pop(key.name, None)
        _put(document, key.name, value)
        return
    for uuid in devices:
        if value is None and uuid not in document.get(_DEVICES, {}):
            continue
        table = _table(document, uuid)
        _put(table, key.name, value)
        if not table.as_string().strip():  # nor a comment
            document[_DEVICES].pop(uuid)


def _table(document: "TOMLDocument", uuid: str) -> "AbstractTable":
    import tomlkit

    tables = document.setdefault(_DEVICES, tomlkit.table(is_super_table=True))
    found: AbstractTable = tables.setdefault(uuid, tomlkit.table())
    return found


def _put(table: "TOMLDocument | AbstractTable", name: str, value: Written | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def _text(path: Path) -> str:
    try:
        content = _content(path)
        return content.decode("utf-8-sig")  # some editors begin with a mark
    except FileNotFoundError as error:
        if not path.is_symlink():
            return ""
        # Whatever it said is away for a while, such as with a disk, and not taken back.
        raise BadSettings(
            f"{path} links to a file that is not there.", "Bring that back, or remove the link."
        ) from error
    except OSError as error:
        why = error.strerror or error
        raise BadSettings(f"{path} can not be read: {why}.", "Mend it, or remove it.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadSettings(
            f"{path} is not text in UTF-8 (line {line}).", "Save it as UTF-8, or remove it."
        ) from error


def _content(path: Path) -> bytes:
    # Whoever opens a pipe waits for its writer, and the whole provider with him.
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadSettings(f"{path} is not a file.", "Remove it, or put a file in its place.")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BadSettings(
            f"{path} has more than {_MOST_BYTES} bytes, and is not read.",
            "Take out what is not about terms.",
        )
    return content


def _save(path: Path, text: str) -> None:
    """Whoever links the file from elsewhere, such as from a repository, keeps the link.

    Whose it is stays so too: a provider must be able to read what root has changed.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = target.stat() if target.exists() else None
        user = os.geteuid() if os.name != "nt" else None
        may_keep = before is not None and user in (0, before.st_uid)
        write_whole(target, text.encode(), before if may_keep else None)
        if before is None and user == 0:
            around = target.parent.stat()
            os.chown(target, around.st_uid, around.st_gid)
    except OSError as error:
        raise BadSettings(
            f"{path} can not be written: {error.strerror}.",
            "Free some space, or mend its permissions.",
        ) from error
