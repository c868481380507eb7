"""`potluck admin epochs`, against a server that answers as told."""

from datetime import UTC, datetime

from potluck.model.payout import RootState
from potluck.wire.money.contract import EpochRoot
from potluck.wire.money.rewards import EpochPage, EpochView
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

NOW = datetime.now(UTC)


def test_a_root_with_a_part_of_an_epoch_says_so(user: CommandLine, server: FakeServer) -> None:
    whole = EpochRoot(1, "0xa", 1, "0x01", "7", RootState.ACCEPTED)
    part = EpochRoot(1, "0xa", 2, "0x02", "7", RootState.ACCEPTED, is_partial=True)
    for roots, is_told in (([whole], False), ([part, whole], True)):
        epoch = EpochView(1, NOW, NOW, NOW, 12_000, 9, 1, 8, 8, None, roots)
        server.plays("/v1/epochs", says(EpochPage([epoch])))
        finished = user.run("admin", "epochs")
        assert ("accepted, a part" in finished.stdout.decode()) is is_told
        assert ("the rewards of other accounts are in the next one" in finished.stderr) is is_told


def test_a_root_that_waits_says_why(user: CommandLine, server: FakeServer) -> None:
    for why in ("too few tokens", "too few tokens."):
        root = EpochRoot(1, "0xa", 2, "0x02", "7", RootState.PLANNED, waits_because=why)
        epoch = EpochView(3, NOW, NOW, NOW, 12_000, 9, 1, 8, 8, None, [root])
        server.plays("/v1/epochs", says(EpochPage([epoch])))
        shown = user.run("admin", "epochs").stderr
        assert "The root of epoch 3 waits: too few tokens.\n" in shown
