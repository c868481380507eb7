"""`potluck provider pause|resume|reclaim`: whether devices take work from now on."""

from typing import Annotated

import typer

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.resolve_device import pick_devices
from potluck.cli.provider.target import (
    EFFECT_TEXTS,
    CommandTarget,
    DevicesArgument,
    Effect,
    NodeOption,
    open_target,
)
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.terms import TermsChange

_RELIABILITY_NOTE = (
    "Stopping a task lowers this machine's reliability, unless you declared it before the task"
    " arrived: potluck provider set reclaim=yes"
)


def pause(
    devices: DevicesArgument = None,
    now: Annotated[
        bool, typer.Option("--now", help="Also stop running tasks; they run elsewhere.")
    ] = False,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take no new tasks; running tasks finish."""
    with open_target(node, server, data_dir) as machine:
        _pause(Screen(json), machine, devices or [], now)


def reclaim(
    devices: DevicesArgument = None,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Get devices back now: their tasks are stopped, and run elsewhere."""
    with open_target(node, server, data_dir) as machine:
        _pause(Screen(json), machine, devices or [], is_now=True)


def resume(
    devices: DevicesArgument = None,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take work again."""
    screen = Screen(json)
    with open_target(node, server, data_dir) as machine:
        chosen, named = _choose_devices(machine, devices or [])
        effect = machine.change(TermsChange(devices=chosen, is_paused=False))
    if json:
        screen.emit({"resumed": chosen or "all", "in_force": effect})
    else:
        screen.out.prose(f"Resumed {named}. {EFFECT_TEXTS[effect]}")


def _pause(screen: Screen, machine: CommandTarget, words: list[str], is_now: bool) -> None:
    chosen, named = _choose_devices(machine, words)
    if is_now:
        effect = machine.reclaim(chosen)
    else:
        effect = machine.change(TermsChange(devices=chosen, is_paused=True))
    if screen.json:
        screen.emit({"paused": chosen or "all", "is_now": is_now, "in_force": effect})
        return
    screen.out.prose(f"Paused {named}{_running_tasks_text(effect, is_now)}. {EFFECT_TEXTS[effect]}")
    if is_now and effect is not Effect.NEXT_START and not machine.declares_reclaim(chosen):
        screen.err.prose(_RELIABILITY_NOTE, Tone.FAINT)


def _running_tasks_text(effect: Effect, is_now: bool) -> str:
    if effect is Effect.NEXT_START:
        return ""
    if not is_now:
        return "; running tasks will finish"
    is_done = effect is not Effect.NEXT_HEARTBEAT
    return f"; running tasks {'are' if is_done else 'will be'} stopped"


def _choose_devices(machine: CommandTarget, words: list[str]) -> tuple[tuple[str, ...], str]:
    """The uuids of the devices, and their names for people."""
    if not words:
        return (), "all devices"
    choices = machine.choices()
    chosen = pick_devices(words, choices)
    models = {choice.uuid: choice.model for choice in choices}
    return chosen, printable(", ".join(models[uuid] for uuid in chosen))
