"""Writes the documentation that is made from the code: `make docs`.

A page in `PAGES` is generated whole. A part in `PARTS` stands in its page between two comments that
name it. `tests/architecture/test_generated_docs.py` checks that all of them are current.
"""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from potluck.cli.main import build_program
from potluck.decide.lifecycle import ATTEMPT_TRANSITIONS, TASK_TRANSITIONS
from potluck.decide.payouts.outbox import TRANSACTION_TRANSITIONS
from potluck.decide.pool.feasibility import Refusal
from potluck.model.account import Credential, Registration, Role, Scope
from potluck.model.alert import (
    ALERTS,
    AlertAudience,
    AlertFacts,
    AlertName,
    AlertSeverity,
    AlertState,
)
from potluck.model.audit import AuditKind
from potluck.model.credit import EntryKind, Purse, RewardsTo
from potluck.model.device import Availability, DeviceKind, Health, Standing
from potluck.model.event import EventKind
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState, SandboxStrength
from potluck.model.payout import RootState, TransactionKind, TransactionState
from potluck.model.task import END_REASONS, EndFacts, TaskState
from potluck.model.terms import Order, TaskKind
from potluck.model.units import show_seconds
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.provider.service.service import describe
from potluck.provider.service.systemd import system_unit
from potluck.provider.settings import ProviderSettings
from potluck.server.api.document.types import remarks
from potluck.server.settings import ServerSettings
from scripts.form_options import form_options
from scripts.metrics_page import metrics_page
from scripts.options_page import options_page
from scripts.permissions_page import permissions_page
from scripts.runbook_page import runbook_page

ROOT = Path(__file__).parent.parent
ENUMS: tuple[type[StrEnum], ...] = (
    *(Refusal, NodeState, DeviceKind, SandboxStrength, Availability, Health, TaskKind, Order),
    *(Standing, EntryKind, Purse, RewardsTo, RootState, TransactionKind, EventKind),
    *(Role, Registration, Credential, Scope),
    *(PauseReason, DeliveryState, AuditKind, AlertName, AlertSeverity, AlertState, AlertAudience),
)
# Given by the command line, and not by a variable of this pattern.
GIVEN_OTHERWISE = {"url", "ca_file", "data_directory", "name"}
COMMANDS = """\
# Commands

Made from the commands by `make docs`. `potluck COMMAND --help` shows the options of one of them;
[options.md](options.md) lists the options of a task. Every command takes `--json`. Exit codes are
in [operations.md](operations.md#exit-codes).
"""


def end_reasons() -> str:
    head = ("reason", "reported by", "attempt becomes", "counts as", "held against the node")
    rows = [
        (
            *(f"`{reason}`", facts.reporter.value, f"`{facts.attempt_state}`", _counts_as(facts)),
            *(facts.node_fault.value, facts.next_try.value, _sentence(facts.meaning)),
        )
        for reason, facts in END_REASONS.items()
    ]
    return table((*head, "next try", "meaning"), rows)


def _counts_as(facts: EndFacts) -> str:
    counts = {AttemptState.FAILED: "failure", AttemptState.LOST: "loss"}
    return counts.get(facts.attempt_state, "–") if facts.is_counted else "–"


def transitions(targets: Mapping[Any, frozenset[Any]]) -> str:
    """The states of a lifecycle: what each may become, and its comment in the source."""
    kind = type(next(iter(targets)))
    meanings = remarks(kind)
    rows = []
    for state in kind:
        following = [f"`{target}`" for target in kind if target in targets[state]]
        meaning = _sentence(meanings[state.name])
        rows.append((f"`{state}`", ", ".join(following) or "–", meaning))
    return table(("state", "may become", "meaning"), rows)


def members(kind: type[StrEnum]) -> str:
    """The members of an enum, each with its comment in the source."""
    meanings = remarks(kind)
    rows = [(f"`{member}`", _sentence(meanings[member.name])) for member in kind]
    return table(("value", "meaning"), rows)


def alerts() -> str:
    rows = [
        (f"[{name}](#{name.lower()})", facts.severity.value, _after(facts), facts.audience.value)
        for name, facts in ALERTS.items()
    ]
    return table(("alert", "severity", "fires after", "told to"), rows)


def _after(facts: AlertFacts) -> str:
    return show_seconds(facts.for_seconds) if facts.for_seconds else "at once"


def settings(prefix: str, kind: type[msgspec.Struct]) -> str:
    """The variables of a settings struct, each with its default and its comment in the source."""
    meanings = field_comments(kind)
    rows = [
        (f"`{prefix}{field.name.upper()}`", _default(field), _cell(meanings[field.name]))
        for field in msgspec.structs.fields(kind)
        if field.name not in GIVEN_OTHERWISE
    ]
    return table(("variable", "default", "meaning"), rows)


def field_comments(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The comment behind each field, or the comment lines right above it."""
    comments: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("potluck."):
            continue
        lines = inspect.getsource(base).splitlines()
        (body,) = ast.parse("\n".join(lines)).body
        assert isinstance(body, ast.ClassDef)
        for field in body.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                last = field.end_lineno or field.lineno
                comments[field.target.id] = _comment(lines, field.lineno - 1, last)
    return comments


def _comment(lines: Sequence[str], first: int, last: int) -> str:
    for line in lines[first:last]:
        _, mark, text = line.partition("  # ")
        if mark:
            return text.strip()
    above: list[str] = []
    while lines[first - 1].lstrip().startswith("# "):
        first -= 1
        above.insert(0, lines[first].lstrip()[2:])
    return " ".join(above)


def _default(field: msgspec.structs.FieldInfo) -> str:
    value: Any = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None or value in ("", ()) or isinstance(value, Mapping):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.10g}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def commands_page() -> str:
    panels: dict[str, list[tuple[str, str]]] = {}
    for name, command in build_program().commands.items():
        if command.hidden:
            continue
        rows = panels.setdefault(getattr(command, "rich_help_panel", None) or "Other", [])
        rows.extend(_command_rows(f"potluck {name}", command))
    sections = [
        f"\n## {panel}\n\n{table(('command', 'what it does'), rows)}"
        for panel, rows in panels.items()
    ]
    return COMMANDS + "".join(sections)


def _command_rows(path: str, command: Any) -> list[tuple[str, str]]:
    if hasattr(command, "commands"):
        parts = command.commands.items()
        return [row for name, part in parts for row in _command_rows(f"{path} {name}", part)]
    arguments = [
        _argument(parameter)
        for parameter in command.load().params
        if parameter.param_type_name == "argument"
    ]
    usage = " ".join([path, *arguments])
    summary = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
    return [(f"`{usage}`", _cell(summary))]


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper().strip("[].… ")
    name = f"{name} …" if parameter.nargs == -1 else name
    return name if parameter.required else f"[{name}]"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("| --- ", "|---") + "\n"


def _sentence(clause: str) -> str:
    text = f"{clause[0].upper()}{clause[1:]}"
    return text if text.endswith(".") else f"{text}."


def _cell(clause: str) -> str:
    return _sentence(clause).replace("|", "\\|")


def _key(kind: type[StrEnum]) -> str:
    return f"members of {kind.__name__}"


# Which page has a part, by the name between its markers.
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "end reasons": ("docs/lifecycle.md", end_reasons),
    f"transitions of {TaskState.__name__}": (
        "docs/lifecycle.md",
        partial(transitions, TASK_TRANSITIONS),
    ),
    f"transitions of {AttemptState.__name__}": (
        "docs/lifecycle.md",
        partial(transitions, ATTEMPT_TRANSITIONS),
    ),
    f"transitions of {TransactionState.__name__}": (
        "docs/lifecycle.md",
        partial(transitions, TRANSACTION_TRANSITIONS),
    ),
    **{_key(kind): ("docs/lifecycle.md", partial(members, kind)) for kind in ENUMS},
    "alerts": ("docs/alerts.md", alerts),
    "server settings": ("docs/operations.md", partial(settings, "POTLUCK_", ServerSettings)),
    "provider settings": (
        "docs/operations.md",
        partial(settings, "POTLUCK_PROVIDER_", ProviderSettings),
    ),
}


def provider_unit() -> str:
    """The unit of `deploy/systemd/`, for a user of its own and a pool that has to be named."""
    command = ("/opt/potluck/bin/potluck", "provide", "https://pool.example.org")
    config, data = Path("/etc/potluck"), Path("/var/lib/potluck")
    grace_seconds = inspect.signature(ProviderSettings).parameters["stop_grace_seconds"].default
    service = describe(command, {}, config, data, grace_seconds)
    # The user's own directory for the node key, which the user can write to.
    return system_unit(replace(service, variables={}), "potluck-provider")


PAGES: dict[str, Callable[[], str]] = {
    "deploy/systemd/potluck-provider.service": provider_unit,
    "docs/commands.md": commands_page,
    "docs/metrics.md": metrics_page,
    "docs/options.md": options_page,
    "docs/permissions.md": permissions_page,
    "src/potluck/server/pages/runbook.html": runbook_page,
    "web/src/logic/task_options.json": form_options,
}


def with_part(page: str, name: str, part: Callable[[], str]) -> str:
    """The text of a page with this part as the code has it now."""
    begin, end = f"<!-- generated: {name} (make docs) -->\n", "<!-- end of generated -->"
    before, _, rest = page.partition(begin)
    assert rest, f"no page has the marker {begin.strip()}"
    return f"{before}{begin}\n{part()}\n{end}{rest.split(end, 1)[1]}"


@cache
def current_pages() -> dict[str, str]:
    """Every page that is generated, or has a generated part, as it should be."""
    pages = {path: make() for path, make in PAGES.items()}
    for name, (path, part) in PARTS.items():
        pages[path] = with_part(pages.get(path) or (ROOT / path).read_text(), name, part)
    return pages


def main() -> None:
    for path, text in current_pages().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
