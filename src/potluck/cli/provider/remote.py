"""One of my machines elsewhere; the server keeps what I want of it until it hears of it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from potluck.cli.provider.effective_terms import EffectiveTerm, held_elsewhere
from potluck.cli.provider.machine import MachineView, told_by_server
from potluck.cli.provider.resolve_device import DeviceChoice, all_reclaimable, pick_node
from potluck.cli.provider.target import Effect, OnWay
from potluck.model.terms import Order, TermsChange
from potluck.wire.consumer import NodeView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


class Elsewhere:
    """What is wanted is acknowledged at once, and carried out when the machine hears of it."""

    def __init__(self, potluck: "Potluck", word: str | None):
        self._potluck = potluck
        self._word = word

    @property
    def node_id(self) -> str:
        return self._picked.id

    @cached_property
    def _picked(self) -> NodeView:
        return pick_node(self._word, self._potluck.resources.nodes())

    def shown(self) -> tuple[MachineView, NodeView]:
        node = self._node()
        return told_by_server(node, self._potluck.url, datetime.now(UTC)), node

    def choices(self) -> Sequence[DeviceChoice]:
        machine, _ = self.shown()
        return [device.choice for device in machine.devices]

    def held(self, device: str | None) -> list[EffectiveTerm]:
        return held_elsewhere(self._node(), device)

    def exceptions(self) -> Mapping[str, TermsChange]:
        """The pool knows what holds, not how it was said."""
        return {}

    def change(self, change: TermsChange) -> Effect:
        self._potluck.own_nodes.change(self.node_id, change)
        # The server gives a paused device nothing more, whether its node has heard or not.
        is_pause = change == TermsChange(devices=change.devices, is_paused=True)
        return Effect.NOW if is_pause else Effect.NEXT_HEARTBEAT

    def reclaim(self, devices: tuple[str, ...]) -> Effect:
        self._potluck.own_nodes.order(self.node_id, Order.RECLAIM, devices)
        return Effect.NEXT_HEARTBEAT

    def declares_reclaim(self, devices: tuple[str, ...]) -> bool:
        return all_reclaimable((each.description for each in self._picked.devices), devices)

    def drain(self, _: OnWay) -> Effect:
        self._potluck.own_nodes.order(self.node_id, Order.DRAIN)
        return Effect.NEXT_HEARTBEAT

    def _node(self) -> NodeView:
        return self._potluck.resources.node(self.node_id)
