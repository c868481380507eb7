"""What an owner asks for from elsewhere, as far as a machine gives in to it."""

import asyncio
from pathlib import Path
from typing import cast

from potluck.model.ids import NodeId
from potluck.model.terms import Order, TermsChange
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.owner.owner_duties import AvailabilityDuty
from potluck.provider.owner.remote_requests import RemoteRequests, without_weaker_sandbox
from potluck.wire.owner_request import OwnerOrder, Wish


def test_no_server_takes_the_walls_down() -> None:
    requested_change = TermsChange(price_micro_per_hour=1, sandbox="none")
    assert without_weaker_sandbox(requested_change) == TermsChange(price_micro_per_hour=1)
    # What it was started with may be less than what the file says.
    assert without_weaker_sandbox(TermsChange(sandbox=None)) == TermsChange()
    assert without_weaker_sandbox(TermsChange(images=("*",), pulls_images=True)) == TermsChange()
    for change in (TermsChange(sandbox="bwrap"), TermsChange(has_containers=False), TermsChange()):
        assert without_weaker_sandbox(change) == change


async def test_a_drain_is_known_to_be_carried_out_before_it_ends_the_provider(
    tmp_path: Path,
) -> None:
    """Else the next start would end at once; and a number alone is where to go on from."""
    drained: list[int] = []

    def opened() -> RemoteRequests:
        no_duty = cast("AvailabilityDuty", None)  # neither of the two is about devices
        return RemoteRequests(
            tmp_path,
            lambda: NodeId("node_1"),
            no_duty,
            lambda: drained.append(requests.number()),
            ChangeCounter(),
        )

    requests = opened()
    requests.hear([Wish(9), Wish(7, order=OwnerOrder(Order.DRAIN))])
    running = asyncio.create_task(requests.run())
    async with asyncio.timeout(5):
        while requests.number() < 9:
            await asyncio.sleep(0.01)
    running.cancel()
    assert drained == [7]
    assert opened().number() == 9
