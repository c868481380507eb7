"""Shell completion of tasks, template names and the settings of an owner.

Completion must be fast and silent: the server has one second to respond, the response is cached for
ten, and if the server is unreachable or the user is not signed in, nothing new is offered.
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
# Typer's own switch: its options then take the name of a shell.
_BY_NAME = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
_FRESH_SECONDS = 10.0
_RESPONSE_SECONDS = 1.0
_MOST_TASKS = 100
_MOST_CELLS = 60  # of a description: zsh does not show a line that wraps
_FILE = "completion.json"

TaskRows = list[tuple[str, str, str]]  # id, name and state, newest first


@contextmanager
def use_named_shell(arguments: Sequence[str]) -> Iterator[None]:
    """Installs completion for the shell named on the command line.

    By default typer ignores the name and detects the shell that runs the command, which fails if a
    program started us.
    """
    is_named = len(arguments) > 1 and arguments[0] in _OPTIONS
    if not is_named or _BY_NAME in os.environ:
        yield
        return
    os.environ[_BY_NAME] = "1"
    try:
        yield
    finally:
        del os.environ[_BY_NAME]


def complete_task_ids(incomplete: str) -> list[tuple[str, str]]:
    """Offers live tasks first, by name; a name that several tasks have by the ends of their ids.

    What begins like an id is completed to ids.
    """
    from potluck.cli.tasks.resolve_task import short_id
    from potluck.model.task import TaskState

    final = {state.value for state in TaskState if state.is_final}
    tasks = sorted(_tasks(), key=lambda task: task[2] in final)
    count = Counter(name for _, name, _ in tasks)
    is_full = incomplete.startswith("task_")
    names = [(name, state) for _, name, state in tasks if count[name] == 1 and not is_full]
    ids = [
        (id_ if is_full else short_id(id_), f"{name}, {state}")
        for id_, name, state in tasks
        if incomplete or count[name] > 1
    ]
    return [offer for offer in [*names, *ids] if offer[0].startswith(incomplete)]


def complete_owner_settings(incomplete: str) -> list[tuple[str, str]]:
    from potluck.provider.owner.settings_table import KEYS

    return [(f"{key.name}=", key.meaning) for key in KEYS if key.name.startswith(incomplete)]


def complete_task_names(incomplete: str) -> list[str]:
    names = dict.fromkeys(name for _, name, _ in _tasks())
    return [name for name in names if name.startswith(incomplete)]


def complete_template_names(incomplete: str) -> list[tuple[str, str]]:
    with suppress(Exception):
        return [offer for offer in _templates() if offer[0].startswith(incomplete)]
    return []


def _templates() -> Iterator[tuple[str, str]]:
    from potluck.cli.terminal.table import truncate
    from potluck.local.template import Template, all_templates

    for template in all_templates():
        if isinstance(template, Template):
            yield template.name, truncate(template.about.summary, _MOST_CELLS)


def _tasks() -> TaskRows:
    with suppress(Exception):  # completion never shows an error
        return _recent_tasks()
    return []


def _recent_tasks() -> TaskRows:
    from potluck.cli.options import resolve_server_url
    from potluck.consumer.identity.profile import choose_url

    url = choose_url(resolve_server_url(None))
    account = _account(url)
    cache = _read_cache()
    if (cache.get("url"), cache.get("who")) != (url, account):
        cache = {}
    if time.time() - cache.get("at", 0.0) < _FRESH_SECONDS:
        return _cached_tasks(cache)
    try:
        tasks = _fetch_tasks(url)
    except Exception:  # noqa: BLE001 - a stale list is better than none
        return _cached_tasks(cache)
    _write_cache({"url": url, "who": account, "at": time.time(), "tasks": tasks})
    return tasks


def _fetch_tasks(url: str) -> TaskRows:
    from potluck.cli.terminal.screen import printable
    from potluck.consumer import Patience, Potluck

    patience = Patience(connect_seconds=_RESPONSE_SECONDS, read_seconds=_RESPONSE_SECONDS, tries=1)
    with Potluck(url, patience=patience) as potluck:
        tasks = potluck.tasks.list(_MOST_TASKS).tasks
    return [(task.id, printable(task.name), task.state.value) for task in tasks]


def _account(url: str) -> str:
    """The account that owns the cached tasks: an address, or a hash of the token."""
    from potluck.consumer.identity.profile import load_profile_for

    token = os.environ.get("POTLUCK_TOKEN")
    if token:
        return hashlib.sha256(token.encode()).hexdigest()[:16]
    saved = load_profile_for(url)
    if saved is None or saved.session is None:
        raise LookupError("not signed in")
    return saved.session.address


def _path() -> Path:
    from potluck.local.data_directory import config_directory

    return config_directory() / _FILE


def _read_cache() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        cache = json.loads(_path().read_text())
        return cache if isinstance(cache, dict) else {}
    return {}


def _cached_tasks(cache: dict[str, Any]) -> TaskRows:
    return [(str(id_), str(name), str(state)) for id_, name, state in cache.get("tasks", [])]


def _write_cache(cache: dict[str, Any]) -> None:
    """Replaces the file atomically: several shells may write at the same time."""
    with suppress(OSError):
        _path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = _path().with_suffix(f".{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(cache, file)
        draft.replace(_path())
