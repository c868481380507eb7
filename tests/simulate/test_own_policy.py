"""The worked example of a policy of one's own, found as an installed package is."""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from potluck.decide.account import SchedulerAccount
from potluck.decide.order.interface import Turn
from tests.decide.builders import ALICE, task
from tests.processes import potluck

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy"
TRACE = """timestamp,duration,num_gpus,cluster
2020-01-01 {hour}:00:00,600,2,a
2020-01-01 {hour}:00:01,600,1,b
2020-01-01 {hour}:00:01,600,2,c
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package in it as an installer leaves it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "site"
    info = folder / f"potluck_night_shift-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
        for group, names in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    (folder / "night_shift.py").write_text((EXAMPLE / "night_shift.py").read_text())
    return folder


def replay(trace: Path, policy: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = potluck(
        *("simulate", "completion", "--trace", trace, "--gpus", "2", "--gpus-per-node", "2"),
        *("--policy", policy, "--json"),
    )
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONPATH": path})


def test_an_installed_policy_is_chosen_by_its_name(tmp_path: Path, installed: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE.format(hour="12"))
    summary = json.loads(replay(trace, "night-shift", installed).stdout)
    assert summary["policy"] == "night-shift" and summary["jobs"] == 3


def test_an_unknown_policy_is_refused_with_the_available_ones(
    tmp_path: Path, installed: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE.format(hour="12"))
    process = replay(trace, "day-shift", installed)
    assert process.returncode != 0
    assert b"night-shift" in process.stderr and b"shortest" in process.stderr


def test_an_exception_of_a_policy_is_attributed_to_it(tmp_path: Path, installed: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE.format(hour="12"))
    policy = installed / "night_shift.py"
    policy.write_text(policy.read_text().replace("hour_of_day = ", "hour_of_day = 1 / 0 + "))
    process = replay(trace, "night-shift", installed)
    assert process.returncode == 78
    assert b"'night-shift' raised ZeroDivisionError" in process.stderr
    assert b"mistake of ours" not in process.stderr


def test_the_example_policy_orders_by_the_hour(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    from night_shift import NightShift  # type: ignore[import-not-found]

    policy = NightShift()
    for hour, first in ((12, "small"), (23, "large")):
        now = hour * 3600.0
        turns = [
            Turn(task("small", submitted_at=now), SchedulerAccount(ALICE), now),
            Turn(task("large", submitted_at=now, device_count=4), SchedulerAccount(ALICE), now),
        ]
        assert min(turns, key=policy.between).task.id == first
