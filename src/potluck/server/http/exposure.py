"""Refuses settings that would expose the server to other machines without TLS."""

from ipaddress import ip_address

from potluck.model.error import BadSettings
from potluck.server.http.peers import Peers
from potluck.server.http.settings import HttpSettings


def check(host: str, settings: HttpSettings, public_url: str | None) -> None:
    """Raises BadSettings unless TLS, a proxy or a loopback address protects the traffic."""
    _check_tls(settings)
    Peers(settings.behind_proxy)
    if settings.behind_proxy and public_url is None:
        raise BadSettings(
            "--behind-proxy needs the public address of the proxy.",
            "Add --public-url, such as --public-url https://potluck.example.org.",
        )
    if not (serves_tls(settings) or settings.behind_proxy or is_loopback(host)):
        raise BadSettings(
            f"--host is {host!r}, which other machines can reach, but TLS is off.",
            "Add --tls auto, which makes a certificate and prints how clients trust it; or"
            " --tls-cert FILE and --tls-key FILE; or --behind-proxy CIDR when a proxy serves TLS."
            " To serve this machine only, leave out --host.",
        )


def serves_tls(settings: HttpSettings) -> bool:
    return settings.tls is not None or settings.tls_cert is not None


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check_tls(settings: HttpSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise BadSettings(
            "A certificate needs its key, and a key its certificate.",
            "Give both --tls-cert and --tls-key.",
        )
    if settings.tls is not None and settings.tls_cert is not None:
        raise BadSettings("--tls auto and --tls-cert exclude each other.", "Give one of them.")
