"""Fills the front page of this pool with the commands to join it."""

from html import escape
from string import Template

from potluck import __version__
from potluck.model.account import Registration
from potluck.server.http.authority import fingerprint
from potluck.server.services import Services
from potluck.wire.package import Installers, installers

_HIDDEN = "hidden"


def front_page(services: Services, page: str) -> str:
    """Substitutes the placeholders and hides what does not apply to this pool."""
    url, pem = services.origins[0], services.authority_pem
    pin = "" if pem is None else f" --ca-fingerprint {fingerprint(pem)}"
    commands = _installers(services, url)
    values = {
        "version": __version__,
        "pip": commands.pip,
        "uv": commands.uv,
        "pipx": commands.pipx,
        "run": f"potluck run --server {url}{pin} --template hello",
        "provide": f"potluck provide {url}{pin}",
        "joining": "" if services.wheel is not None else _HIDDEN,
        "invited": "" if services.settings.registration is Registration.INVITE else _HIDDEN,
        "closed": "" if services.settings.registration is Registration.CLOSED else _HIDDEN,
        "private": "" if pem is not None else _HIDDEN,
    }
    return Template(page).substitute({name: escape(value) for name, value in values.items()})


def _installers(services: Services, url: str) -> Installers:
    if services.wheel is None:
        return Installers("", "", "")
    return installers(url, services.wheel.package, services.authority_pem is not None)
