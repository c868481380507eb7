"""Which server the client speaks to, and how it signed in there.

`profile.toml` is for one server: its address, the tokens of the session there, the authority that
its certificate is checked against. What was got for one server is never sent to another. The file
is readable by its owner alone and replaced in one step, so nobody sees half of it; whoever changes
it holds `profile.lock`, reads first, and writes then.
"""

import os
import tomllib
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from potluck.consumer.http.server_address import checked_url, spelled_url
from potluck.local.data_directory import config_directory
from potluck.local.durable_files import write_whole
from potluck.local.file_lock import turn
from potluck.local.private_files import keep_private
from potluck.model.error import BadSettings


class Session(Struct, frozen=True):
    """What signing in gave. The refresh token is good for one use."""

    address: str
    access_token: str
    access_expires_at: datetime
    refresh_token: str


class Profile(Struct, frozen=True):
    """An address without a trailing slash, and what is known for it."""

    url: str
    session: Session | None = None  # none: signed out
    ca_file: str | None = None  # the server's own authority, if it has one
    key_file: str | None = None  # the wallet's, if it is not the one in the configuration directory


def profile_path() -> Path:
    return config_directory() / "profile.toml"


def changing_profile() -> AbstractContextManager[None]:
    """Held while the profile is read, changed and written: tokens in it are good for one use."""
    return turn(config_directory() / "profile.lock")


def chosen_url(url: str | None = None) -> str:
    """The address that was named, else the one in POTLUCK_URL, else the profile's."""
    found = url if url is not None else os.environ.get("POTLUCK_URL") or saved_url()
    if found is None:
        raise BadSettings(
            "No server is known yet.",
            "Start one here with `potluck up`, or name one: `potluck login URL`, or"
            " `potluck run --server URL …`.",
        )
    return checked_url(found)


def saved_url() -> str | None:
    """The address in the profile as it is now."""
    saved = saved_profile()
    return None if saved is None else saved.url


def saved_for(url: str) -> Profile | None:
    """The profile, if it is for this server."""
    saved = saved_profile()
    return saved if saved is not None and saved.url == url else None


def saved_profile() -> Profile | None:
    """As it is on the disk now."""
    path = profile_path()
    found = _read(path)
    if "url" not in found:
        return None
    try:
        profile = msgspec.convert(_nested(found), Profile)
    except msgspec.ValidationError as error:
        raise _damaged(path, error) from error
    return msgspec.structs.replace(profile, url=spelled_url(profile.url))


def save_profile(profile: Profile) -> Path:
    """Writes the profile for the next commands and says where."""
    path = profile_path()
    values = {**msgspec.to_builtins(profile), **msgspec.to_builtins(profile.session or {})}
    known = {name: value for name, value in values.items() if isinstance(value, str)}
    text = "".join(f"{name} = {_quoted(value)}\n" for name, value in known.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, text.encode())
    except OSError as error:
        raise BadSettings(
            f"The profile {path} can not be written: {error.strerror}.",
            "Make its directory writable, or name another with POTLUCK_CONFIG_DIR.",
        ) from error
    return path


def forget_session(url: str) -> None:
    """The address and what it is trusted by stay; the tokens go."""
    with changing_profile():
        saved = saved_for(url)
        if saved is not None:
            save_profile(msgspec.structs.replace(saved, session=None))


def _nested(found: dict[str, str]) -> dict[str, Any]:
    """The flat file as the values are; without a refresh token there is no session in it."""
    return {**found, "session": found if "refresh_token" in found else None}


def _read(path: Path) -> dict[str, str]:
    try:
        keep_private(path)
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadSettings(
            f"The profile {path} can not be read: {error.strerror}.",
            "Check who owns it, or name another directory with POTLUCK_CONFIG_DIR.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _damaged(path: Path, why: Exception) -> BadSettings:
    return BadSettings(
        f"The profile {path} is damaged: {why}.", "Remove it, and sign in: potluck login URL"
    )


def _quoted(text: str) -> str:
    """A TOML basic string; addresses, tokens and paths have no control characters."""
    assert text.isprintable()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
