"""`potluck rewards` and `potluck claim`, against a server that answers as told."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from potluck.model.credit import RewardsTo
from potluck.model.error import NotFound
from potluck.wire.money.contract import ClaimProof, RewardsContractView
from potluck.wire.money.rewards import Contribution, Rewards
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, refuses, says

CREDIT = 1_000_000
NOW = datetime.now(UTC)
WORK = Contribution(7200.0, 90.0, 60.0, 2, 9 * CREDIT, CREDIT, 2 * CREDIT)
REWARDS = Rewards(
    *(RewardsTo.PAYOUT, None, 7 * CREDIT, CREDIT, 2 * CREDIT, 0, 6 * CREDIT, 0),
    *(NOW.date(), WORK, []),
)
CONTRACT = RewardsContractView(1, "0xa", "0xb", 6, 1, 1, 12, has_payouts=True)
PROOF = ClaimProof(1, "0xa", "0xb", "0xc", str(5 * CREDIT), "0", 5 * CREDIT, 1, "0x01", [])
NOTHING = NotFound("There is nothing.")
NONE, STOPPED = None, replace(CONTRACT, stopped_because="it has another root")


@pytest.mark.parametrize(
    ("contract", "proof", "words"),
    [
        (NONE, NONE, "set aside for a payout"),
        (replace(CONTRACT, has_payouts=False), NONE, "set aside for a payout"),
        (STOPPED, PROOF, "payouts have stopped"),
        (CONTRACT, NONE, "once the contract has accepted its root"),
        (CONTRACT, PROOF, "`potluck claim` gets 5 of it now"),
    ],
)
def test_what_is_claimable_says_how_it_is_paid(
    user: CommandLine,
    server: FakeServer,
    contract: RewardsContractView | None,
    proof: ClaimProof | None,
    words: str,
) -> None:
    server.plays("/v1/me/rewards", says(REWARDS))
    server.plays("/v1/contract", refuses(NOTHING) if contract is None else says(contract))
    server.plays("/v1/me/rewards/claim", refuses(NOTHING) if proof is None else says(proof))
    output = user.run("rewards").stdout.decode()
    assert words in next(line for line in output.splitlines() if line.startswith("- claimable"))
    assert "2 h 0 min offered, 1 min 30 s assigned, 1 min 0 s worked, 2 attempts." in output
    assert "For it: 9 credits, of that 2 credits held back; fee 1 credit." in output


def test_calldata_of_a_claim_that_was_made_is_not_printed(
    user: CommandLine, server: FakeServer
) -> None:
    claimed = replace(PROOF, claimed_units=PROOF.cumulative_units, claimable_micro=0)
    server.plays("/v1/me/rewards/claim", says(claimed))
    refused = user.run("claim", "--dry-run")
    assert refused.status != 0 and "has been claimed" in refused.stderr
