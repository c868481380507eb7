"""`potluck admin payouts export`: only where nothing else pays the same rewards."""

from pathlib import Path

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
    result = user.run("admin", "payouts", "export")
    assert (result.status == 0) is not has_payouts
    assert (f"through the contract {CONTRACT}" in " ".join(result.stderr.split())) is has_payouts


def test_every_bad_line_of_a_file_is_named(user: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "paid.csv"
    file.write_text(f"id,wallet,credits\na,{CONTRACT},-1\nb,0x12,1\nc,{CONTRACT},much\n")
    result = user.run("admin", "payouts", "mark", file)
    message = " ".join(result.stderr.split())
    assert all(f"line {line}:" in message for line in (2, 3, 4)), message
    assert "/schema" not in message and "$." not in message


def test_a_file_without_rows_records_nothing(user: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "paid.csv"
    file.write_text("id,wallet,credits,reference\n")
    result = user.run("admin", "payouts", "mark", file)
    assert (result.status, result.stdout) == (
        0,
        b"Recorded 0 payouts of 0 credits; recorded before: 0.\n",
    )
