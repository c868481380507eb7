"""Resolves the devices and the machine that a user names."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from potluck.cli.terminal.screen import printable
from potluck.model.device import DeviceDescription
from potluck.model.error import InvalidInput, NotFound
from potluck.wire.consumer import NodeView

_MOST_LISTED = 8


class DeviceChoice(Struct, frozen=True):
    """A device to choose from."""

    number: int  # in `potluck provider status`
    uuid: str
    model: str
    id: str = ""  # in the pool, if known

    def __str__(self) -> str:
        return printable(f"{self.number} {self.model} ({self.uuid})")


def all_reclaimable(devices: Iterable[DeviceDescription], uuids: Sequence[str]) -> bool:
    """Whether the terms of all named devices allow it; without names, of all devices."""
    named = (device for device in devices if not uuids or device.uuid in uuids)
    return all(device.terms.is_reclaimable for device in named)


def pick_devices(words: Sequence[str], choices: Sequence[DeviceChoice]) -> tuple[str, ...]:
    """The uuids, without duplicates; empty (meaning all devices) for no words."""
    return tuple(dict.fromkeys(_pick(word, choices).uuid for word in words))


def _pick(word: str, choices: Sequence[DeviceChoice]) -> DeviceChoice:
    """Tries the full uuid, id or number, then a uuid prefix, then a part of the model name."""
    text = word.strip().lower()
    candidates = choices if text else []
    stages = (
        [c for c in candidates if text in (c.uuid.lower(), c.id, str(c.number))],
        [c for c in candidates if c.uuid.lower().startswith(text)],
        [c for c in candidates if text in c.model.lower()],
    )
    matches = next((stage for stage in stages if stage), [])
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InvalidInput(
            f"{printable(word)!r} matches {len(matches)} devices: {_format_choices(matches)}.",
            "Use its number, or more of its uuid.",
        )
    raise NotFound(
        f"No device here matches {printable(word)!r}.",
        f"There are: {_format_choices(choices)}." if choices else "There are no devices.",
    )


def pick_node(word: str | None, nodes: Sequence[NodeView]) -> NodeView:
    """One of my nodes by id, prefix or suffix of the id, or name; without a word, the only one."""
    mine = [node for node in nodes if node.is_mine]
    matches = mine if word is None else _matching_nodes(word, mine)
    if len(matches) == 1:
        return matches[0]
    shown = (matches or mine)[:_MOST_LISTED]
    listed = ", ".join(f"{printable(node.name)} ({node.id})" for node in shown)
    if not mine:
        raise NotFound(
            "No machine in this pool works for your wallet.", "Add one: `potluck provide URL`."
        )
    if not matches:
        raise NotFound(
            f"None of your machines matches {printable(word or '')!r}.", f"You have: {listed}."
        )
    subject = "You have" if word is None else f"{printable(word)!r} matches"
    raise InvalidInput(
        f"{subject} {len(matches)} machines there: {listed}.", "Choose one by its id: --node ID."
    )


def _matching_nodes(word: str, mine: Sequence[NodeView]) -> list[NodeView]:
    core = word.lower().removeprefix("node_")
    stages = (
        [node for node in mine if word == node.id],
        [node for node in mine if word.lower() == node.name.lower()],
        [node for node in mine if core and _fits(node.id.removeprefix("node_"), core)],
    )
    return next((stage for stage in stages if stage), [])


def _fits(core: str, part: str) -> bool:
    return core.startswith(part) or core.endswith(part)


def _format_choices(choices: Sequence[DeviceChoice]) -> str:
    shown = ", ".join(str(choice) for choice in choices[:_MOST_LISTED])
    return f"{shown} …" if len(choices) > _MOST_LISTED else shown
