"""The profile: the client's server and the session there.

`profile.toml` is for one server: its address, the session's tokens, the certificate authority.
Tokens of one server are never sent to another. The file is readable by its owner only and replaced
atomically; a change holds `profile.lock` while it reads and writes.
"""

import os
import tomllib
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.consumer.http.server_address import check_url, normalize_url
from potluck.local.data_directory import config_directory
from potluck.local.durable_files import keep_private, write_atomically
from potluck.local.file_lock import hold_lock
from potluck.model.error import BadSettings


class Session(Struct, frozen=True):
    """The tokens of a sign-in. The refresh token can be used once."""

    address: str
    access_token: str
    access_expires_at: datetime
    refresh_token: str


class Profile(Struct, frozen=True):
    url: str  # without a trailing slash
    session: Session | None = None  # None: signed out
    ca_file: str | None = None  # the server's own certificate authority, if it has one
    key_file: str | None = None  # of a wallet outside the configuration directory


def profile_path() -> Path:
    return config_directory() / "profile.toml"


def lock_profile() -> AbstractContextManager[None]:
    """The lock for reading, changing and writing the profile: its tokens can be used once."""
    return hold_lock(config_directory() / "profile.lock")


def choose_url(url: str | None = None) -> str:
    """The given address, else POTLUCK_URL, else the profile's."""
    chosen = url if url is not None else os.environ.get("POTLUCK_URL") or load_url()
    if chosen is None:
        raise BadSettings(
            "No server is configured yet.",
            "Start one here with `potluck up`, or choose one: `potluck login URL`, or"
            " `potluck run --server URL …`.",
        )
    return check_url(chosen)


def load_url() -> str | None:
    """The address in the profile."""
    saved = load_profile()
    return None if saved is None else saved.url


def load_profile_for(url: str) -> Profile | None:
    """The profile, if it is for this server."""
    saved = load_profile()
    return saved if saved is not None and saved.url == url else None


def load_profile() -> Profile | None:
    """The profile on disk."""
    path = profile_path()
    values = _read(path)
    if "url" not in values:
        return None
    try:
        # The file is flat; without a refresh token there is no session in it.
        session = values if "refresh_token" in values else None
        profile = msgspec.convert({**values, "session": session}, Profile)
    except msgspec.ValidationError as error:
        raise _damaged(path, error) from error
    return replace(profile, url=normalize_url(profile.url))


def save_profile(profile: Profile) -> Path:
    """Writes the profile and returns its path."""
    path = profile_path()
    values = {**msgspec.to_builtins(profile), **msgspec.to_builtins(profile.session or {})}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    text = "".join(f"{name} = {_quoted(value)}\n" for name, value in texts.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, text.encode())
    except OSError as error:
        raise BadSettings(
            f"The profile {path} cannot be written: {error.strerror}.",
            "Make its directory writable, or choose another with POTLUCK_CONFIG_DIR.",
        ) from error
    return path


def forget_session(url: str) -> None:
    """Removes the tokens; the address and the certificate authority stay."""
    with lock_profile():
        saved = load_profile_for(url)
        if saved is not None:
            save_profile(replace(saved, session=None))


def _read(path: Path) -> dict[str, str]:
    try:
        keep_private(path)
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadSettings(
            f"The profile {path} cannot be read: {error.strerror}.",
            "Check its owner, or choose another directory with POTLUCK_CONFIG_DIR.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _damaged(path: Path, error: Exception) -> BadSettings:
    return BadSettings(
        f"The profile {path} is damaged: {error}.", "Remove it, and sign in: potluck login URL"
    )


def _quoted(text: str) -> str:
    """A TOML basic string; addresses, tokens and paths have no control characters."""
    assert text.isprintable()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
