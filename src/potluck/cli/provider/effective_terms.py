"""The value in effect for each owner setting, and its source."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import fields

from potluck.model.device import DeviceDescription
from potluck.model.terms import DeviceTerms, TermsChange
from potluck.provider.control.message import ProviderStatus
from potluck.provider.owner.file import OwnerValues
from potluck.provider.owner.settings_table import KEYS, OwnerSetting
from potluck.wire.consumer import NodeView

_DIFFERS = "differs"
_DEFAULT = "default"
_FILE = "provider.toml"
_OWN = "its own table"
_START = "start options"
_MACHINE = "the machine"


class EffectiveTerm(Struct, frozen=True):
    """The value in effect for one setting."""

    key: OwnerSetting
    value: str  # as written on a command line; empty if unset and unlimited
    source: str


def format_value(key: OwnerSetting, value: object) -> str:
    """Formats a value as it is written on a command line."""
    if value is None:
        return ""
    spelled = key.spell(value)
    if isinstance(spelled, bool):
        return "yes" if spelled else "no"
    return ",".join(spelled) if isinstance(spelled, list) else str(spelled)


def local_terms(
    values: OwnerValues, status: ProviderStatus | None, device: str | None
) -> list[EffectiveTerm]:
    """The file takes precedence over the start options, and these over the defaults."""
    own = values.devices.get(device, TermsChange()) if device else TermsChange()
    below = {} if status is None else _values_without_file(values, status)
    return [_local_term(key, own, values.everywhere, below) for key in KEYS]


def _local_term(
    key: OwnerSetting, own: TermsChange, common: TermsChange, below: Mapping[str, object]
) -> EffectiveTerm:
    for source, change in ((_OWN, own), (_FILE, common)):
        value = getattr(change, key.field)
        if value is not UNSET:
            return EffectiveTerm(key, format_value(key, value), source)
    default = getattr(DeviceTerms(), key.field, None)
    value = below.get(key.field, default)
    return EffectiveTerm(key, format_value(key, value), _DEFAULT if value == default else _START)


def _values_without_file(values: OwnerValues, status: ProviderStatus) -> dict[str, object]:
    """The values in effect where the file sets none, as far as a device reports them."""
    result: dict[str, object] = {
        name: getattr(status.limits, name) for name in status.limits.__struct_fields__
    }
    for device in status.devices:
        own = values.devices.get(device.description.uuid, TermsChange())
        for field in fields(DeviceTerms):
            if getattr(own, field.name) is UNSET:
                result.setdefault(field.name, getattr(device.description.terms, field.name))
    return result


def remote_terms(node: NodeView, device: str | None) -> list[EffectiveTerm]:
    """The values that the machine reported to the pool; only the machine knows their source."""
    descriptions = [
        view.description for view in node.devices if device in (None, view.description.uuid)
    ]
    limits = {
        "cores": node.cores,
        "memory_bytes": node.memory_bytes,
        "disk_bytes": node.disk_bytes,
        "sandbox": node.sandbox.driver,
    }
    return [
        EffectiveTerm(
            key,
            format_value(key, limits[key.field])
            if key.is_for_node
            else _common_value(key, descriptions),
            _MACHINE,
        )
        for key in KEYS
        if not key.is_for_node or key.field in limits
    ]


def _common_value(key: OwnerSetting, descriptions: Sequence[DeviceDescription]) -> str:
    values = {format_value(key, getattr(device.terms, key.field)) for device in descriptions}
    return values.pop() if len(values) == 1 else _DIFFERS
