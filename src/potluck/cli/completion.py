"""What the shell offers behind a half-typed word: my tasks, their names, ready tasks.

It must be quick and must never disturb: the server has a second, what it said is good for a few
more, and where it is away, or nobody is signed in, nothing new is offered and nothing is said.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_OPTIONS = ("--install-completion", "--show-completion")
# Typer's own switch: the options then take a name.
_BY_NAME = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"


@contextmanager
def named_shell(arguments: Sequence[str]) -> Iterator[None]:
    is_named = len(arguments) > 1 and arguments[0] in _OPTIONS
    if not is_named or _BY_NAME in os.environ:
        yield
        return
    os.environ[_BY_NAME] = "1"
    try:
        yield
    finally:
        del os.environ[_BY_NAME]


_FRESH_SECONDS = 10.0
_ANSWER_SECONDS = 1.0
_MOST_TASKS = 100
_MOST_CELLS = 60  # of a description: zsh shows no line that is broken
_FILE = "completion.json"

Known = list[tuple[str, str, str]]  # id, name and state, newest first


def task_ids(incomplete: str) -> list[tuple[str, str]]:
    """Ends of ids, as `potluck ps` shows them, and names that only one task has."""
    from potluck.cli.tasks.resolve_task import short_id

    known = _tasks()
    is_whole = incomplete.startswith("task_")
    ids = [(one if is_whole else short_id(one), f"{name}, {state}") for one, name, state in known]
    count = Counter(name for _, name, _ in known)
    names = [(name, state) for _, name, state in known if incomplete and count[name] == 1]
    return [each for each in [*ids, *names] if each[0].startswith(incomplete)]


def task_names(incomplete: str) -> list[str]:
    names = dict.fromkeys(name for _, name, _ in _tasks())
    return [name for name in names if name.startswith(incomplete)]


def template_names(incomplete: str) -> list[tuple[str, str]]:
    with suppress(Exception):
        return [each for each in _templates() if each[0].startswith(incomplete)]
    return []


def _templates() -> Iterator[tuple[str, str]]:
    from potluck.cli.terminal.text_width import cut
    from potluck.local.template import Template, all_templates

    for each in all_templates():
        if isinstance(each, Template):
            yield each.name, cut(each.about.summary, _MOST_CELLS)


def _tasks() -> Known:
    with suppress(Exception):  # whatever is wrong, this is not the moment to say it
        return _recent_tasks()
    return []


def _recent_tasks() -> Known:
    from potluck.cli.options import server_url
    from potluck.consumer.identity.profile import chosen_url

    url = chosen_url(server_url(None))
    who = _who(url)
    kept = _kept()
    said = kept if (kept.get("url"), kept.get("who")) == (url, who) else {}
    if time.time() - said.get("at", 0.0) < _FRESH_SECONDS:
        return _known(said)
    try:
        tasks = _asked(url)
    except Exception:  # noqa: BLE001 - then what was known before is better than nothing
        return _known(said)
    _keep({"url": url, "who": who, "at": time.time(), "tasks": tasks})
    return tasks


def _asked(url: str) -> Known:
    from potluck.cli.terminal.screen import printable
    from potluck.consumer import Patience, Potluck

    hasty = Patience(connect_seconds=_ANSWER_SECONDS, read_seconds=_ANSWER_SECONDS, tries=1)
    with Potluck(url, patience=hasty) as potluck:
        tasks = potluck.tasks.list(_MOST_TASKS).tasks
    return [(task.id, printable(task.name), task.state.value) for task in tasks]


def _who(url: str) -> str:
    """Whose tasks they are; of a token, nothing that would tell it."""
    from potluck.consumer.identity.profile import saved_for

    token = os.environ.get("POTLUCK_TOKEN")
    if token:
        return hashlib.sha256(token.encode()).hexdigest()[:16]
    saved = saved_for(url)
    if saved is None or saved.session is None:
        raise LookupError("nobody is signed in")
    return saved.session.address


def _path() -> Path:
    from potluck.local.data_directory import config_directory

    return config_directory() / _FILE


def _kept() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(_path().read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _known(said: dict[str, Any]) -> Known:
    return [(str(one), str(name), str(state)) for one, name, state in said.get("tasks", [])]


def _keep(said: dict[str, Any]) -> None:
    """For the next key; several shells may write at a time."""
    with suppress(OSError):
        _path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = _path().with_suffix(f".{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(said, file)
        draft.replace(_path())
