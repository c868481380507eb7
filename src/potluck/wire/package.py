"""The package that a server hands out, and the line that installs it.

The line names the hash of what it installs, and the installer refuses anything else. So the line is
what is trusted, not the way the bytes came: where a server has an authority of its own, which
installers do not know, they are told not to ask who it is.
"""

from urllib.parse import urlsplit

from msgspec import Struct

from potluck.wire import routes


class Package(Struct, frozen=True):
    """A wheel of exactly the code that the server runs."""

    name: str
    version: str  # with a mark of the content: two wheels of one version have one content
    file: str  # what the wheel is called
    sha256: str
    size_bytes: int
    requires_python: str


class Installers(Struct, frozen=True):
    """The same line for each installer that checks the hash. `uv tool install` does not."""

    pip: str
    uv: str
    pipx: str


def installers(url: str, package: Package, has_own_authority: bool) -> Installers:
    """For a shell of any kind; `url` is where whoever joins reaches the server."""
    what = requirement(url, package)
    if not has_own_authority:
        commands = ("pip install", "uv pip install", "pipx install")
    else:
        host = urlsplit(url).netloc
        commands = (
            f"pip install --trusted-host {host}",
            f"uv pip install --allow-insecure-host {host}",
            f'pipx install --pip-args="--trusted-host {host}"',
        )
    return Installers(*(f'{command} "{what}"' for command in commands))


def requirement(url: str, package: Package) -> str:
    """As PEP 508 has it; no index is ever asked for the name."""
    path = routes.PACKAGE_FILE.url(file=package.file)
    return f"{package.name} @ {url}{path}#sha256={package.sha256}"
