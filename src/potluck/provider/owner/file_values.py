"""What the owner said, put together: the terms of each device, and the limits of the node.

What is said of a device goes before what is said of all, that before what the options of
`potluck provide` say, and that before what was built in.
"""

from collections.abc import Mapping

from msgspec import UNSET, Struct
from msgspec.structs import fields, replace

from potluck.model.terms import DeviceTerms, TermsChange


class NodeLimits(Struct, frozen=True):
    """How much of the machine tasks may have, all together. None: not limited by its owner."""

    cores: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    bandwidth_bytes_per_second: int | None = None
    sandbox: str | None = None  # a driver's name; none: the strongest that works
    has_containers: bool = True  # whether images are run, where there is an engine
    images: tuple[str, ...] = ()  # patterns: which of them others may have run
    pulls_images: bool = False  # whether one that is not here is fetched


class OwnerValues(Struct, frozen=True):
    """What an owner's file says; what it does not say is unset."""

    everywhere: TermsChange = TermsChange()
    devices: Mapping[str, TermsChange] = {}  # by uuid

    def terms(self, uuid: str, beneath: DeviceTerms) -> DeviceTerms:
        own = self.devices.get(uuid, TermsChange())
        return replace(beneath, **(_said(self.everywhere, beneath) | _said(own, beneath)))

    def changed(self, change: TermsChange) -> "OwnerValues":
        """With the change; what is said of all devices is no longer said of one."""
        said = {
            field.name: UNSET if value is None else value
            for field in fields(change)
            if field.name != "devices" and (value := getattr(change, field.name)) is not UNSET
        }
        devices = dict(self.devices)
        if change.devices:
            for uuid in change.devices:
                devices[uuid] = replace(devices.get(uuid, TermsChange()), **said)
            return OwnerValues(self.everywhere, devices)
        unsaid = dict.fromkeys(said, UNSET)
        devices = {uuid: replace(own, **unsaid) for uuid, own in devices.items()}
        return OwnerValues(replace(self.everywhere, **said), devices)

    def keys(self) -> set[tuple[str, str]]:
        """What it says anything about: a device, or "" for all, and a field."""
        tables = {"": self.everywhere, **self.devices}
        return {
            (uuid, field.name)
            for uuid, table in tables.items()
            for field in fields(table)
            if field.name != "devices" and getattr(table, field.name) is not UNSET
        }

    def limits(self, beneath: NodeLimits) -> NodeLimits:
        return replace(beneath, **_said(self.everywhere, beneath))


def _said(change: TermsChange, about: DeviceTerms | NodeLimits) -> dict[str, object]:
    """Those of its fields that were said."""
    values = {field.name: getattr(change, field.name) for field in fields(about)}
    return {name: value for name, value in values.items() if value is not UNSET}
