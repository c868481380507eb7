"""Settings that each are fine, and not together; and variables that are none."""

import re
from pathlib import Path

import pytest

from potluck.local.settings import find_misspelt
from potluck.model.error import BadSettings
from potluck.server.settings import ServerSettings, read_settings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("times", "setting"),
    [
        # A node that beats as it is asked to must not be taken for lost, nor for silent.
        ({"lease_seconds": 20.0}, "HEARTBEAT_SECONDS is 20, and POTLUCK_LEASE_SECONDS is 20"),
        ({"silent_after_seconds": 20.0}, "and POTLUCK_SILENT_AFTER_SECONDS is 20"),
        # One that is lost must be known as silent, or it is given the same work anew.
        ({"silent_after_seconds": 90.0}, "SILENT_AFTER_SECONDS is 90, and POTLUCK_LEASE_SECONDS"),
        # Who leads must be able to go on leading.
        ({"leader_renew_seconds": 4.0}, "LEADER_RENEW_SECONDS is 4, and POTLUCK_LEADER_SECONDS"),
    ],
)
def test_times_that_contradict_each_other_are_refused(
    tmp_path: Path, times: dict[str, float], setting: str
) -> None:
    with pytest.raises(BadSettings, match=setting):
        read_settings({"data_directory": tmp_path, **times}, {})


def test_times_in_their_order_are_fine(tmp_path: Path) -> None:
    times = {"heartbeat_seconds": 1.0, "silent_after_seconds": 2.0, "lease_seconds": 3.0}
    assert read_settings({"data_directory": tmp_path, **times}, {}).lease_seconds == 3.0


def test_a_misspelt_variable_is_noticed_and_one_of_another_part_is_not() -> None:
    wrong = {"POTLUCK_ALERT_URL": "", "POTLUCK_LOGLEVEL": "", "POTLUCK_ALRT_URLS": "", "PATH": ""}
    assert find_misspelt(ServerSettings, "POTLUCK_", wrong) == {
        "POTLUCK_ALERT_URL": "POTLUCK_ALERT_URLS",
        "POTLUCK_LOGLEVEL": "POTLUCK_LOG_LEVEL",
        "POTLUCK_ALRT_URLS": "POTLUCK_ALERT_URLS",
    }
    pages = " ".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    documented = dict.fromkeys(re.findall(r"POTLUCK_[A-Z_]*[A-Z]", pages), "")
    assert len(documented) > 200 and not find_misspelt(ServerSettings, "POTLUCK_", documented)
