"""The owner's file, DATA/provider.toml: the single source for the owner's terms and limits.

It is read completely or rejected: an error names the key and what to write, and the caller keeps
the last valid content. Commands edit it in place; comments, order and spelling of other keys stay.
Precedence: the device's table, the top level of the file, the options of `potluck provide`, the
built-in defaults.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import fields, replace

from potluck.local.durable_files import write_atomically
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.terms import DeviceTerms, TermsChange
from potluck.provider.owner.settings_table import KEYS, OwnerSetting, Written, key_named

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import AbstractTable

_DEVICES = "device"
# Far more than all keys of all devices need.
_MOST_BYTES = 1_000_000
Mark = tuple[int, int, int] | None


class NodeLimits(Struct, frozen=True):
    """How much of the machine all tasks together may use. None: not limited by the owner."""

    cores: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    bandwidth_bytes_per_second: int | None = None
    sandbox: str | None = None  # a driver's name; None: the strongest that works
    has_containers: bool = True  # whether images are run, if there is an engine
    images: tuple[str, ...] = ()  # patterns of images that other accounts may run
    pulls_images: bool = False  # whether missing images are pulled
    # Whether tasks of other accounts use the disk where only a watchdog limits them.
    others_on_disk: bool = False
    network_month_bytes: int | None = None  # that all tasks together move in a month
    # The part of a GPU's share of cores, memory and disk that its task gets without requesting it.
    gpu_share: float = 1.0
    fetches_pythons: bool = False  # whether Pythons that tasks require are downloaded


class OwnerValues(Struct, frozen=True):
    """The content of an owner's file; absent keys are UNSET."""

    everywhere: TermsChange = TermsChange()
    devices: Mapping[str, TermsChange] = {}  # by uuid

    def terms(self, uuid: str, defaults: DeviceTerms) -> DeviceTerms:
        own = self.devices.get(uuid, TermsChange())
        return replace(defaults, **(_set(self.everywhere, defaults) | _set(own, defaults)))

    def changed(self, change: TermsChange) -> "OwnerValues":
        """With the change; a key set for all devices is no longer set for single ones."""
        values = {
            field.name: UNSET if value is None else value
            for field in fields(change)
            if field.name != "devices" and (value := getattr(change, field.name)) is not UNSET
        }
        devices = dict(self.devices)
        if change.devices:
            for uuid in change.devices:
                devices[uuid] = replace(devices.get(uuid, TermsChange()), **values)
            return OwnerValues(self.everywhere, devices)
        unset = dict.fromkeys(values, UNSET)
        devices = {uuid: replace(own, **unset) for uuid, own in devices.items()}
        return OwnerValues(replace(self.everywhere, **values), devices)

    def keys(self) -> set[tuple[str, str]]:
        """The keys that are set: a device's uuid, or "" for all, and a field."""
        tables = {"": self.everywhere, **self.devices}
        return {
            (uuid, field.name)
            for uuid, table in tables.items()
            for field in fields(table)
            if field.name != "devices" and getattr(table, field.name) is not UNSET
        }

    def limits(self, defaults: NodeLimits) -> NodeLimits:
        return replace(defaults, **_set(self.everywhere, defaults))


def _set(change: TermsChange, kind: DeviceTerms | NodeLimits) -> dict[str, object]:
    values = {field.name: getattr(change, field.name) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not UNSET}


def terms_file(data_directory: Path) -> Path:
    return data_directory / "provider.toml"


def mark_of(path: Path) -> Mark:
    """A value that differs when the file may have changed; None without a readable file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def read_file(path: Path) -> OwnerValues:
    """The values in the file; empty without a file. BadSettings names the error."""
    text = _text(path)
    try:
        return read_text(text)
    except InvalidInput as error:
        raise BadSettings(f"In {path}: {error.detail}", error.hint) from error


def read_text(text: str) -> OwnerValues:
    try:
        return _read(tomllib.loads(text))
    except (ValueError, RecursionError) as error:  # also huge numbers and deep nesting
        raise InvalidInput(
            f"it is not valid TOML: {error}.", "Fix that line, or comment it out with a #."
        ) from error


def _read(content: dict[str, object]) -> OwnerValues:
    tables = content.pop(_DEVICES, {})
    if not isinstance(tables, dict) or not all(
        isinstance(table, dict) for table in tables.values()
    ):
        raise InvalidInput(
            f"{_DEVICES!r} is not a table.", f'Write [{_DEVICES}."UUID"] above its keys.'
        )
    devices = {uuid: _change(table, uuid) for uuid, table in tables.items()}
    return OwnerValues(_change(content), devices)


def change_file(path: Path, change: TermsChange) -> None:
    """Writes the change into the file, or raises BadSettings and leaves the file unchanged.

    A key that is set for all devices is removed from the tables of single devices.
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
    expected = read_text(text).changed(change).keys()
    for key in KEYS if change.devices else ():
        if key.is_for_node and getattr(change, key.field) is not UNSET:
            raise InvalidInput(
                f"{key.name} applies to the whole machine.", "Set it without naming a device."
            )
    changed = _edit(text, change)
    # TOML allows notations of tables that nothing can be added to.
    if changed is None or read_text(changed).keys() != expected:
        raise InvalidInput(
            "its devices are written in a form that commands cannot edit.",
            f'Write each as a table of its own: [{_DEVICES}."UUID"] and its keys below.',
        )
    return changed if text else changed.lstrip()


def _edit(text: str, change: TermsChange) -> str | None:
    """The changed text; None if its notation cannot be edited."""
    import tomlkit  # slow to import, and only needed for writing
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
    settings = [(key_named(name), written) for name, written in table.items()]
    values = {key.field: _value(key, written, device) for key, written in settings}
    return replace(TermsChange(), **values)


def _value(key: OwnerSetting, written: object, device: str | None) -> object:
    if device is not None and key.is_for_node:
        raise InvalidInput(
            f"{key.name!r} is set for device {device!r}, but applies to the whole machine.",
            f"Write it above the first [{_DEVICES}…] table.",
        )
    if not isinstance(written, str | int | float | list):
        raise InvalidInput(f"{key.name} cannot be {written!r}.", key.hint)
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
    table: AbstractTable = tables.setdefault(uuid, tomlkit.table())
    return table


def _put(table: "TOMLDocument | AbstractTable", name: str, value: Written | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def _text(path: Path) -> str:
    try:
        content = _content(path)
        return content.decode("utf-8-sig")  # some editors write a byte order mark
    except FileNotFoundError as error:
        if not path.is_symlink():
            return ""
        # The target may be on a disk that is not mounted: its terms are not withdrawn.
        raise BadSettings(
            f"{path} links to a file that does not exist.", "Restore that file, or remove the link."
        ) from error
    except OSError as error:
        why = error.strerror or error
        raise BadSettings(f"{path} cannot be read: {why}.", "Fix it, or remove it.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadSettings(
            f"{path} is not UTF-8 text (line {line}).", "Save it as UTF-8, or remove it."
        ) from error


def _content(path: Path) -> bytes:
    # Opening a pipe would block the whole provider until something writes to it.
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadSettings(f"{path} is not a regular file.", "Replace it with a file.")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BadSettings(
            f"{path} has more than {_MOST_BYTES} bytes and is not read.",
            "Remove the content that is not about terms.",
        )
    return content


def _save(path: Path, text: str) -> None:
    """Follows a link, such as one into a repository, and keeps the owner of the file: a provider
    must be able to read a file that root has changed.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = target.stat() if target.exists() else None
        user = os.geteuid() if os.name != "nt" else None
        may_keep = before is not None and user in (0, before.st_uid)
        write_atomically(target, text.encode(), before if may_keep else None)
        if before is None and user == 0:
            around = target.parent.stat()
            os.chown(target, around.st_uid, around.st_gid)
    except OSError as error:
        raise BadSettings(
            f"{path} cannot be written: {error.strerror}.",
            "Free some space, or fix its permissions.",
        ) from error
