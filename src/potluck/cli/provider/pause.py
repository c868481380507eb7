"""`potluck provider pause|resume|reclaim`: whether devices take work, from this moment on."""

from typing import Annotated

import typer

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.resolve_device import pick_devices
from potluck.cli.provider.target import (
    SENTENCES,
    CommandTarget,
    DevicesArgument,
    Effect,
    NodeOption,
    side,
)
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.terms import TermsChange

_COUNTS = (
    "Stopping a task counts against a machine, unless it was said before the task came that it may"
    " be: potluck provider set reclaim=yes"
)


def pause(
    devices: DevicesArgument = None,
    now: Annotated[
        bool, typer.Option("--now", help="Stop what runs there, too; it goes elsewhere.")
    ] = False,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take no new work; what runs is finished."""
    with side(node, server, data_dir) as machine:
        _pause(Screen(json), machine, devices or [], now)


def reclaim(
    devices: DevicesArgument = None,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Give me my devices back now: what runs on them is stopped, and goes elsewhere."""
    with side(node, server, data_dir) as machine:
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
    with side(node, server, data_dir) as machine:
        chosen, named = _chosen(machine, devices or [])
        effect = machine.change(TermsChange(devices=chosen, is_paused=False))
    if json:
        screen.emit({"resumed": chosen or "all", "in_force": effect})
    else:
        screen.out.prose(f"Resumed {named}. {SENTENCES[effect]}")


def _pause(screen: Screen, machine: CommandTarget, words: list[str], is_now: bool) -> None:
    chosen, named = _chosen(machine, words)
    if is_now:
        effect = machine.reclaim(chosen)
    else:
        effect = machine.change(TermsChange(devices=chosen, is_paused=True))
    if screen.json:
        screen.emit({"paused": chosen or "all", "is_now": is_now, "in_force": effect})
        return
    screen.out.prose(f"Paused {named}{_goes_on(effect, is_now)}. {SENTENCES[effect]}")
    if is_now and effect is not Effect.NEXT_START and not machine.declares_reclaim(chosen):
        screen.err.prose(_COUNTS, Tone.FAINT)


def _goes_on(effect: Effect, is_now: bool) -> str:
    if effect is Effect.NEXT_START:
        return ""
    if not is_now:
        return "; what runs is finished"
    is_heard = effect is not Effect.NEXT_HEARTBEAT
    return f"; what {'ran there is' if is_heard else 'runs there will be'} stopped"


def _chosen(machine: CommandTarget, words: list[str]) -> tuple[tuple[str, ...], str]:
    """The devices by uuid, and as a person reads them."""
    if not words:
        return (), "all devices"
    choices = machine.choices()
    chosen = pick_devices(words, choices)
    models = {choice.uuid: choice.model for choice in choices}
    return chosen, printable(", ".join(models[uuid] for uuid in chosen))
