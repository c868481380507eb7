"""Optional parts of Potluck, and the commands that install them.

No package index has Potluck, so a hint never suggests its bare name: an index could serve someone
else's package. An installation from a pool's wheel gets a hint with that wheel and its hash.
"""

import importlib.util
from typing import Any

import msgspec

from potluck.model.error import PartMissing

# Packages that only the server needs.
_SERVER = ("litestar", "asyncpg", "uvicorn")


def check_server_part() -> None:
    """Raises PartMissing before anything is created for a server that could not run."""
    missing = next((name for name in _SERVER if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        raise server_part_missing(missing)


def server_part_missing(module: str | None) -> PartMissing:
    return PartMissing(
        f"The server part of Potluck is not installed ({module} is missing).",
        install_hint("server"),
    )


def check_chain_part() -> None:
    """Raises PartMissing if the library for EVM chains is not installed."""
    if importlib.util.find_spec("web3") is None:
        raise PartMissing(
            "The part of Potluck for EVM chains is not installed (web3 is missing).",
            install_hint("chain"),
        )


def install_hint(extra: str) -> str:
    """A hint, with the command where it is known."""
    wheel = _wheel()
    if wheel is not None:
        return f'Install it from the same wheel: pip install "potluck[{extra}] @ {wheel}"'
    if extra == "server":
        return "Start it in a clone of Potluck: `make up` there installs what it needs."
    return f"In a clone of Potluck: pip install '.[{extra}]'"


def _wheel() -> str | None:
    """The URL and hash of the wheel that was installed, if it came from a URL."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("potluck").read_text("direct_url.json")
        origin: Any = msgspec.json.decode(text or "{}")
        url, sha256 = origin["url"], origin["archive_info"]["hashes"]["sha256"]
    except (PackageNotFoundError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return f"{url}#sha256={sha256}" if str(url).startswith(("http://", "https://")) else None
