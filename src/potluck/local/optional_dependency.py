"""Parts of Potluck that not everybody installs, and how they are had.

No package index has Potluck, so its bare name is never what is to be installed: an index would give
a stranger's package. Who installed it from a pool's wheel is shown that very wheel, by its hash.
"""

import importlib.util
from typing import Any

import msgspec

from potluck.model.error import PartMissing

# Something of each that nothing else needs.
_SERVER = ("litestar", "asyncpg", "uvicorn")


def check_server_part() -> None:
    """Before anything is made for a server that could not run."""
    missing = next((name for name in _SERVER if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        raise server_part_missing(missing)


def server_part_missing(module: str | None) -> PartMissing:
    return PartMissing(
        f"The server's part of Potluck is not installed ({module} is missing).",
        how_to_install("server"),
    )


def how_to_install(extra: str) -> str:
    """In a sentence, with the line where it is known."""
    wheel = _wheel()
    if wheel is not None:
        return f'Install it from where this came from: pip install "potluck[{extra}] @ {wheel}"'
    if extra == "server":
        return "Start it in a clone of Potluck: `make up` there installs what it needs."
    return f"In a clone of Potluck: pip install '.[{extra}]'"


def _wheel() -> str | None:
    """Where it was installed from, if that was an address, with the hash that was checked."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        told = distribution("potluck").read_text("direct_url.json")
        origin: Any = msgspec.json.decode(told or "{}")
        url, sha256 = origin["url"], origin["archive_info"]["hashes"]["sha256"]
    except (PackageNotFoundError, msgspec.DecodeError, KeyError, TypeError):
        return None
    return f"{url}#sha256={sha256}" if str(url).startswith(("http://", "https://")) else None
