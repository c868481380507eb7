"""Which devices, and which machine, somebody means."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from potluck.cli.terminal.screen import printable
from potluck.model.device import DeviceDescription
from potluck.model.error import InvalidInput, NotFound
from potluck.wire.consumer import NodeView

_MOST_LISTED = 8


class DeviceChoice(Struct, frozen=True):
    """A device that may be meant."""

    number: int  # in `potluck provider status`
    uuid: str
    model: str
    id: str = ""  # the pool's, where it is known

    def __str__(self) -> str:
        return printable(f"{self.number} {self.model} ({self.uuid})")


def all_reclaimable(devices: Iterable[DeviceDescription], uuids: Sequence[str]) -> bool:
    """Whether the terms of these of them say so; of all, if none is named."""
    meant = (each for each in devices if not uuids or each.uuid in uuids)
    return all(each.terms.is_reclaimable for each in meant)


def pick_devices(words: Sequence[str], choices: Sequence[DeviceChoice]) -> tuple[str, ...]:
    """By uuid, each once; none for no words, which means all of them."""
    return tuple(dict.fromkeys(_pick(word, choices).uuid for word in words))


def _pick(word: str, choices: Sequence[DeviceChoice]) -> DeviceChoice:
    """The whole name or number first, then its beginning, then a piece of the model's name."""
    wanted = word.strip().lower()
    meant = choices if wanted else []
    ways = (
        [each for each in meant if wanted in (each.uuid.lower(), each.id, str(each.number))],
        [each for each in meant if each.uuid.lower().startswith(wanted)],
        [each for each in meant if wanted in each.model.lower()],
    )
    found = next((way for way in ways if way), [])
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(
            f"{printable(word)!r} fits {len(found)} devices: {_listed(found)}.",
            "Type its number, or more of its uuid.",
        )
    raise NotFound(
        f"No device here is called {printable(word)!r}.",
        f"There are: {_listed(choices)}." if choices else "There is no device at all.",
    )


def pick_node(word: str | None, nodes: Sequence[NodeView]) -> NodeView:
    """One of mine, by its id, the beginning or end of that, or its name; else the only one."""
    mine = [node for node in nodes if node.is_mine]
    found = mine if word is None else _named(word, mine)
    if len(found) == 1:
        return found[0]
    some = (found or mine)[:_MOST_LISTED]
    listed = ", ".join(f"{printable(node.name)} ({node.id})" for node in some)
    if not mine:
        raise NotFound(
            "No machine in this pool works for your wallet.", "Bring one: `potluck provide URL`."
        )
    if not found:
        raise NotFound(
            f"None of your machines is called {printable(word or '')!r}.", f"You have: {listed}."
        )
    meant = "You have" if word is None else f"{printable(word)!r} fits"
    raise InvalidInput(
        f"{meant} {len(found)} machines there: {listed}.", "Name one by its id: --node ID."
    )


def _named(word: str, mine: Sequence[NodeView]) -> list[NodeView]:
    core = word.lower().removeprefix("node_")
    ways = (
        [node for node in mine if word == node.id],
        [node for node in mine if word.lower() == node.name.lower()],
        [node for node in mine if core and _fits(node.id.removeprefix("node_"), core)],
    )
    return next((way for way in ways if way), [])


def _fits(core: str, wanted: str) -> bool:
    return core.startswith(wanted) or core.endswith(wanted)


def _listed(choices: Sequence[DeviceChoice]) -> str:
    shown = ", ".join(str(each) for each in choices[:_MOST_LISTED])
    return f"{shown} …" if len(choices) > _MOST_LISTED else shown
