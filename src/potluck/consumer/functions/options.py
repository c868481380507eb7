"""What somebody may ask for a function, in the words of the commands, checked when it is said."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec
from msgspec import Struct

from potluck.consumer.client import Potluck
from potluck.consumer.files.files import MOST_VALUE_BYTES
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.decode_errors import plain
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.task import Limits, Requirements, TaskRequest
from potluck.model.task_spec import FunctionSpec
from potluck.model.units import parse_bytes, parse_credits, parse_seconds

T = TypeVar("T")
Size = int | str
Duration = float | str
# By name, from the environment of whoever submits; or as they are.
Secrets = Sequence[str] | Mapping[str, str]
# Where an option has another name than what it becomes.
_OPTIONS = {
    "device_count": "gpu",
    "device_model": "gpu",
    "device_memory_bytes": "memory",
    "memory_bytes": "ram",
    "disk_bytes": "disk",
    "max_price_micro_per_hour": "max_price",
    "run_seconds": "timeout",
}
_PLACE = re.compile(r" - at .*?`\$\.(?:spec\.)?(\w+).*")
_MOST_RETRIES = 99
_NO_FILE = BlobRef("0" * 64, 0)


class Wishes(TypedDict, total=False):
    """What `@potluck.task(…)` and `.using(…)` take."""

    name: str
    gpu: bool | int | str  # one, so many, or one of a model such as "RTX 40*|A100"
    memory: Size  # of each device
    cores: int
    ram: Size
    disk: Size
    labels: Sequence[str]
    max_price: str  # credits an hour
    owners: Sequence[str]  # wallets whose nodes it may run on
    timeout: Duration  # of a call, or of an item
    retries: int
    priority: int
    dependencies: Sequence[str]
    environment: Mapping[str, str]
    secrets: Secrets
    trust: Sequence[str]
    secrets_to_strangers: bool
    folder: str | Path
    files: Mapping[str, str | Path]  # where the function finds it: where it is here
    allow_pickle: bool
    from_wallets: Sequence[str]
    progress: bool  # of maps: a bar or a line where somebody looks, unless False
    max_result: Size  # larger ones are not read into memory
    client: Potluck


class Options(Struct, frozen=True):
    """The same, understood."""

    name: str | None = None
    requirements: Requirements = Requirements()
    limits: Limits = Limits()
    max_attempts: int = 1
    priority: int = 0
    dependencies: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    secrets: Secrets = ()
    trust: tuple[str, ...] = ()
    secrets_to_strangers: bool = False
    folder: Path | None = None
    files: dict[str, Path] = {}
    allow_pickle: bool = False
    from_wallets: tuple[str, ...] = ()
    max_result_bytes: int = MOST_VALUE_BYTES
    progress: bool | None = None
    client: Potluck | None = None


def understood(wishes: Wishes) -> Options:
    unknown = set(wishes) - set(Wishes.__annotations__)
    if unknown:
        named = _listed(f"`{each}`" for each in unknown)
        raise InvalidInput(
            f"A task has no option {named}.", f"It takes {_listed(Wishes.__annotations__)}."
        )
    options = Options(
        name=wishes.get("name"),
        requirements=_requirements(wishes),
        limits=_limits(wishes),
        max_attempts=1 + _retries(wishes),
        priority=wishes.get("priority", 0),
        dependencies=_several(wishes.get("dependencies", ()), "dependencies"),
        environment=dict(wishes.get("environment", {})),
        secrets=_secrets(wishes),
        trust=_several(wishes.get("trust", ()), "trust"),
        secrets_to_strangers=wishes.get("secrets_to_strangers", False),
        folder=Path(wishes["folder"]) if "folder" in wishes else None,
        files={path: Path(file) for path, file in wishes.get("files", {}).items()},
        allow_pickle=wishes.get("allow_pickle", False),
        from_wallets=_several(wishes.get("from_wallets", ()), "from_wallets"),
        max_result_bytes=_size(wishes.get("max_result", MOST_VALUE_BYTES), "max_result"),
        progress=wishes.get("progress"),
        client=wishes.get("client"),
    )
    _check(options)
    return options


def secrets_of(options: Options) -> dict[str, str]:
    """As they are now; one that is not there is missed here, and not on a node."""
    if isinstance(options.secrets, Mapping):
        return dict(options.secrets)
    missing = [name for name in options.secrets if name not in os.environ]
    if missing:
        raise InvalidInput(
            f"The secret {missing[0]} is not among the variables of the environment.",
            f"Set it there, or give its value: secrets={{{missing[0]!r}: …}}.",
        )
    return {name: os.environ[name] for name in options.secrets}


def _requirements(wishes: Wishes) -> Requirements:
    gpu = wishes.get("gpu", False)
    wanted: dict[str, object] = {}
    if gpu:
        wanted["device_kind"] = DeviceKind.GPU
        wanted["device_count"] = 1 if isinstance(gpu, str) else int(gpu)
        wanted["device_model"] = gpu if isinstance(gpu, str) else None
    for name, field in (
        ("memory", "device_memory_bytes"),
        ("ram", "memory_bytes"),
        ("disk", "disk_bytes"),
    ):
        size = wishes.get(name)
        if size is not None:
            wanted[field] = _size(size, name)
    if "cores" in wishes:
        wanted["cores"] = wishes["cores"]
    if "max_price" in wishes:
        price = parse_credits(str(wishes["max_price"]), "max_price")
        wanted["max_price_micro_per_hour"] = price
    wanted["labels"] = _several(wishes.get("labels", ()), "labels")
    wanted["owners"] = _several(wishes.get("owners", ()), "owners")
    return _converted(wanted, Requirements)


def _size(size: object, option: str) -> int:
    return size if isinstance(size, int) else parse_bytes(str(size), option)


def _limits(wishes: Wishes) -> Limits:
    if "timeout" not in wishes:
        return Limits()
    asked = wishes["timeout"]
    seconds = parse_seconds(asked, "timeout") if isinstance(asked, str) else float(asked)
    return _converted({"run_seconds": seconds}, Limits)


def _retries(wishes: Wishes) -> int:
    retries: object = wishes.get("retries", 0)
    if not isinstance(retries, int) or not 0 <= retries <= _MOST_RETRIES:
        raise InvalidInput(
            f"retries is a whole number from 0 to {_MOST_RETRIES}.", "Say it like retries=3."
        )
    return retries


def _secrets(wishes: Wishes) -> Secrets:
    secrets = wishes.get("secrets", ())
    if not isinstance(secrets, Mapping):
        return _several(secrets, "secrets")
    if not all(isinstance(value, str) for value in secrets.values()):
        raise InvalidInput("The value of a secret is no text.", "Give it as text: str(…).")
    return dict(secrets)


def _several(words: Sequence[str], option: str) -> tuple[str, ...]:
    """A text alone would be taken for its letters."""
    if isinstance(words, str):
        raise InvalidInput(f"{option} is a list of texts.", f"Write {option}=[{words!r}].")
    return tuple(words)


def _check(options: Options) -> None:
    """By the server's own measure: a request that it can not read would be refused with others."""
    secrets = options.secrets
    request = TaskRequest(
        FunctionSpec(
            "function",
            Value(),
            Value(),
            "3.11",
            options.dependencies,
            environment=options.environment,
            files=tuple(NamedFile(path, _NO_FILE) for path in options.files),
        ),
        name=options.name,
        priority=options.priority,
        secrets=secrets if isinstance(secrets, dict) else dict.fromkeys(secrets, ""),
        trust=(*options.trust, *options.from_wallets),
    )
    _converted(request, TaskRequest)
    if options.from_wallets and not options.allow_pickle:
        raise InvalidInput(
            "from_wallets says whose pickles are opened, and without allow_pickle none are.",
            "Say allow_pickle=True as well, or leave it out; owners says where it may run.",
        )


def _converted(values: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(msgspec.to_builtins(values), kind)
    except (msgspec.ValidationError, TypeError) as error:
        said = str(error)
        place = _PLACE.search(said)
        option = "An option" if place is None else _OPTIONS.get(place[1], place[1])
        why = plain(_PLACE.sub("", said)).replace("`", "")
        raise InvalidInput(
            f"{option} is not possible: {why}.", "docs/functions.md shows what can be said."
        ) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
