"""Which server the client speaks to, and as whom.

`profile.toml` holds an address and a token; POTLUCK_URL and POTLUCK_TOKEN win over it. The token
of one server is never sent to another: a profile's token is used only for the profile's address.
The file is readable by its owner alone and replaced in one step, so nobody sees half of it.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from platformdirs import user_config_path

from potluck.local.durable import write_whole
from potluck.model.error import BadSettings, NotSignedIn


class Profile(Struct, frozen=True):
    """An address without a trailing slash, and the bearer token for it."""

    url: str
    token: str


def profile_path() -> Path:
    directory = os.environ.get("POTLUCK_CONFIG_DIR")
    return (Path(directory) if directory else user_config_path("potluck")) / "profile.toml"


def load_profile(url: str | None = None) -> Profile:
    """The profile for this address; without one, for the address that is configured."""
    saved = _read(profile_path())
    chosen = url or os.environ.get("POTLUCK_URL") or saved.get("url")
    if not chosen:
        raise BadSettings(
            "No server is known yet.",
            "Start one here with `potluck up`, or name one with POTLUCK_URL and POTLUCK_TOKEN.",
        )
    address = checked_url(chosen)
    return Profile(address, _token_for(address, saved))


def saved_url() -> str | None:
    """The address in the profile as it is now."""
    return _read(profile_path()).get("url")


def save_profile(profile: Profile) -> Path:
    """Writes the profile for the next commands and says where."""
    path = profile_path()
    text = f"url = {_quoted(profile.url)}\ntoken = {_quoted(profile.token)}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, text.encode())
    except OSError as error:
        raise BadSettings(
            f"The profile {path} can not be written: {error.strerror}.",
            "Make its directory writable, or name another with POTLUCK_CONFIG_DIR.",
        ) from error
    return path


def checked_url(text: str) -> str:
    """The address in the one form that we compare: scheme, host and port, no trailing slash."""
    text = text.strip()
    if not _is_address(text):
        raise BadSettings(
            f"{text!r} is not the address of a server.",
            "Write it like http://127.0.0.1:8470 or https://potluck.example.org.",
        )
    return text.rstrip("/")


def _is_address(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(named) and not (parts.username or parts.query or parts.fragment)


def _token_for(url: str, saved: Mapping[str, str]) -> str:
    token = os.environ.get("POTLUCK_TOKEN")
    if not token and saved.get("url", "").rstrip("/") == url:
        token = saved.get("token")
    if not token:
        raise NotSignedIn(
            f"There is no token for {url}.", "Set POTLUCK_TOKEN to the one you were given for it."
        )
    if not (token.isascii() and token.isprintable()):
        raise BadSettings(
            "The token has characters that no token has.", "Copy it again, without line breaks."
        )
    return token


def _read(path: Path) -> dict[str, str]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadSettings(
            f"The profile {path} can not be read: {error.strerror}.",
            "Check who owns it, or name another directory with POTLUCK_CONFIG_DIR.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"The profile {path} is damaged: {error}.", "Remove it; `potluck up` writes it anew."
        ) from error
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _quoted(text: str) -> str:
    """A TOML basic string; addresses and tokens have no control characters."""
    assert text.isprintable()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
