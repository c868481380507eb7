"""The one table of task options.

Made from it: the options of `potluck run`, `submit` and `map`, the keys of `[tool.potluck]`, the
options of templates, the arguments of `@potluck.task` and `potluck.Executor`, the fields of the
dashboard's form, the names in error messages, and docs/options.md. An option has the same name
everywhere; in Python `-` is `_`.

`sources` is a security rule. A script or a template is often written by someone else: it cannot set
files of this machine, a server, an owner or notifications. A project can set its own files and
where it runs. Secrets and their receivers have to be typed each time.
"""

import difflib
from collections.abc import Mapping, Sequence
from enum import Flag, auto
from pathlib import Path
from typing import Any, Final, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from potluck.local import option_values as kinds
from potluck.local.option_values import ValueKind
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.node import SandboxStrength
from potluck.model.task import MOST_ITEMS


class OptionSource(Flag):
    """Where an option can be given."""

    COMMAND = auto()  # the command line
    SCRIPT = auto()  # [tool.potluck] in the block of a script
    PROJECT = auto()  # [tool.potluck] in pyproject.toml
    TEMPLATE = auto()  # [options] of a template
    PYTHON = auto()  # @potluck.task, Executor


LISTED: Final = "`potluck run --help` lists the options; in Python, `-` is `_`."
GENERAL: Final = "Options"  # typer's own panel
_FILES: Final = OptionSource.SCRIPT | OptionSource.PROJECT
_COMMAND, _PROJECT, _PYTHON = OptionSource.COMMAND, OptionSource.PROJECT, OptionSource.PYTHON
_TYPED = _COMMAND | _PYTHON
_MOST = _TYPED | _FILES
_ALL = _MOST | OptionSource.TEMPLATE


class TaskOption(Struct, frozen=True):
    name: str
    kind: ValueKind
    field: str  # of the TaskRequest; empty: a command or the client acts on it
    sources: OptionSource = _MOST
    default: str | int | None = None  # as typed
    metavar: str | None = None
    aliases: tuple[str, ...] = ()  # earlier names, which still work
    synonyms: tuple[str, ...] = ()  # names that people try; the error suggests the option
    help: str = ""
    command_help: str = ""  # what is so on the command line only
    panel: str = GENERAL
    is_common: bool = False  # the dashboard shows it at once
    is_shared: bool = False  # declared by the commands themselves

    @property
    def keyword(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")

    @property
    def title(self) -> str:
        """Its name as the label of a field."""
        words = [_ACRONYMS.get(word, word) for word in self.name.split("-")]
        return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])

    @property
    def typed_help(self) -> str:
        """For those who type it on a command line."""
        return " ".join(filter(None, (self.help, self.command_help)))

    @property
    def is_of_task(self) -> bool:
        """Whether `run`, `submit` and `map` get it from the table."""
        return OptionSource.COMMAND in self.sources and not self.is_shared

    def is_alias(self, name: str) -> bool:
        return name.replace("_", "-") != self.name


_ACRONYMS: Final = {"gpu": "GPU", "ram": "RAM", "vram": "VRAM"}
_Row = TaskOption
# fmt: off
_PANELS: Final[dict[str, list[TaskOption]]] = {
    GENERAL: [
        _Row("env", kinds.VARIABLES, "spec.environment", _ALL, aliases=("environment",),
             help="An environment variable; repeatable."),
        _Row("attempts", kinds.whole_number(1, 100), "max_attempts", _ALL, 1, synonyms=("retries",),
             help="Attempts, if the task itself fails."),
        _Row("name", kinds.TEXT, "name", is_common=True,
             help="Its name, instead of the file's or the function's."),
        _Row("notify", kinds.choices("bell", "desktop", "none"), "", _COMMAND | _PROJECT,
             metavar="HOW", is_shared=True,
             help="At its end: bell, desktop, none or (typed only) an apprise URL; repeatable."),
        _Row("server", kinds.TEXT, "", _COMMAND | _PROJECT, metavar="URL", is_shared=True,
             help="The server, instead of the one in your profile."),
    ],
    "What to run instead of a script": [
        _Row("command", kinds.FLAG, "", _COMMAND,
             help="A program of the node, such as nvidia-smi, with its arguments."),
        _Row("image", kinds.TEXT, "spec.image", _COMMAND, metavar="IMAGE",
             help="A container image; what follows replaces its own command."),
        _Row("template", kinds.TEXT, "", _COMMAND, metavar="NAME",
             help="A template, or the folder of one; `potluck templates` lists them."),
        _Row("parameter", kinds.TEXTS, "", _COMMAND, metavar="NAME=VALUE",
             help="A parameter of the template; repeatable."),
    ],
    "Dependencies": [
        _Row("dependencies", kinds.TEXTS, "spec.dependencies", _TYPED | _PROJECT, metavar="PACKAGE",
             help="A package to install before it runs, such as 'numpy>=2'; repeatable."),
        _Row("requirements", kinds.FILE, "", _TYPED | _PROJECT,
             help="Install what a requirements.txt, pylock.toml, uv.lock or pyproject.toml names."),
        _Row("python", kinds.TEXT, "requirements.python", _ALL & ~_PYTHON, metavar="VERSION",
             help="Version of the node's Python: 3.12, or '>=3.11,<3.14'."),
    ],
    "Files and secrets": [
        _Row("folder", kinds.DIRECTORY, "spec.folder", _TYPED | _PROJECT,
             help="A folder to send, without the files in its .gitignore; the task runs in it."),
        _Row("file", kinds.FILES, "spec.files", _TYPED | _PROJECT, aliases=("files",),
             help="A file to send, read-only; DST is its name for the task; repeatable."),
        _Row("volume", kinds.VOLUMES, "requirements.volumes", _TYPED | _PROJECT,
             synonyms=("volumes", "mount"),
             help="A data set, read-only at the path: NAME[@VERSION]:PATH; repeatable."),
        _Row("keep", kinds.PATTERNS, "limits.keep", _ALL,
             help="New files of its directory to keep, such as 'ckpt/**'; repeatable."),
        _Row("stdin", kinds.FLAG, "", _COMMAND,
             help="Send stdin, up to its end; the task reads it as its own."),
        _Row("checkpoint", kinds.TIME, "limits.checkpoint_seconds", _ALL, "60s",
             help="How often $POTLUCK_CHECKPOINT is saved, for the next attempt."),
        _Row("secret", kinds.SECRETS, "secrets", _TYPED, aliases=("secrets",),
             help="A variable that only my own nodes receive.",
             command_help="Its value comes from my environment or a prompt."),
        _Row("trust", kinds.WALLETS, "trust", _TYPED,
             help="Nodes of this wallet may receive the secrets too; repeatable."),
        _Row("secrets-to-strangers", kinds.FLAG, "secrets_to_strangers", _TYPED,
             help="Every node may receive the secrets; its owner can read them."),
        _Row("output", kinds.DIRECTORY, "", _COMMAND | _PROJECT, is_shared=True,
             help="Download the files in the task's $POTLUCK_OUTPUT to this directory."),
    ],
    "What it needs": [
        _Row("gpu", kinds.GPUS, "requirements.device_count", _ALL, "0",
             synonyms=("gpus",),
             is_common=True,
             help='GPUs by number, model or both: 2, a100, a100:2, "rtx 40*"; 0: any device.'),
        _Row("device-kind", kinds.choice(DeviceKind), "requirements.device_kind", _ALL,
             help="Only this kind of device."),
        _Row("vram", kinds.VRAM, "requirements.device_memory_bytes", _ALL, "0",
             aliases=("memory",),
             is_common=True,
             help="Memory of each device, such as 8GB; that of the machine is --ram."),
        _Row("fraction", kinds.FRACTION, "requirements.device_milli", _ALL,
             help="A part of one GPU: 0.25 or 250m; for a processor use --cores."),
        _Row("share", kinds.FLAG, "requirements.shares_device",
             help="Other accounts may use the rest of the device meanwhile."),
        _Row("vendor", kinds.TEXT, "requirements.device_vendor", _ALL, metavar="NAME",
             help="Device vendor, such as NVIDIA."),
        _Row("model", kinds.TEXT, "requirements.device_model", _ALL, metavar="PATTERN",
             help='Device model, such as "RTX 40*|A100"; --gpu takes it too.'),
        _Row("capability", kinds.CAPABILITY, "requirements.compute_capability", _ALL,
             help="At least this CUDA compute capability."),
        _Row("label", kinds.LABELS, "requirements.labels", aliases=("labels",),
             help="An exact label of the node, such as region=eu; repeatable."),
        _Row("min-reliability", kinds.SHARE, "requirements.min_reliability",
             help="At least this share of attempts that the node completed: 0.95."),
        _Row("sandbox", kinds.choice(SandboxStrength), "requirements.sandbox",
             help="At least this sandbox strength."),
        _Row("owner", kinds.OWNERS, "requirements.owners", _TYPED | _PROJECT, aliases=("owners",),
             help="Only on nodes of this wallet; `me` is my own; repeatable."),
        _Row("network", kinds.NETWORK, "requirements.network", _TYPED | _PROJECT,
             synonyms=("net", "internet"),
             help="A host it may reach: HOST[:PORT], *.HOST, a preset, open or raw; repeatable."),
        _Row("max-price", kinds.CREDITS, "requirements.max_price_micro_per_hour",
             synonyms=("price",), is_common=True,
             help="Maximum price per hour, for all its devices together."),
    ],
    "Limits": [
        _Row("cores", kinds.whole_number(1, 4096), "requirements.cores", _ALL, 1,
             synonyms=("cpu", "cpus"),
             is_common=True,
             help="Processor cores; with a whole GPU, by default its share of the node."),
        _Row("ram", kinds.SIZE, "requirements.memory_bytes", _ALL, "1GiB", synonyms=("mem",),
             is_common=True,
             help="Memory of the machine; with a whole GPU, by default its share."),
        _Row("disk", kinds.SIZE, "requirements.disk_bytes", _ALL, "256MiB",
             is_common=True,
             help="Disk space; with a whole GPU, by default its share."),
        _Row("network-limit", kinds.SIZE, "requirements.network_bytes", _ALL, "10GiB",
             help="The most that it may send and receive, if it has --network."),
        _Row("time", kinds.TIME, "limits.run_seconds", _ALL, "6h", aliases=("timeout",),
             is_common=True,
             help="Maximum run time: 90s, 15m, 1h30m …; of an array, for each item."),
        _Row("prepare-time", kinds.TIME, "limits.prepare_seconds", _ALL, "10m",
             help="Maximum time to install its dependencies, or to pull its image."),
        _Row("processes", kinds.whole_number(4, 65_536), "limits.processes", _ALL, 256,
             help="Maximum number of processes and threads at a time."),
        _Row("log-limit", kinds.SIZE, "limits.log_bytes", _ALL, "16MiB",
             help="How much of its output is kept as log; beyond it the middle is dropped."),
        _Row("stop-after-silence", kinds.TIME, "limits.stop_after_silence_seconds",
             help="Stop it if the server is unreachable for this time; default: 75s with network."),
    ],
    "Many at once": [
        _Row("array", kinds.whole_number(1, MOST_ITEMS), "items", _ALL & ~_PYTHON,
             is_common=True,
             help="Run it N times; POTLUCK_ITEM is the number, from 0."),
        _Row("allow-failures", kinds.whole_number(0, MOST_ITEMS), "allow_failures",
             _ALL & ~_PYTHON, 0,
             help="It succeeds with up to this many failed items."),
    ],
    "When it runs": [
        _Row("after", kinds.TEXTS, "after", _TYPED, metavar="TASK",
             help="Start after this task of mine has succeeded; repeatable."),
        _Row("delay", kinds.TIME, "delay_seconds",
             help="Start after this time has passed."),
        _Row("deadline", kinds.TIME, "start_within_seconds",
             help="Give up if it has not started within this time."),
        _Row("expected", kinds.TIME, "expected_seconds", _ALL,
             help="Expected run time; of an array, of each item."),
        _Row("priority", kinds.whole_number(-100, 100), "priority", _MOST, 0,
             help="Higher goes first."),
    ],
    "Functions": [
        _Row("allow-pickle", kinds.FLAG, "", _PYTHON,
             help="Results of any type; loading a pickle can run any code of the node."),
        _Row("from-wallets", kinds.WALLETS, "", _PYTHON,
             help="Load pickles from nodes of these wallets, besides my own."),
        _Row("progress", kinds.FLAG, "", _PYTHON,
             help="Maps show their progress, unless False."),
        _Row("show-output", kinds.FLAG, "", _PYTHON,
             help="Show what a call printed; default: in a terminal and a notebook."),
        _Row("keep-running", kinds.FLAG, "", _PYTHON,
             help="Ctrl-C or a timeout while waiting does not cancel the task."),
        _Row("max-result", kinds.SIZE, "", _PYTHON, "1GiB",
             help="Larger results are not read into memory."),
        _Row("client", kinds.OBJECT, "", _PYTHON,
             help="A `potluck.Potluck`, for another server or account."),
    ],
}
# fmt: on
OPTIONS: Final = {
    row.name: replace(row, panel=panel) for panel, rows in _PANELS.items() for row in rows
}
_NAMES: Final = {name: row for row in OPTIONS.values() for name in (row.name, *row.aliases)}
_MEANT: Final = {name: row.name for row in OPTIONS.values() for name in row.synonyms}


class TaskKeywords(TypedDict, total=False):
    """The options in Python, for type checkers; a test compares it with the table."""

    name: str
    env: Mapping[str, str] | Sequence[str]
    attempts: int
    dependencies: Sequence[str]
    requirements: str | Path
    folder: str | Path
    file: Mapping[str, str | Path] | Sequence[str | Path]  # the task's name for it: where it is
    volume: Mapping[str, str] | Sequence[str]  # its path in the task: its name
    keep: Sequence[str]
    checkpoint: float | str
    secret: Sequence[str] | Mapping[str, str]  # names of variables here, or with their values
    trust: Sequence[str]
    secrets_to_strangers: bool
    gpu: bool | int | str
    device_kind: str
    vram: int | str
    fraction: float | str
    share: bool
    vendor: str
    model: str
    capability: float | str
    label: Sequence[str]
    min_reliability: float
    sandbox: str
    owner: Sequence[str]
    network: str | Sequence[str]
    max_price: float | str
    cores: int
    ram: int | str
    disk: int | str
    network_limit: int | str
    time: float | str
    prepare_time: float | str
    processes: int
    log_limit: int | str
    stop_after_silence: float | str
    after: Sequence[str]
    delay: float | str
    deadline: float | str
    expected: float | str
    priority: int
    allow_pickle: bool
    from_wallets: Sequence[str]
    progress: bool
    show_output: bool
    keep_running: bool
    max_result: int | str


def find_option(name: str, sources: OptionSource) -> TaskOption:
    """The option with this name or earlier name, if one of the sources has it; `_` equals `-`."""
    option = _NAMES.get(name.replace("_", "-"))
    if option is not None and option.sources & sources:
        return option
    if option is not None and option.name == "python":  # the one source without it is Python
        raise InvalidInput(
            f"There is no option {name!r}.", "A function runs on the version of your own Python."
        )
    names = [row.name for row in OPTIONS.values() if row.sources & sources]
    near = difflib.get_close_matches(name.replace("_", "-"), names, 1)
    meant = _MEANT.get(name) or next(iter(near), None)
    hint = f"Did you mean {meant}? {LISTED}" if meant else LISTED
    raise InvalidInput(f"There is no option {name!r}.", hint)


def read_option(
    key: str, value: object, source: OptionSource, where: str
) -> tuple[TaskOption, Any]:
    """The option of a key in a file, and its value as it would be typed; raises if not allowed."""
    try:
        option = find_option(key, source | _COMMAND)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: there is no option {key!r}.", error.hint) from None
    name = option.name
    if not option.sources & (_FILES | OptionSource.TEMPLATE):
        raise InvalidInput(f"{where}: {name} cannot be set in a file.", f"Type it: --{name}.")
    if source not in option.sources:
        kind = str(source.name).lower()
        raise InvalidInput(
            f"{where}: a {kind} cannot set {name}, since {kind}s often come from others.",
            f"Type --{name}, or put it into the [tool.potluck] of your pyproject.toml.",
        )
    spelled = option.kind.spell(value, f"{where}: {name}")
    option.kind.parse(spelled, f"{where}: {name}")
    return option, spelled


def alias_hint(alias: str, name: str) -> str:
    return f"{alias} is called {name} now; the earlier name still works."
