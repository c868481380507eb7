"""Checks the account at the server, and the permissions of files with keys and tokens."""

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from potluck.cli.doctor.finding import CheckedMachine, Finding, failed, passed, skipped, warned
from potluck.model.error import NotSignedIn, PotluckError
from potluck.model.units import show_amount

_NEEDED = "a session or an API key that the server accepts"


def check_account(machine: CheckedMachine) -> Iterator[Finding]:
    yield _check_sign_in(machine)
    yield from _check_secrets()


def _check_sign_in(machine: CheckedMachine) -> Finding:
    from potluck.consumer import Patience, Potluck

    if machine.url is None:
        return skipped("account", "no server is known", _NEEDED)
    patience = Patience(connect_seconds=machine.seconds, read_seconds=machine.seconds, tries=1)
    try:
        with Potluck(machine.url, patience=patience) as potluck:
            me = potluck.account.me()
    except NotSignedIn as error:
        return failed("account", error.detail, _NEEDED, f"potluck login {machine.url}")
    except PotluckError as error:
        if not error.retryable:
            return failed("account", error.detail, _NEEDED, error.hint or "potluck whoami")
        return skipped("account", error.detail, _NEEDED)
    roles = ", ".join(me.roles) or "no role"
    return passed("account", f"{me.address} ({roles}), {show_amount(me.available_micro)}", _NEEDED)


def _check_secrets() -> Iterator[Finding]:
    from potluck.consumer.identity.profile import profile_path
    from potluck.consumer.identity.wallet import keystore_path, password_path

    if not keystore_path().exists():
        needed = "a wallet here, or one in your browser"
        yield warned("wallet", f"none in {keystore_path()}", needed, "potluck login URL")
    for path in (keystore_path(), password_path(), profile_path()):
        if path.exists():
            yield _check_private(path)


def _check_private(path: Path) -> Finding:
    name, needed = path.name, "readable only by you"
    if sys.platform == "win32":
        return skipped(name, "permissions are not checked on Windows", needed)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return failed(name, f"others may read {path} ({mode:04o})", needed, f"chmod 600 {path}")
    return passed(name, f"{mode:04o}", needed)
