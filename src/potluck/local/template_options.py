"""What a template asks for, in the words of `potluck run`.

Whoever runs it may say otherwise on the command line. Nothing here lets a template widen who sees
a secret, or have files of the machine it is run from.
"""

import msgspec
from msgspec import Struct

from potluck.model.bounded_types import ShortText


class TemplateOptions(
    Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=True
):
    """Sizes and times are written as on the command line: "2GiB", "15m"."""

    gpu: int | None = None
    device_kind: ShortText | None = None
    memory: ShortText | None = None
    fraction: ShortText | None = None
    vendor: ShortText | None = None
    model: ShortText | None = None
    capability: ShortText | None = None
    cores: int | None = None
    ram: ShortText | None = None
    disk: ShortText | None = None
    time: ShortText | None = None
    checkpoint: ShortText | None = None
    array: int | None = None
    allow_failures: int | None = None
    attempts: int | None = None
    expected: ShortText | None = None
    env: list[str] | None = None

    def said(self) -> dict[str, object]:
        """Those that it has, by the names of the command's parameters."""
        every = msgspec.structs.asdict(self)
        return {name: value for name, value in every.items() if value is not None}
