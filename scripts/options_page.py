"""docs/options.md, from the table of task options."""

from collections.abc import Iterator
from enum import StrEnum

from potluck.local.task_options import OPTIONS, OptionSource, TaskOption

INTRODUCTION = """\
# Options of a task

Made by `make docs` from the table in `src/potluck/local/task_options.py`; do not edit it here.

An option has one name everywhere; in Python `-` is `_`.

| where | how it is written |
|---|---|
| command line | `potluck run --max-price 0.5 train.py`, also `submit` and `map` |
| script | `max-price = 0.5` in `[tool.potluck]` of its PEP 723 block |
| project | the same in `pyproject.toml`: [tasks.md](tasks.md#defaults-of-a-project) |
| template | the same in `[options]` of `template.toml`: [templates.md](templates.md) |
| Python | `@potluck.task(max_price=0.5)`, and `potluck.Executor`: [functions.md](functions.md) |

Sizes are written like `8GB`, `1.5GiB` or as a number of bytes, times like `90s`, `1h30m` or as a
number of seconds. What is repeatable on the command line is one text or a list of texts elsewhere.
`env` can be a table; in Python `file` (`{"there.txt": "here.txt"}`) and `secret` (names and values)
can be one too, and `gpu=True` is one GPU.

A script or a template often comes from another person, so it cannot name files of your
machine, a server, an owner or a notification. A project can name its own files. Secrets, and who
receives them, are given each time.
"""
COLUMNS = {
    "script": OptionSource.SCRIPT,
    "project": OptionSource.PROJECT,
    "template": OptionSource.TEMPLATE,
    "Python": OptionSource.PYTHON,
}
EARLIER = """
## Earlier names

They still work, in Python with a `DeprecationWarning` and elsewhere with a hint.

| earlier | now |
|---|---|
"""


def options_page() -> str:
    panels = dict.fromkeys(option.panel for option in OPTIONS.values())
    return "".join([INTRODUCTION, *map(section, panels), EARLIER, *earlier()])


def section(panel: str) -> str:
    title = "General" if panel == "Options" else panel
    head = f"\n## {title}\n\n| option | value | default | meaning | {' | '.join(COLUMNS)} |\n"
    rows = (row(option) for option in OPTIONS.values() if option.panel == panel)
    return head + "|---|---|---|---|" + "---|" * len(COLUMNS) + "\n" + "".join(rows)


def row(option: TaskOption) -> str:
    typed = OptionSource.COMMAND in option.sources
    name = f"`--{option.name}`" if typed else f"`{option.keyword}`"
    default = "" if option.default is None else f"`{option.default}`"
    places = ["yes" if source in option.sources else "" for source in COLUMNS.values()]
    cells = [name, f"`{value(option)}`", default, option.typed_help.replace("|", "\\|"), *places]
    return f"| {' | '.join(cells)} |\n"


def value(option: TaskOption) -> str:
    kind = option.kind
    if kind.least is not None and kind.type is int:
        return f"{kind.least:,} to {kind.most:,}"
    if issubclass(kind.type, StrEnum):
        return ", ".join(kind.type)
    words = {bool: "yes or no", str: "TEXT"}
    return option.metavar or kind.metavar or words.get(kind.type, "OBJECT")


def earlier() -> Iterator[str]:
    for option in OPTIONS.values():
        for alias in option.aliases:
            yield f"| `{alias}` | `{option.name}` |\n"
    yield "| `retries=2`, in Python | `attempts=3` |\n"
