"""Requirements that follow from a request: owners that may see its secrets, Python, stdin, hosts.

A provider can read everything that a task can read. So a task with secrets goes only to nodes of
its own account and of the wallets that it trusts, unless it allows strangers explicitly.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from potluck.model.blob import VolumeMount
from potluck.model.bounded_types import MOST_SECRET_CHARACTERS
from potluck.model.error import InvalidInput
from potluck.model.network.patterns import MOST_ENTRIES, NO_PRESETS, RAW, Presets, expand_entries
from potluck.model.script import check_specifier, is_minor_version, read_metadata
from potluck.model.task import Limits, Requirements, TaskRequest
from potluck.model.task_spec import ContainerSpec, FunctionSpec, ScriptSpec, stdin_of

# The scheduler groups nodes by each named wallet.
MOST_OWNERS = 100
_LEAST_PREPARE_SECONDS, _MOST_PREPARE_SECONDS = 600.0, 86_400.0
_SLOWEST_FETCH = 4 * 2**20  # bytes a second


def derive_requirements(
    request: TaskRequest, wallet: str, presets: Presets = NO_PRESETS
) -> Requirements:
    """The effective requirements; wallets are unique and in lower case."""
    network = expand_entries(request.requirements.network, presets)
    if len(network) > MOST_ENTRIES:
        raise InvalidInput(
            f"The task names more than {MOST_ENTRIES} hosts.", "Name fewer, such as *.example.org."
        )
    if RAW in network and isinstance(request.spec, ContainerSpec):
        raise InvalidInput(
            "A task with an image has no raw network.", "Name hosts and ports, such as *:22."
        )
    return replace(
        request.requirements,
        owners=_owners(request, wallet),
        python=_python(request),
        stdin=stdin_of(request.spec) is not None,
        network=network,
        # Only with network, since equal requirements of all accounts are planned together.
        own_wallet=wallet.lower() if network else None,
    )


def allow_fetching(limits: Limits, mounts: Iterable[VolumeMount]) -> Limits:
    """Volumes are fetched while an attempt is prepared: large ones need more time for that."""
    seconds = _LEAST_PREPARE_SECONDS + sum(each.size_bytes for each in mounts) / _SLOWEST_FETCH
    longer = min(max(limits.prepare_seconds, seconds), _MOST_PREPARE_SECONDS)
    return replace(limits, prepare_seconds=longer)


def _owners(request: TaskRequest, wallet: str) -> tuple[str, ...]:
    if max(len(request.requirements.owners), len(request.trust)) > MOST_OWNERS:
        raise InvalidInput(
            f"The task names more than {MOST_OWNERS} wallets.",
            "Name fewer, or give their nodes a label.",
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
            "The task trusts none of the owners that it allows with its secrets.",
            "Trust one of them (--trust), or allow your own nodes.",
        )
    return both


def _check_secrets(request: TaskRequest) -> None:
    twice = sorted(request.secrets.keys() & request.spec.environment.keys())
    if twice:
        raise InvalidInput(
            f"{twice[0]} is both a secret and an ordinary variable.", "Send it only as a secret."
        )
    if sum(map(len, request.secrets.values())) > MOST_SECRET_CHARACTERS:
        raise InvalidInput(
            f"The task's secrets exceed {MOST_SECRET_CHARACTERS:,} characters in total.",
            "Encrypt the data, send it as a file, and send only the key as a secret.",
        )


def _plain(wallets: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({each.lower() for each in wallets}))


def _python(request: TaskRequest) -> str | None:
    asked = request.requirements.python
    if isinstance(request.spec, ScriptSpec):
        return _python_of_script(request.spec, asked)
    if asked is not None and not is_minor_version(asked):
        raise InvalidInput(f"{asked!r} is not a Python version.", "Write it like 3.11.")
    if not isinstance(request.spec, FunctionSpec):
        return asked
    if asked not in (None, request.spec.python):
        raise InvalidInput(
            f"The function was pickled by Python {request.spec.python} but requires Python"
            f" {asked}.",
            "Remove the requirement.",
        )
    return request.spec.python


def _python_of_script(spec: ScriptSpec, asked: str | None) -> str | None:
    """What the request asks for and what the script's block requires, as one specifier."""
    needed = read_metadata(spec.source).requires_python if "requires-python" in spec.source else ""
    if not needed or asked is None:
        return needed or (None if asked is None else _specifier(asked))
    return check_specifier(f"{_specifier(asked)},{needed}", "The Python version")


def _specifier(asked: str) -> str:
    return (
        f"=={asked}.*" if is_minor_version(asked) else check_specifier(asked, "The required Python")
    )
