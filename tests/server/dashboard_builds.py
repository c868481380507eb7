"""Small builds of a dashboard, as the real build leaves them."""

import gzip
import hashlib
from pathlib import Path

from scripts.web_publish import publish

SCRIPT = b"document.title = 'built';\n" * 40


def built_files(mark: str) -> dict[str, bytes]:
    """An index and a script; the copy for `br` only has to be recognised, not to be unpacked."""
    script = SCRIPT + mark.encode()
    name = f"assets/index-{hashlib.sha256(script).hexdigest()[:8]}.js"
    page = f'<!doctype html><title>{mark}</title><script type="module" src="/{name}"></script>'
    plain = {"index.html": page.encode(), name: script}
    packed = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in plain.items()}
    return {**plain, **packed, **{f"{name}.br": b"br " + data for name, data in plain.items()}}


def script_path(mark: str) -> str:
    return "/" + next(name for name in built_files(mark) if name.endswith(".js"))


def publish_build(folder: Path, mark: str) -> None:
    publish(built_files(mark), mark, folder)
