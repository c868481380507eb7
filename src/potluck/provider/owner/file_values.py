"""The owner's values, merged into the terms of each device and the limits of the node.

Precedence: the device's table, the top level of the file, the options of `potluck provide`, the
built-in defaults.
"""

from collections.abc import Mapping

from msgspec import UNSET, Struct
from msgspec.structs import fields, replace

from potluck.model.terms import DeviceTerms, TermsChange


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
