"""Who one is at the server, and whether what proves it is kept from others."""

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from potluck.cli.doctor.finding import Finding, Patient, odd, skipped, well, wrong
from potluck.cli.terminal.units import show_credits
from potluck.model.error import NotSignedIn, PotluckError

_IN = "a session or an API key that the server takes"


def look_at_account(patient: Patient) -> Iterator[Finding]:
    yield _signed_in(patient)
    yield from _secrets()


def _signed_in(patient: Patient) -> Finding:
    from potluck.consumer import Patience, Potluck

    if patient.url is None:
        return skipped("account", "no server is known", _IN)
    hasty = Patience(connect_seconds=patient.seconds, read_seconds=patient.seconds, tries=1)
    try:
        with Potluck(patient.url, patience=hasty) as potluck:
            me = potluck.account.me()
    except NotSignedIn as error:
        return wrong("account", error.detail, _IN, f"potluck login {patient.url}")
    except PotluckError as error:
        if not error.retryable:
            return wrong("account", error.detail, _IN, error.hint or "potluck whoami")
        return skipped("account", error.detail, _IN)
    roles = ", ".join(me.roles) or "no role"
    return well(
        "account", f"{me.address} ({roles}), {show_credits(me.available_micro)} credits", _IN
    )


def _secrets() -> Iterator[Finding]:
    """What holds a key or a token, and is there."""
    from potluck.consumer.identity.profile import profile_path
    from potluck.consumer.identity.wallet import keystore_path, password_path

    if not keystore_path().exists():
        needed = "a wallet here, or one in your browser"
        yield odd("wallet", f"none in {keystore_path()}", needed, "potluck login URL")
    for path in (keystore_path(), password_path(), profile_path()):
        if path.exists():
            yield _private(path)


def _private(path: Path) -> Finding:
    name, needed = path.name, "for your eyes only"
    if sys.platform == "win32":
        return skipped(name, "rights are not looked at on Windows", needed)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return wrong(name, f"others may open {path} ({mode:04o})", needed, f"chmod 600 {path}")
    return well(name, f"{mode:04o}", needed)
