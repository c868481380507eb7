"""The package that a server serves, and the commands that install it.

The command contains the hash of the wheel, and the installer refuses any other content. So trust
rests on the command, not on the connection: with a private authority, which installers do not know,
they skip the verification of the certificate.
"""

from urllib.parse import urlsplit

from msgspec import Struct

from potluck.model.account import Registration
from potluck.wire import routes


class Package(Struct, frozen=True):
    """A wheel of exactly the code that the server runs."""

    name: str
    version: str  # with a hash of the content: equal versions have equal content
    file: str  # the file name of the wheel
    sha256: str
    size_bytes: int
    requires_python: str


class Installers(Struct, frozen=True):
    """The install command for each installer that checks the hash; `uv tool install` does not."""

    pip: str
    uv: str
    pipx: str


class Joining(Struct, frozen=True):
    """How to join this pool. The commands are for any shell."""

    version: str  # of the server
    url: str
    registration: Registration  # whether a new wallet gets an account
    run: str  # runs a first task
    provide: str  # offers a machine
    has_private_authority: (
        bool  # then the commands pin its certificate, and skip it for the package
    )
    installers: Installers | None = None  # None: the server has no package to install


def installers(url: str, package: Package, has_own_authority: bool) -> Installers:
    """Commands for any shell; `url` is the server's address for the joining machine."""
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
    """As in PEP 508; no package index is used."""
    path = routes.PACKAGE_FILE.url(file=package.file)
    return f"{package.name} @ {url}{path}#sha256={package.sha256}"
