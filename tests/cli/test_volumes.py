"""`potluck volume show`, against a server that answers as told."""

from datetime import UTC, datetime

import pytest

from potluck.model.blob import BlobRef
from potluck.wire.volumes import VolumeDetails, VolumeList, VolumeVersion, VolumeView
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says

NOW = datetime.now(UTC)
VERSION = VolumeVersion("3f9ac2d1" * 8, BlobRef("0" * 64, 10), 10, 1, NOW, NOW)


@pytest.mark.parametrize(
    ("days", "text"), [(90.0, "90 days"), (1.0, "1 day"), (1.5, "1 d 12 h"), (0.5, "12 h 0 min")]
)
def test_the_rules_of_a_volume_are_shown(
    user: CommandLine, server: FakeServer, days: float, text: str
) -> None:
    volume = VolumeView(
        *("volume_1", "data", "0xa", True, VERSION, 1, 10), keep_seconds=days * 86_400
    )
    server.plays("/v1/volumes", says(VolumeList([volume])))
    server.plays("/v1/volumes/volume_1", says(VolumeDetails(volume, [VERSION])))
    shown = user.run("volume", "show", "data").stderr
    assert f"Versions unused for {text} are removed." in shown
