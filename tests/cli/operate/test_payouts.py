"""`potluck admin payouts export`: only where nothing else pays the same rewards."""

import pytest

from potluck.wire.money.contract import RewardsContractView
from potluck.wire.money.rewards import ClaimantPage
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

CONTRACT = "0x" + "ab" * 20


@pytest.mark.parametrize("has_payouts", [True, False])
def test_rewards_that_a_contract_pays_are_not_exported(
    user: CommandLine, server: FakeServer, has_payouts: bool
) -> None:
    view = RewardsContractView(31337, CONTRACT, CONTRACT, 6, 1, 1, 2, has_payouts=has_payouts)
    server.plays("/v1/contract", says(view))
    server.plays("/v1/claimants", says(ClaimantPage([])))
    shown = user.run("admin", "payouts", "export")
    assert (shown.status == 0) is not has_payouts
    assert (f"through the contract {CONTRACT}" in " ".join(shown.stderr.split())) is has_payouts
