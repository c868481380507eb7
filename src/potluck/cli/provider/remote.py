"""One of my remote machines; the server keeps requests until the machine fetches them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from potluck.cli.provider.effective_terms import EffectiveTerm, remote_terms
from potluck.cli.provider.machine import MachineView, view_from_server
from potluck.cli.provider.resolve_device import DeviceChoice, all_reclaimable, pick_node
from potluck.cli.provider.target import Effect, OnProgress
from potluck.model.terms import Order, TermsChange
from potluck.wire.consumer import NodeView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


class RemoteTarget:
    """Requests are acknowledged immediately, and carried out when the machine fetches them."""

    def __init__(self, potluck: "Potluck", word: str | None):
        self._potluck = potluck
        self._word = word

    @property
    def node_id(self) -> str:
        return self._picked.id

    @cached_property
    def _picked(self) -> NodeView:
        return pick_node(self._word, self._potluck.resources.nodes())

    def view(self) -> tuple[MachineView, NodeView]:
        node = self._node()
        return view_from_server(node, self._potluck.url, datetime.now(UTC)), node

    def choices(self) -> Sequence[DeviceChoice]:
        machine, _ = self.view()
        return [device.choice for device in machine.devices]

    def effective_terms(self, device: str | None) -> list[EffectiveTerm]:
        return remote_terms(self._node(), device)

    def exceptions(self) -> Mapping[str, TermsChange]:
        """The pool knows only the values in effect."""
        return {}

    def change(self, change: TermsChange) -> Effect:
        self._potluck.own_nodes.change(self.node_id, change)
        # The server assigns no work to a paused device, even before its node knows.
        is_pause = change == TermsChange(devices=change.devices, is_paused=True)
        return Effect.NOW if is_pause else Effect.NEXT_HEARTBEAT

    def reclaim(self, devices: tuple[str, ...]) -> Effect:
        self._potluck.own_nodes.order(self.node_id, Order.RECLAIM, devices)
        return Effect.NEXT_HEARTBEAT

    def declares_reclaim(self, devices: tuple[str, ...]) -> bool:
        return all_reclaimable((device.description for device in self._picked.devices), devices)

    def drain(self, _: OnProgress) -> Effect:
        self._potluck.own_nodes.order(self.node_id, Order.DRAIN)
        return Effect.NEXT_HEARTBEAT

    def _node(self) -> NodeView:
        return self._potluck.resources.node(self.node_id)
