"""The options of `@potluck.task` and `Executor`, from the table, checked immediately."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from potluck.consumer.client import Potluck
from potluck.consumer.files.files import MOST_VALUE_BYTES
from potluck.local.packages.dependency_files import read_dependency_file
from potluck.local.request_builder import build_request, is_for_own_nodes
from potluck.local.task_options import OPTIONS, OptionSource, TaskKeywords, alias_hint, find_option
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.error import InvalidInput
from potluck.model.task import TaskRequest
from potluck.model.task_spec import FunctionSpec

# Names of variables of the submitting program, or names with values.
Secrets = Sequence[str] | Mapping[str, str]
_SPEC = FunctionSpec("function", Value(), Value(), "3.11")  # a placeholder
_NO_FILE = BlobRef("0" * 64, 0)


class _EarlierKeywords(TypedDict, total=False):
    """Earlier names of options in Python; they still work, with a warning."""

    environment: Mapping[str, str]
    files: Mapping[str, str | Path]
    labels: Sequence[str]
    memory: int | str
    owners: Sequence[str]
    retries: int  # attempts without the first
    secrets: Secrets
    timeout: float | str


class FunctionOptions(TaskKeywords, _EarlierKeywords, total=False):
    """The keywords of `@potluck.task(…)` and `.using(…)`."""

    client: Potluck


class Options(Struct, frozen=True):
    """The parsed options; each call completes `spec` and `request`."""

    spec: FunctionSpec = _SPEC
    request: TaskRequest = TaskRequest(_SPEC)
    secrets: Secrets = ()
    folder: Path | None = None
    files: dict[str, Path] = {}
    allow_pickle: bool = False
    from_wallets: tuple[str, ...] = ()
    max_result_bytes: int = MOST_VALUE_BYTES
    progress: bool | None = None
    show_output: bool | None = None
    keep_running: bool = False
    client: Potluck | None = None
    on_own_nodes: bool = False
    is_alone: bool = False  # each call is a task of its own


def rename_aliases(wishes: FunctionOptions) -> FunctionOptions:
    """The options by their present names. An earlier name warns the caller of our caller."""
    options: dict[str, Any] = {}
    for keyword, value in wishes.items():
        name = keyword
        if keyword == "retries":
            name, value = "attempts", value + 1 if isinstance(value, int) else value
        elif keyword in _EarlierKeywords.__annotations__:
            name = find_option(keyword, OptionSource.PYTHON).keyword
        if name != keyword:
            warnings.warn(alias_hint(keyword, name), DeprecationWarning, stacklevel=3)
        options[name] = value
    return cast(FunctionOptions, options)


def parse_options(wishes: FunctionOptions) -> Options:
    values = _values(dict(wishes))
    secrets = values.pop("secret", ())
    files = {path: source for source, path in values.get("file", ())}
    values["secret"] = secrets if isinstance(secrets, dict) else dict.fromkeys(secrets, "")
    spec = replace(
        _SPEC,
        dependencies=_dependencies(values),
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
        show_output=values.get("show-output"),
        keep_running=values.get("keep-running", False),
        client=values.get("client"),
        on_own_nodes=is_for_own_nodes(values),
        is_alone="checkpoint" in values,
    )
    if options.from_wallets and not options.allow_pickle:
        raise InvalidInput(
            "from_wallets has no effect without allow_pickle.",
            "Add allow_pickle=True, or remove it; owner= selects the nodes that may run it.",
        )
    return options


def _dependencies(values: dict[str, Any]) -> tuple[str, ...]:
    file = values.get("requirements")
    named = () if file is None else read_dependency_file(file).dependencies
    return (*values.get("dependencies", ()), *named)


def resolve_secrets(options: Options) -> dict[str, str]:
    """The present values of the secrets; raises if a variable is not set."""
    if isinstance(options.secrets, Mapping):
        return dict(options.secrets)
    missing = [name for name in options.secrets if name not in os.environ]
    if missing:
        raise InvalidInput(
            f"The environment variable {missing[0]} for a secret is not set.",
            f"Set it, or pass its value: secret={{{missing[0]!r}: …}}.",
        )
    return {name: os.environ[name] for name in options.secrets}


def _keyword(name: str) -> str:
    return OPTIONS[name].keyword


def _values(wishes: dict[str, Any]) -> dict[str, Any]:
    """The parsed values by option name."""
    values = {}
    for keyword, value in wishes.items():
        option = find_option(keyword, OptionSource.PYTHON)
        if value is not None:
            values[option.name] = option.kind.read(value, option.keyword)
    return values
