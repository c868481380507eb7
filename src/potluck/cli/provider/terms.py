"""`potluck provider set`: on which terms devices may be had; alone, what can be said and is."""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec import UNSET

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.effective_terms import EffectiveTerm, spelled
from potluck.cli.provider.resolve_device import pick_devices
from potluck.cli.provider.target import (
    SENTENCES,
    CommandTarget,
    NodeOption,
    side,
)
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.error import InvalidInput
from potluck.model.terms import TermsChange
from potluck.provider.owner.settings_table import KEYS, OwnerSetting, key_named


def set_terms(
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Such as price=0.25. KEY= goes back to the default. Without any: what there is.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="For this device alone: number, uuid or model; repeatable.",
            show_default=False,
        ),
    ] = None,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Say on which terms devices may be had: price, hours, limits and more."""
    screen = Screen(json)
    said = [_parsed(word) for word in changes or []]
    with side(node, server, data_dir) as machine:
        chosen = pick_devices(device or [], machine.choices() if device else [])
        if said:
            _change(screen, machine, said, chosen)
        else:
            _show(screen, machine, chosen)


def _parsed(word: str) -> tuple[OwnerSetting, object]:
    """`price=0.25` as the key and its value; `price=` as none, the default."""
    name, separator, text = word.partition("=")
    key = key_named(name.strip())
    if not separator:
        raise InvalidInput(f"What should {key.name} be?", key.hint)
    return key, key.parse(text) if text.strip() else None


def _change(
    screen: Screen,
    machine: CommandTarget,
    said: Sequence[tuple[OwnerSetting, object]],
    chosen: tuple[str, ...],
) -> None:
    for key, _ in said:
        if chosen and key.is_for_node:
            raise InvalidInput(
                f"{key.name} is said of the whole machine.", "Leave out --device for it."
            )
    change = TermsChange(devices=chosen, **{key.field: value for key, value in said})  # type: ignore[arg-type]
    effect = machine.change(change)
    if screen.json:
        screen.emit({"change": change, "in_force": effect})
        return
    for key, value in said:
        text = "back to the default" if value is None else printable(spelled(key, value))
        screen.out.line(f"{key.name}: {text}")
    screen.out.line(SENTENCES[effect], Tone.FAINT)


def _show(screen: Screen, machine: CommandTarget, chosen: tuple[str, ...]) -> None:
    if len(chosen) > 1:
        raise InvalidInput("Only one device can be shown at a time.", "Name one with --device.")
    device = chosen[0] if chosen else None
    held = machine.held(device)
    exceptions = {} if device else machine.exceptions()
    if screen.json:
        terms = {each.key.name: {"value": each.value, "source": each.source} for each in held}
        screen.emit({"terms": terms, "devices": exceptions})
        return
    _show_held(screen.out, held)
    for uuid, change in exceptions.items():
        screen.out.line(f"{printable(uuid)} alone: {_listed(change)}", Tone.WAITING)


def _show_held(pane: Pane, held: Sequence[EffectiveTerm]) -> None:
    columns = [
        *(TableColumn("KEY"), TableColumn("VALUE", shrinks=True, wraps=True), TableColumn("FROM")),
        TableColumn("MEANING", shrinks=True, wraps=True),
    ]
    rows = [
        [
            Cell(each.key.name, Tone.STRONG),
            *(Cell(each.value), Cell(each.source, Tone.FAINT), Cell(each.key.meaning)),
        ]
        for each in held
    ]
    show_table(pane, columns, rows)


def _listed(change: TermsChange) -> str:
    said = [(key, getattr(change, key.field)) for key in KEYS]
    return printable(
        ", ".join(f"{key.name}={spelled(key, value)}" for key, value in said if value is not UNSET)
    )
