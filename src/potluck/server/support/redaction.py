"""Removes secrets from settings and texts.

Settings are shown by a list of those that are known to be harmless; of all others only whether they
are set. From texts everything is removed that has the form of a secret, and every value that is
known to be one.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import asdict

from potluck.local.secret_patterns import MASK, mask_secrets
from potluck.server.settings import ServerSettings

_SHOWN_TEXTS: Final = frozenset(
    {"host", "public_url", "operator", "tls", "order_policy", "placement_policy"}
)
_ADDRESSES: Final = frozenset(
    {"database_url", "database_direct_url", "treasury_database_url", "redis_url", "blobs_url"}
)
# Shorter values would remove harmless words.
_SHORTEST: Final = 6


def redact_settings(settings: ServerSettings) -> dict[str, Any]:
    return {name: _shown(name, value) for name, value in asdict(settings).items()}


def _shown(name: str, value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str() if name in _SHOWN_TEXTS:
            return value
        case str() if name in _ADDRESSES:
            return redact_address(value)
        case tuple() if all(isinstance(item, int) for item in value):
            return list(value)
    return "(set)" if value else "(not set)"


def redact_address(url: str) -> str:
    """Scheme and hosts; user, password, path and parameters may all be secret."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{hosts}/…"


def secrets_of(settings: ServerSettings, variables: Mapping[str, str]) -> set[str]:
    """Values that must not appear anywhere."""
    secrets = {settings.encryption_key or "", settings.encryption_key_command or ""}
    secrets.update((*settings.alert_urls, settings.sentry_dsn or ""))
    for name in _ADDRESSES:
        secrets.update(_of_address(getattr(settings, name) or ""))
    for url in settings.chain_rpc_urls.values():
        secrets.update((urlsplit(url).path.strip("/"), *_of_address(url)))
    secrets.update(value for name, value in variables.items() if _is_secret_name(name))
    return {value for value in secrets if len(value) >= _SHORTEST}


def _of_address(url: str) -> Iterable[str]:
    parts = urlsplit(url)
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    return (password, unquote(password), *(value for _, value in parse_qsl(parts.query)))


def _is_secret_name(name: str) -> bool:
    words = ("KEY", "SECRET", "TOKEN", "PASSWORD", "PASSPHRASE", "PASSWD", "CREDENTIAL")
    return any(word in name.upper() for word in words) and not name.endswith("_FILE")


class Redactor:
    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)

    def clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return mask_secrets(text)
