"""A simulated owner, who changes the terms of a node and the state of its devices."""

from msgspec.structs import replace

from potluck.model.device import Availability, DeviceDescription
from potluck.model.node import NodeDescription
from potluck.model.task import GIB
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import Grant
from verification.faults.world import World

_AWAY = (Availability.PAUSED, Availability.OUTSIDE_HOURS, Availability.IN_USE)


class OwnerBehaviour:
    """`restore` sets the first terms again, under which every task fits somewhere."""

    def __init__(self, world: World, description: NodeDescription) -> None:
        self._world = world
        self._first = description
        self.description = description
        self.is_news = False  # the description must be registered again
        self._availability = {each.uuid: Availability.AVAILABLE for each in description.devices}

    @property
    def statuses(self) -> tuple[DeviceStatus, ...]:
        return tuple(DeviceStatus(uuid, each) for uuid, each in self._availability.items())

    def restore(self) -> None:
        self.description, self.is_news = self._first, True
        self._availability = dict.fromkeys(self._availability, Availability.AVAILABLE)

    def pause(self) -> None:
        """Pauses a device, or makes a device that was away available."""
        uuid = self._device()
        is_away = self._availability[uuid] is not Availability.AVAILABLE
        now = Availability.AVAILABLE if is_away else self._world.chance.one_of(_AWAY)
        self._availability[uuid] = now

    def reclaim(self) -> str:
        """Makes the owner use a device; returns it."""
        uuid = self._device()
        self._availability[uuid] = Availability.IN_USE
        return uuid

    def fail_device(self) -> str:
        """Makes a device faulty; returns it."""
        uuid = self._device()
        self._availability[uuid] = Availability.SICK
        return uuid

    def change_terms(self) -> None:
        chance = self._world.chance
        self.description = replace(
            self._first,
            cores=chance.one_of([self._first.cores, 2]),
            memory_bytes=chance.one_of([self._first.memory_bytes, 2 * GIB]),
            devices=tuple(self._on_other_terms(each) for each in self._first.devices),
        )
        self.is_news = True

    def declines(self, grant: Grant) -> bool:
        """Whether the terms exclude a grant; the server may not know them yet."""
        granted = {each.uuid for each in grant.devices}
        offered = [each for each in self.description.devices if each.uuid in granted]
        return any(grant.wallet in each.terms.deny for each in offered)

    def _on_other_terms(self, device: DeviceDescription) -> DeviceDescription:
        chance = self._world.chance
        terms = replace(
            device.terms,
            price_micro_per_hour=chance.one_of([0, 3_600_000, 7_200_000]),
            shares_accounts=chance.happens(0.5),
            is_reclaimable=chance.happens(0.5),
            memory_share=chance.one_of([1.0, 0.5]),
            fractions=chance.one_of([None, None, 2, 1]),
            deny=self._some_people(0.2),
            allow=self._some_people(0.05),
        )
        return replace(device, terms=terms)

    def _some_people(self, probability: float) -> tuple[str, ...]:
        people = self._world.addresses
        return tuple(address for address in people if self._world.chance.happens(probability))

    def _device(self) -> str:
        return self._world.chance.one_of(list(self._availability))
