"""The table of task options: each option arrives in the request alike from wherever it is given."""

import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest

import potluck
from potluck.cli.main import DeferredCommand, build_program
from potluck.consumer.files.files import MOST_VALUE_BYTES
from potluck.consumer.functions.options import FunctionOptions, parse_options, rename_aliases
from potluck.local.task_options import OPTIONS, OptionSource, TaskOption, read_option
from potluck.model.blob import VolumeMount
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.node import SandboxStrength
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.estimate import Estimate, Outlook
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

WALLET = "0x" + "ab" * 20
TASK = "task_01m7gm2q85jfaf9jspx8f3kq2m"
# (a value as TOML and Python have it, what the request has then)
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "env": ({"SEED": "1"}, {"SEED": "1"}),
    "attempts": (3, 3),
    "name": ("mine", "mine"),
    "python": (">=3.11", ">=3.11"),
    "folder": ("data", True),
    "file": (["data/a.csv:b.csv"], ["b.csv"]),
    "volume": (["photos@3f9ac2d1:/data"], (VolumeMount("photos", "/data", "3f9ac2d1"),)),
    "keep": (["./ckpt/", "*.pt"], ("ckpt", "*.pt")),
    "checkpoint": ("30s", 30.0),
    "secret": (["TOKEN"], ["TOKEN"]),
    "trust": ([WALLET], (WALLET,)),
    "secrets-to-strangers": (True, True),
    "gpu": (2, 2),
    "device-kind": ("cpu", DeviceKind.CPU),
    "vram": ("8GB", 8 * 10**9),
    "fraction": (0.25, 250),
    "share": (True, True),
    "vendor": ("NVIDIA", "NVIDIA"),
    "model": ("RTX 40*", "RTX 40*"),
    "capability": ("8.6", "8.6"),
    "label": (["fast", "region=eu"], ("fast", "region=eu")),
    "min-reliability": (0.95, 0.95),
    "sandbox": ("kernel", SandboxStrength.KERNEL),
    "owner": ([WALLET], (WALLET,)),
    "max-price": (0.5, 500_000),
    "network": (["pypi.org:443", "huggingface"], ("pypi.org:443", "huggingface")),
    "network-limit": ("2GB", 2_000_000_000),
    "cores": (4, 4),
    "ram": ("2GiB", 2**31),
    "disk": (2**30, 2**30),
    "time": (90, 90.0),
    "log-limit": ("1MiB", 2**20),
    "prepare-time": ("1h", 3600.0),
    "processes": (1024, 1024),
    "stop-after-silence": ("1h", 3600.0),
    "array": (5, 5),
    "allow-failures": (2, 2),
    "after": ([TASK], (TASK,)),
    "delay": ("5m", 300.0),
    "deadline": ("2h", 7200.0),
    "expected": (60, 60.0),
    "priority": (7, 7),
}
# Those that act on something else than the request, or are what is run.
OTHERS = {"image", "dependencies"} | {row.name for row in OPTIONS.values() if not row.field}
# What an option makes no sense without.
BESIDE: dict[str, dict[str, Any]] = {
    "share": {"fraction": 0.5},
    "trust": {"secret": ["TOKEN"]},
    "secrets-to-strangers": {"secret": ["TOKEN"]},
    "allow-failures": {"array": 5},
}


def cases() -> list[Any]:
    return [
        pytest.param(row, source, id=f"{row.name}-{source.name}")
        for row in OPTIONS.values()
        for source in row.sources
        if row.name in EXAMPLES
    ]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "project"
    (path / "data").mkdir(parents=True)
    (path / "data" / "a.csv").write_text("1")
    (path / "job.py").write_text("print(1)\n")
    monkeypatch.chdir(path)
    return path


def test_every_option_has_an_example() -> None:
    assert EXAMPLES.keys() | OTHERS == OPTIONS.keys() and not EXAMPLES.keys() & OTHERS


@pytest.mark.parametrize(("row", "source"), cases())
def test_an_option_arrives_in_the_request(
    user: CommandLine, server: FakeServer, directory: Path, row: TaskOption, source: OptionSource
) -> None:
    value, expected = EXAMPLES[row.name]
    options = {row.name: value, **BESIDE.get(row.name, {})}
    if source is OptionSource.PYTHON:
        keywords: Any = {OPTIONS[name].keyword: value for name, value in options.items()}
        assert _from_python(row, keywords) == expected
        return
    request = _asked(user, server, *_words(options, source, directory))
    assert _field(request, row.field) == expected


def _words(options: dict[str, Any], source: OptionSource, directory: Path) -> list[str]:
    """What is typed, with the options there or in a file."""
    if source is OptionSource.COMMAND:
        return [
            *(
                word
                for name, option_value in options.items()
                for word in _typed(name, option_value)
            ),
            "job.py",
        ]
    lines = [f"{name} = {_toml(value)}" for name, value in options.items()]
    if source is OptionSource.TEMPLATE:
        _template(directory, lines)
        return ["--template", "./ready"]
    if source is OptionSource.PROJECT:
        (directory / "pyproject.toml").write_text("\n".join(["[tool.potluck]", *lines]))
    else:
        block = ["# /// script", "# [tool.potluck]", *(f"# {line}" for line in lines), "# ///"]
        (directory / "job.py").write_text("\n".join([*block, "print(1)"]))
    return ["job.py"]


def _template(directory: Path, lines: list[str]) -> None:
    (directory / "ready").mkdir()
    template_lines = ['summary = "Does it."', 'command = ["ls"]', "[options]", *lines]
    (directory / "ready" / "template.toml").write_text("\n".join(template_lines))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    return msgspec.json.encode(value).decode()


def _typed(name: str, value: Any) -> list[str]:
    if value is True:
        return [f"--{name}"]
    if isinstance(value, dict):
        value = [f"{variable}={item}" for variable, item in value.items()]
    values = value if isinstance(value, list) else [value]
    return [word for item in values for word in (f"--{name}", str(item))]


def _asked(user: CommandLine, server: FakeServer, *arguments: str) -> TaskRequest:
    """What a dry run asks about."""
    server.plays("/v1/tasks/estimate", says(Estimate(Outlook.NOW, "It would start now.")))
    result = user.run("submit", "--dry-run", *arguments)
    assert result.status == 0, result.stderr
    return msgspec.json.decode(server.requests[-1].body, type=TaskRequest)


def _field(request: TaskRequest, field: str) -> Any:
    value: Any = request
    for part in field.split("."):
        value = getattr(value, part)
    if field == "spec.folder":
        return value is not None
    if field == "spec.files":
        return [file.path for file in value]
    return list(value) if field == "secrets" else value


def _from_python(row: TaskOption, keywords: FunctionOptions) -> Any:
    options = parse_options(keywords)
    if row.name == "folder":
        return options.folder == Path("data")
    return _field(options.request, row.field)


@pytest.mark.parametrize("row", OPTIONS.values(), ids=lambda row: row.name)
def test_an_option_is_refused_where_it_is_not_allowed(row: TaskOption) -> None:
    value = EXAMPLES.get(row.name, ("x", None))[0]
    for source in OptionSource.SCRIPT | OptionSource.PROJECT | OptionSource.TEMPLATE:
        if source not in row.sources:
            with pytest.raises(InvalidInput, match=r"^here: "):
                read_option(row.name, value, source, "here")
    if OptionSource.PYTHON not in row.sources:
        keywords: Any = {row.keyword: value}
        with pytest.raises(InvalidInput, match="There is no option"):
            potluck.task(**keywords)


def test_secrets_come_from_no_file() -> None:
    files = OptionSource.SCRIPT | OptionSource.PROJECT | OptionSource.TEMPLATE
    for name in ("secret", "trust", "secrets-to-strangers"):
        assert not OPTIONS[name].sources & files


ALIASES = [(alias, row) for row in OPTIONS.values() for alias in row.aliases]


@pytest.mark.parametrize(("alias", "row"), ALIASES, ids=[alias for alias, _ in ALIASES])
def test_an_earlier_name_works_with_a_hint(
    user: CommandLine, server: FakeServer, directory: Path, alias: str, row: TaskOption
) -> None:
    value, expected = EXAMPLES[row.name]
    keywords: Any = {alias: value}
    with pytest.warns(DeprecationWarning, match=f"{alias} is called {row.keyword} now"):
        assert _from_python(row, rename_aliases(keywords)) == expected
    server.plays("/v1/tasks/estimate", says(Estimate(Outlook.NOW, "It would start now.")))
    (directory / "pyproject.toml").write_text(f"[tool.potluck]\n{row.name} = {_toml(value)}")
    if OptionSource.PROJECT not in row.sources:
        (directory / "pyproject.toml").unlink()
    result = user.run("submit", "--dry-run", *_typed(alias, value), "job.py")
    request = msgspec.json.decode(server.requests[-1].body, type=TaskRequest)
    assert _field(request, row.field) == expected
    assert f"--{alias} is called --{row.name} now" in " ".join(result.stderr.split())


@pytest.mark.parametrize("alias", ["timeout", "environment"])
def test_an_earlier_name_works_in_files_with_a_hint(
    user: CommandLine, server: FakeServer, directory: Path, alias: str
) -> None:
    (row,) = [row for row in OPTIONS.values() if alias in row.aliases]
    value, expected = EXAMPLES[row.name]
    server.plays("/v1/tasks/estimate", says(Estimate(Outlook.NOW, "It would start now.")))
    (directory / "pyproject.toml").write_text(f"[tool.potluck]\n{alias} = {_toml(value)}")
    _template(directory, [f"{alias} = {_toml(value)}"])
    for arguments, location in (
        (["job.py"], "line 2"),
        (["--template", "./ready"], "template.toml"),
    ):
        result = user.run("submit", "--dry-run", *arguments)
        request = msgspec.json.decode(server.requests[-1].body, type=TaskRequest)
        assert _field(request, row.field) == expected
        message = " ".join(result.stderr.split())
        assert f"{location}: {alias} is called {row.name} now" in message


def test_retries_still_work_in_python() -> None:
    with pytest.warns(DeprecationWarning, match="retries is called attempts now"):
        assert parse_options(rename_aliases({"retries": 2})).request.max_attempts == 3


def test_a_warning_names_the_line_of_the_program() -> None:
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        potluck.task(timeout=1)
        potluck.Executor(labels=["x"])
        potluck.task(len).using(owners=["me"])
    assert [warning.filename for warning in recorded] == [__file__] * 3


def test_the_types_in_python_are_those_of_the_table() -> None:
    keywords = {row.keyword for row in OPTIONS.values() if OptionSource.PYTHON in row.sources}
    earlier = {alias for alias, _ in ALIASES} | {"retries"}
    assert set(FunctionOptions.__annotations__) == keywords | earlier


def test_the_defaults_are_those_of_the_request() -> None:
    request = TaskRequest(ScriptSpec("a.py", "1"))
    for row in OPTIONS.values():
        if row.default is None or row.name == "gpu":
            continue
        default = row.kind.parse(row.default, row.name)
        expected_default = _field(request, row.field) if row.field else MOST_VALUE_BYTES
        assert default == expected_default, row.name


def test_shared_options_are_declared_by_the_commands() -> None:
    run = build_program().commands["run"]
    assert isinstance(run, DeferredCommand)
    declared = {name for option in run.load().params for name in option.opts}
    typed_names = {row.name for row in OPTIONS.values() if OptionSource.COMMAND in row.sources}
    assert {f"--{name}" for name in typed_names} <= declared
