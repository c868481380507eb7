"""What is in force for each thing that an owner can say, and who said so."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import fields

from potluck.model.device import DeviceDescription
from potluck.model.terms import DeviceTerms, TermsChange
from potluck.provider.control.message import ProviderStatus
from potluck.provider.owner.file_values import OwnerValues
from potluck.provider.owner.settings_table import KEYS, OwnerSetting
from potluck.wire.consumer import NodeView

_DIFFERS = "differs"
_DEFAULT = "default"
_FILE = "provider.toml"
_OWN = "its own table"
_START = "start options"
_MACHINE = "the machine"


class EffectiveTerm(Struct, frozen=True):
    """One key as it is in force."""

    key: OwnerSetting
    value: str  # as one would write it; empty where nothing is said and nothing limits
    source: str


def spelled(key: OwnerSetting, value: object) -> str:
    """As a person writes it on a command line."""
    if value is None:
        return ""
    written = key.spell(value)
    if isinstance(written, bool):
        return "yes" if written else "no"
    return ",".join(written) if isinstance(written, list) else str(written)


def held_here(
    said: OwnerValues, status: ProviderStatus | None, device: str | None
) -> list[EffectiveTerm]:
    """The file goes before what the provider was started with, and that before the defaults."""
    own = said.devices.get(device, TermsChange()) if device else TermsChange()
    beneath = {} if status is None else _beneath(said, status)
    return [_here(key, own, said.everywhere, beneath) for key in KEYS]


def _here(
    key: OwnerSetting, own: TermsChange, everywhere: TermsChange, beneath: Mapping[str, object]
) -> EffectiveTerm:
    for source, change in ((_OWN, own), (_FILE, everywhere)):
        value = getattr(change, key.field)
        if value is not UNSET:
            return EffectiveTerm(key, spelled(key, value), source)
    default = getattr(DeviceTerms(), key.field, None)
    value = beneath.get(key.field, default)
    return EffectiveTerm(key, spelled(key, value), _DEFAULT if value == default else _START)


def _beneath(said: OwnerValues, status: ProviderStatus) -> dict[str, object]:
    """What holds where the file is silent, as far as some device shows it."""
    found: dict[str, object] = {
        name: getattr(status.limits, name) for name in status.limits.__struct_fields__
    }
    for device in status.devices:
        own = said.devices.get(device.description.uuid, TermsChange())
        for field in fields(DeviceTerms):
            if getattr(own, field.name) is UNSET:
                found.setdefault(field.name, getattr(device.description.terms, field.name))
    return found


def held_elsewhere(node: NodeView, device: str | None) -> list[EffectiveTerm]:
    """As the machine told the pool; why it is so only the machine knows."""
    descriptions = [each.description for each in node.devices]
    chosen = [each for each in descriptions if device in (None, each.uuid)]
    limits = {
        "cores": node.cores,
        "memory_bytes": node.memory_bytes,
        "disk_bytes": node.disk_bytes,
        "sandbox": node.sandbox.driver,
    }
    return [
        EffectiveTerm(
            key, _agreed(key, chosen) if not key.is_for_node else _limit(key, limits), _MACHINE
        )
        for key in KEYS
        if not key.is_for_node or key.field in limits
    ]


def _agreed(key: OwnerSetting, descriptions: Sequence[DeviceDescription]) -> str:
    values = {spelled(key, getattr(each.terms, key.field)) for each in descriptions}
    return values.pop() if len(values) == 1 else _DIFFERS


def _limit(key: OwnerSetting, limits: Mapping[str, object]) -> str:
    return spelled(key, limits[key.field])
