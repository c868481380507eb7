"""Everything a provider can be told, as one frozen value, read once.

Options win over variables, variables over defaults. A field `cores` is the option `--cores` and the
variable POTLUCK_PROVIDER_CORES; the token, the address and the data directory share the variables
of the other commands (POTLUCK_TOKEN, POTLUCK_URL, POTLUCK_DATA_DIR).
"""

import platform
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from potluck.model.credit import MICRO
from potluck.model.error import BadSettings
from potluck.model.text import Count, ShortText

Token = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[\x21-\x7e]+$")]
Interval = Annotated[float, Meta(gt=0, le=3_600)]
Price = Annotated[Decimal, Meta(ge=0, le=1_000_000)]


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """What the owner of this machine decided."""

    url: str
    token: Token
    data_directory: Path
    name: ShortText
    unsafe_no_sandbox: bool = False
    index_url: str = "https://pypi.org/simple"
    price: Price = Decimal(0)  # credits for an hour of each device
    cores: Annotated[int, Meta(ge=1, le=4096)] | None = None  # none: as many as there are
    memory_bytes: Annotated[Count, Meta(ge=2**26)] | None = None  # none: 60 % of the RAM
    disk_bytes: Annotated[Count, Meta(ge=2**20)] | None = None  # none: 20 % of the RAM
    # The server names its own intervals; these are the longest that this provider goes along with.
    heartbeat_seconds: Interval = 20.0
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 20.0
    # How long to wait for an answer, over and above the time that a poll asks for.
    answer_seconds: Interval = 30.0
    beat_answer_seconds: Interval = 8.0
    connect_seconds: Interval = 5.0
    # Between tries while the server is silent: full jitter, doubling from the first to the longest.
    backoff_first_seconds: Interval = 0.25
    backoff_longest_seconds: Interval = 15.0
    log_flush_seconds: Interval = 0.1
    # At shutdown, how long outcomes may still travel to the server.
    stop_grace_seconds: Interval = 5.0
    detect_seconds: Interval = 20.0

    @property
    def price_micro_per_hour(self) -> int:
        return int(self.price * MICRO)


def read_settings(options: Mapping[str, Any], variables: Mapping[str, str]) -> ProviderSettings:
    """The settings, or BadSettings naming the option or variable that is wrong."""
    chosen: dict[str, Any] = {}
    for field in msgspec.structs.fields(ProviderSettings):
        said = _said(field, options, variables)
        if said is not None:
            chosen[field.name] = _convert(field, *said)
    if "token" not in chosen:
        raise BadSettings(
            "There is no token for this server.",
            "Set POTLUCK_TOKEN; `potluck up` and `potluck server` write one to a file.",
        )
    chosen["url"] = _checked_url(chosen.get("url", ""))
    chosen.setdefault("name", platform.node() or "provider")
    chosen.setdefault("data_directory", _default_data_directory(variables))
    return ProviderSettings(**chosen)


def _said(
    field: FieldInfo, options: Mapping[str, Any], variables: Mapping[str, str]
) -> tuple[str, Any] | None:
    """Where the value was said, in the words of who said it, and the value."""
    if options.get(field.name) is not None:
        return _OPTIONS.get(field.name, f"--{field.name.replace('_', '-')}"), options[field.name]
    variable = _VARIABLES.get(field.name, f"POTLUCK_PROVIDER_{field.name.upper()}")
    return (variable, variables[variable]) if variables.get(variable) else None


_OPTIONS = {"data_directory": "--data-dir", "url": "URL"}
_VARIABLES = {"token": "POTLUCK_TOKEN", "url": "POTLUCK_URL"}


def _convert(field: FieldInfo, source: str, value: Any) -> Any:
    try:
        return msgspec.convert(value, field.type, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{source} does not fit: {error}.", f"Change {source}.") from error


def _path(kind: type, value: Any) -> Any:
    if kind is not Path:
        raise NotImplementedError(kind)
    return Path(value).expanduser().absolute()


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadSettings(
            f"{url!r} is not the address of a server.",
            "Write it like http://127.0.0.1:8470; `potluck up` prints it.",
        )
    return url.rstrip("/")


def _default_data_directory(variables: Mapping[str, str]) -> Path:
    if variables.get("POTLUCK_DATA_DIR"):
        return Path(variables["POTLUCK_DATA_DIR"]).expanduser().absolute() / "provider"
    from platformdirs import user_data_path

    return user_data_path("potluck") / "provider"
