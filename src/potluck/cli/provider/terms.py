"""`potluck provider set`: the terms on which devices may be used; without arguments, shows them."""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec import UNSET

from potluck.cli.completion import complete_owner_settings
from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.effective_terms import EffectiveTerm, format_value
from potluck.cli.provider.resolve_device import pick_devices
from potluck.cli.provider.target import EFFECT_TEXTS, CommandTarget, NodeOption, open_target
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.error import InvalidInput
from potluck.model.terms import TermsChange
from potluck.provider.owner.settings_table import KEYS, OwnerSetting, key_named


def set_terms(
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Such as price=0.25. KEY= restores the default. Without any: show the settings.",
            show_default=False,
            autocompletion=complete_owner_settings,
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="Only for this device: number, uuid or model; repeatable.",
            show_default=False,
        ),
    ] = None,
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Set the terms on which devices may be used: price, hours, limits and more."""
    screen = Screen(json)
    settings = [_parse(word) for word in changes or []]
    with open_target(node, server, data_dir) as machine:
        chosen = pick_devices(device or [], machine.choices() if device else [])
        if settings:
            _change(screen, machine, settings, chosen)
        else:
            _show(screen, machine, chosen)


def _parse(word: str) -> tuple[OwnerSetting, object]:
    """Splits `price=0.25` into key and value; `price=` has the value None, the default."""
    name, separator, text = word.partition("=")
    key = key_named(name.strip())
    if not separator:
        raise InvalidInput(f"{key.name} has no value.", key.hint)
    return key, key.parse(text) if text.strip() else None


def _change(
    screen: Screen,
    machine: CommandTarget,
    settings: Sequence[tuple[OwnerSetting, object]],
    chosen: tuple[str, ...],
) -> None:
    for key, _ in settings:
        if chosen and key.is_for_node:
            raise InvalidInput(
                f"{key.name} applies to the whole machine.", "Set it without --device."
            )
    change = TermsChange(devices=chosen, **{key.field: value for key, value in settings})  # type: ignore[arg-type]
    effect = machine.change(change)
    if screen.json:
        screen.emit({"change": change, "in_force": effect})
        return
    for key, value in settings:
        text = "back to the default" if value is None else printable(format_value(key, value))
        screen.out.line(f"{key.name}: {text}")
    screen.out.line(EFFECT_TEXTS[effect], Tone.FAINT)


def _show(screen: Screen, machine: CommandTarget, chosen: tuple[str, ...]) -> None:
    if len(chosen) > 1:
        raise InvalidInput("Only one device can be shown at a time.", "Give --device once.")
    device = chosen[0] if chosen else None
    terms = machine.effective_terms(device)
    exceptions = {} if device else machine.exceptions()
    if screen.json:
        values = {term.key.name: {"value": term.value, "source": term.source} for term in terms}
        screen.emit({"terms": values, "devices": exceptions})
        return
    _show_table(screen.out, terms)
    for uuid, change in exceptions.items():
        screen.out.line(f"Only {printable(uuid)}: {_format_change(change)}", Tone.WAITING)


def _show_table(pane: Pane, terms: Sequence[EffectiveTerm]) -> None:
    columns = [
        TableColumn("KEY"),
        TableColumn("VALUE", shrinks=True, wraps=True),
        TableColumn("FROM"),
        TableColumn("MEANING", shrinks=True, wraps=True),
    ]
    rows = [
        [
            Cell(term.key.name, Tone.STRONG),
            *(Cell(term.value), Cell(term.source, Tone.FAINT), Cell(term.key.meaning)),
        ]
        for term in terms
    ]
    show_table(pane, columns, rows)


def _format_change(change: TermsChange) -> str:
    settings = [(key, getattr(change, key.field)) for key in KEYS]
    return printable(
        ", ".join(
            f"{key.name}={format_value(key, value)}"
            for key, value in settings
            if value is not UNSET
        )
    )
