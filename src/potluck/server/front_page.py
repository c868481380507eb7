"""Fills the front page of this pool with the commands to join it."""

from html import escape
from string import Template

from potluck import __version__
from potluck.model.account import Registration
from potluck.server.http.authority import fingerprint
from potluck.server.services import Services
from potluck.wire.package import Installers, Joining, installers

_HIDDEN = "hidden"


def front_page(services: Services, page: str) -> str:
    """Substitutes the placeholders and hides what does not apply to this pool."""
    joining = joining_of(services)
    commands = joining.installers or Installers("", "", "")
    values = {
        "version": joining.version,
        "pip": commands.pip,
        "uv": commands.uv,
        "pipx": commands.pipx,
        "run": joining.run,
        "provide": joining.provide,
        "joining": _HIDDEN if joining.installers is None else "",
        "invited": "" if joining.registration is Registration.INVITE else _HIDDEN,
        "closed": "" if joining.registration is Registration.CLOSED else _HIDDEN,
        "private": "" if joining.has_private_authority else _HIDDEN,
    }
    return Template(page).substitute({name: escape(value) for name, value in values.items()})


def joining_of(services: Services) -> Joining:
    """The commands to join this pool."""
    url, pem, wheel = services.origins[0], services.authority_pem, services.wheel
    pin = "" if pem is None else f" --ca-fingerprint {fingerprint(pem)}"
    return Joining(
        __version__,
        url,
        services.settings.registration,
        f"potluck run --server {url}{pin} --template hello",
        f"potluck provide {url}{pin}",
        pem is not None,
        None if wheel is None else installers(url, wheel.package, pem is not None),
    )
