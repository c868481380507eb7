"""Whose tasks owners take: their lists name wallets, and the scheduler knows accounts.

A wallet that nobody has signed in with yet may be on a list. When it gets an account, the nodes
that name it are to be read again.
"""

from collections.abc import Iterable

import msgspec

from potluck.decide.types import AccountShare, FreeDevice, FreeNode
from potluck.model.ids import AccountId, NodeId
from potluck.store.scheduler.scheduler_feed import NodeNow, WalletLists


class Wallets:
    def __init__(self) -> None:
        self._accounts: dict[str, AccountId] = {}
        self._awaited: dict[NodeId, frozenset[str]] = {}  # named there, and nobody's yet

    def meet(self, accounts: Iterable[AccountShare]) -> set[NodeId]:
        """Takes note of whose a wallet is; the nodes that have been waiting to hear of it."""
        new = {each.wallet: each.id for each in accounts if each.wallet not in self._accounts}
        self._accounts |= new
        return {node_id for node_id, names in self._awaited.items() if not names.isdisjoint(new)}

    def resolve(self, now: NodeNow) -> FreeNode | None:
        """The node, with the accounts that its owner's lists name."""
        named = {name for each in now.lists.values() for name in each.allow | each.deny}
        awaited = frozenset(named.difference(self._accounts))
        if awaited:
            self._awaited[now.id] = awaited
        else:
            self._awaited.pop(now.id, None)
        if now.node is None or not now.lists:
            return now.node
        devices = [
            self._device(now.node, each, now.lists.get(each.id)) for each in now.node.devices
        ]
        return msgspec.structs.replace(now.node, devices=tuple(devices))

    def _device(self, node: FreeNode, device: FreeDevice, lists: WalletLists | None) -> FreeDevice:
        """Lists are about others: his own tasks an owner always takes."""
        if lists is None:
            return device
        owner = {node.account_id}
        allow = self._of(lists.allow) | owner if lists.allow else None
        return msgspec.structs.replace(device, allow=allow, deny=self._of(lists.deny) - owner)

    def _of(self, names: frozenset[str]) -> frozenset[AccountId]:
        return frozenset(self._accounts[name] for name in names if name in self._accounts)
