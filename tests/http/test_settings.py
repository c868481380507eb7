"""Settings that each are fine, and not together."""

from pathlib import Path

import pytest

from potluck.model.error import BadSettings
from potluck.server.settings import read_settings


@pytest.mark.parametrize("name", ["lease_seconds", "silent_after_seconds"])
def test_nodes_must_beat_before_they_are_missed(tmp_path: Path, name: str) -> None:
    given = {"data_directory": tmp_path, name: 20.0}
    with pytest.raises(BadSettings, match=f"POTLUCK_{name.upper()} is 20"):
        read_settings(given, {})
    assert read_settings({**given, "heartbeat_seconds": 19.0}, {}).heartbeat_seconds == 19
