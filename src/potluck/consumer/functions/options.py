"""The options of `@potluck.task` and `Executor`, from the table, checked when they are given."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from potluck.consumer.client import Potluck
from potluck.consumer.files.files import MOST_VALUE_BYTES
from potluck.local.request_builder import build_request, is_for_own_nodes
from potluck.local.task_options import OPTIONS, OptionSource, TaskKeywords, alias_hint, find_option
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.error import InvalidInput
from potluck.model.task import TaskRequest
from potluck.model.task_spec import FunctionSpec

# By name, from the environment of the program that submits; or with their values.
Secrets = Sequence[str] | Mapping[str, str]
_SPEC = FunctionSpec("function", Value(), Value(), "3.11")  # until there is a function
_NO_FILE = BlobRef("0" * 64, 0)


class _EarlierKeywords(TypedDict, total=False):
    """Names that options had in Python alone; they still work, with a warning."""

    environment: Mapping[str, str]
    files: Mapping[str, str | Path]
    labels: Sequence[str]
    owners: Sequence[str]
    retries: int  # attempts without the first
    secrets: Secrets
    timeout: float | str


class FunctionOptions(TaskKeywords, _EarlierKeywords, total=False):
    """What `@potluck.task(…)` and `.using(…)` take."""

    client: Potluck


class Options(Struct, frozen=True):
    """The same, understood."""

    # But for what is known when a call is made.
    spec: FunctionSpec = _SPEC
    request: TaskRequest = TaskRequest(_SPEC)
    secrets: Secrets = ()
    folder: Path | None = None
    files: dict[str, Path] = {}
    allow_pickle: bool = False
    from_wallets: tuple[str, ...] = ()
    max_result_bytes: int = MOST_VALUE_BYTES
    progress: bool | None = None
    client: Potluck | None = None
    on_own_nodes: bool = False


def by_present_names(wishes: FunctionOptions) -> FunctionOptions:
    """The options as they are called now. An earlier name warns the caller of our caller."""
    named: dict[str, Any] = {}
    for said, value in wishes.items():
        name = said
        if said == "retries":
            name, value = "attempts", value + 1 if isinstance(value, int) else value
        elif said in _EarlierKeywords.__annotations__:
            name = find_option(said, OptionSource.PYTHON).keyword
        if name != said:
            warnings.warn(alias_hint(said, name), DeprecationWarning, stacklevel=3)
        if name == "gpu" and isinstance(value, str):
            hint = f"A model is given as model={value!r} now; gpu={value!r} still works."
            warnings.warn(hint, DeprecationWarning, stacklevel=3)
        named[name] = value
    return cast(FunctionOptions, named)


def understood(wishes: FunctionOptions) -> Options:
    values = _values(dict(wishes))
    secrets = values.pop("secret", ())
    files = {path: source for source, path in values.get("file", ())}
    values["secret"] = secrets if isinstance(secrets, dict) else dict.fromkeys(secrets, "")
    spec = replace(
        _SPEC,
        dependencies=values.get("dependencies", ()),
        environment=values.get("env", {}),
        files=tuple(NamedFile(path, _NO_FILE) for path in files),
        pickles_results=values.get("allow-pickle", False),
    )
    options = Options(
        spec=spec,
        request=build_request(spec, values, _keyword),
        secrets=secrets,
        folder=values.get("folder"),
        files=files,
        allow_pickle=values.get("allow-pickle", False),
        from_wallets=values.get("from-wallets", ()),
        max_result_bytes=values.get("max-result", MOST_VALUE_BYTES),
        progress=values.get("progress"),
        client=values.get("client"),
        on_own_nodes=is_for_own_nodes(values),
    )
    if options.from_wallets and not options.allow_pickle:
        raise InvalidInput(
            "from_wallets says whose pickles are opened, and without allow_pickle none are.",
            "Say allow_pickle=True as well, or leave it out; owner says where it may run.",
        )
    return options


def secrets_of(options: Options) -> dict[str, str]:
    """As they are now; one that is not there is missed here, and not on a node."""
    if isinstance(options.secrets, Mapping):
        return dict(options.secrets)
    missing = [name for name in options.secrets if name not in os.environ]
    if missing:
        raise InvalidInput(
            f"The secret {missing[0]} is not among the variables of the environment.",
            f"Set it there, or give its value: secret={{{missing[0]!r}: …}}.",
        )
    return {name: os.environ[name] for name in options.secrets}


def _keyword(name: str) -> str:
    return OPTIONS[name].keyword


def _values(wishes: dict[str, Any]) -> dict[str, Any]:
    """By the names of the table. `gpu` is also a yes or no, or the model of one."""
    gpu = wishes.get("gpu")
    if isinstance(gpu, str):
        wishes |= {"gpu": 1, "model": gpu}
    elif isinstance(gpu, bool):
        wishes["gpu"] = int(gpu)
    values = {}
    for said, value in wishes.items():
        option = find_option(said, OptionSource.PYTHON)
        if value is not None:
            values[option.name] = option.kind.read(value, option.keyword)
    return values
