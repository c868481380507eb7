"""What a request asks of nodes without saying so: who may have its secrets, and which Python.

A provider sees all that its task sees. So a task with secrets goes to nodes of its own account and
of the wallets that it trusts, unless it says that strangers may have them too.
"""

import re

import msgspec

from potluck.model.bounded_types import MOST_SECRET_CHARACTERS
from potluck.model.error import InvalidInput
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import FunctionSpec

# The scheduler tells the nodes of each apart from all others.
MOST_OWNERS = 100


def effective(request: TaskRequest, wallet: str) -> Requirements:
    """The requirements that hold; wallets in small letters, each once."""
    return msgspec.structs.replace(
        request.requirements, owners=_owners(request, wallet), python=_python(request)
    )


def _owners(request: TaskRequest, wallet: str) -> tuple[str, ...]:
    if max(len(request.requirements.owners), len(request.trust)) > MOST_OWNERS:
        raise InvalidInput(
            f"It names more than {MOST_OWNERS} wallets.", "Name fewer, or give their nodes a label."
        )
    asked = _plain(request.requirements.owners)
    _check_secrets(request)
    if not request.secrets or request.secrets_to_strangers:
        return asked
    trusted = _plain((wallet, *request.trust))
    if not asked:
        return trusted
    both = tuple(each for each in asked if each in trusted)
    if not both:
        raise InvalidInput(
            "The secrets may be given to none of the wallets whose nodes it asks for.",
            "Trust one of them (--trust), or ask for your own nodes.",
        )
    return both


def _check_secrets(request: TaskRequest) -> None:
    twice = sorted(request.secrets.keys() & request.spec.environment.keys())
    if twice:
        raise InvalidInput(
            f"{twice[0]} is a secret and an ordinary variable.", "Say it once, as a secret."
        )
    if sum(map(len, request.secrets.values())) > MOST_SECRET_CHARACTERS:
        raise InvalidInput(
            f"Its secrets have more than {MOST_SECRET_CHARACTERS:,} characters together.",
            "Send a key that opens the rest, and the rest as a file.",
        )


def _plain(wallets: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({each.lower() for each in wallets}))


def _python(request: TaskRequest) -> str | None:
    asked = request.requirements.python
    if asked is not None and not re.fullmatch(r"3\.[0-9]{1,3}", asked):
        raise InvalidInput(f"{asked!r} is not a version of Python.", "Write it like 3.11.")
    if not isinstance(request.spec, FunctionSpec):
        return asked
    if asked not in (None, request.spec.python):
        raise InvalidInput(
            f"The function was pickled by Python {request.spec.python}, and Python {asked} is to"
            " run it.",
            "Leave the requirement out.",
        )
    return request.spec.python
