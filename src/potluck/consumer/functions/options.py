"""What somebody may ask for a function, in the words of the commands, checked when it is said."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec
from msgspec import Struct

from potluck.consumer.client import Potluck
from potluck.model.blob import Value
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.spec import FunctionSpec
from potluck.model.task import Limits, Requirements, TaskRequest
from potluck.model.units import parse_bytes, parse_credits, parse_seconds

T = TypeVar("T")
Size = int | str
Duration = float | str
# By name, from the environment of whoever submits; or as they are.
Secrets = Sequence[str] | Mapping[str, str]


class Wishes(TypedDict, total=False):
    """What `@potluck.task(…)` and `.using(…)` take."""

    name: str
    gpu: bool | int | str  # one, so many, or one of a model such as "RTX 40*|A100"
    device_memory: Size
    cores: int
    memory: Size
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
    client: Potluck | None = None


def understood(wishes: Wishes) -> Options:
    unknown = set(wishes) - set(Wishes.__annotations__)
    if unknown:
        raise InvalidInput(
            f"A task has no {_listed(unknown)}.", f"It takes {_listed(Wishes.__annotations__)}."
        )
    options = Options(
        name=wishes.get("name"),
        requirements=_requirements(wishes),
        limits=_limits(wishes),
        max_attempts=1 + wishes.get("retries", 0),
        priority=wishes.get("priority", 0),
        dependencies=_several(wishes.get("dependencies", ()), "dependencies"),
        environment=dict(wishes.get("environment", {})),
        secrets=wishes.get("secrets", ()),
        trust=_several(wishes.get("trust", ()), "trust"),
        secrets_to_strangers=wishes.get("secrets_to_strangers", False),
        folder=Path(wishes["folder"]) if "folder" in wishes else None,
        files={path: Path(file) for path, file in wishes.get("files", {}).items()},
        allow_pickle=wishes.get("allow_pickle", False),
        from_wallets=_several(wishes.get("from_wallets", ()), "from_wallets"),
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
        ("device_memory", "device_memory_bytes"),
        ("memory", "memory_bytes"),
        ("disk", "disk_bytes"),
    ):
        size = wishes.get(name)
        if size is not None:
            wanted[field] = size if isinstance(size, int) else parse_bytes(str(size), name)
    if "cores" in wishes:
        wanted["cores"] = wishes["cores"]
    if "max_price" in wishes:
        price = parse_credits(str(wishes["max_price"]), "max_price")
        wanted["max_price_micro_per_hour"] = price
    wanted["labels"] = _several(wishes.get("labels", ()), "labels")
    wanted["owners"] = _several(wishes.get("owners", ()), "owners")
    return _converted(wanted, Requirements)


def _limits(wishes: Wishes) -> Limits:
    if "timeout" not in wishes:
        return Limits()
    asked = wishes["timeout"]
    seconds = parse_seconds(asked, "timeout") if isinstance(asked, str) else float(asked)
    return _converted({"run_seconds": seconds}, Limits)


def _several(words: Sequence[str], option: str) -> tuple[str, ...]:
    """A text alone would be taken for its letters."""
    if isinstance(words, str):
        raise InvalidInput(f"{option} is a list of texts.", f"Write {option}=[{words!r}].")
    return tuple(words)


def _check(options: Options) -> None:
    """By the server's own measure: a request that it can not read would be refused with others."""
    request = TaskRequest(
        FunctionSpec(
            "function",
            Value(),
            Value(),
            "3.11",
            options.dependencies,
            environment=options.environment,
        ),
        name=options.name,
        priority=options.priority,
        max_attempts=options.max_attempts,
        trust=(*options.trust, *options.from_wallets),
    )
    _converted(msgspec.to_builtins(request), TaskRequest)
    if options.from_wallets and not options.allow_pickle:
        raise InvalidInput(
            "from_wallets says whose pickles are opened, and without allow_pickle none are.",
            "Say allow_pickle=True as well, or leave it out; owners says where it may run.",
        )


def _converted(values: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "")
        raise InvalidInput(f"The task asks for something impossible: {said}.") from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
