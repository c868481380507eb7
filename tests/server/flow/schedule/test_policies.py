"""Policies are chosen by name; one that is not there is named, with those that are."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.model.error import BadSettings
from potluck.server.flow.notify import task_stream
from potluck.server.flow.schedule import explain_task
from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.schedule import ScheduleLoop
from potluck.server.policies import order_by_name, placement_by_name
from potluck.server.settings import ServerSettings
from tests.server.flow.pool import Pool

PAGE = Path(__file__).parents[4] / "docs" / "policies.md"


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_can_be_chosen(name: str) -> None:
    assert isinstance(order_by_name(name), ORDERS[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_can_be_chosen(name: str) -> None:
    assert isinstance(placement_by_name(name), PLACEMENTS[name])  # type: ignore[arg-type]


def test_the_defaults_are_there() -> None:
    fields = ServerSettings.__struct_defaults__
    assert "fair" in fields and "fragmentation" in fields
    assert "fair" in ORDERS and "fragmentation" in PLACEMENTS


def test_an_unknown_policy_is_refused_with_the_known_names() -> None:
    with pytest.raises(BadSettings, match=r"'fairest'.*fair, fcfs"):
        order_by_name("fairest")
    with pytest.raises(BadSettings, match=r"'magic'.*fragmentation"):
        placement_by_name("magic")


def install(folder: Path, module: str, code: str, entry_points: str) -> Path:
    """A folder with the module in it as an installer leaves it."""
    info = folder / "site" / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info.parent / f"{module}.py").write_text(code)
    return info.parent


@pytest.fixture
def near_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The placement of the page, in a folder as an installer leaves it."""
    _, _, text = PAGE.read_text().partition("A placement is a class with one method")
    code_blocks = re.search(r"```python\n(.*?)```.*?```toml\n(.*?)```", text, re.DOTALL)
    assert code_blocks is not None
    code, entry_point = code_blocks.groups()
    group, place = entry_point.strip().splitlines()
    toml_lines = (
        re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", group),
        place.replace('"', ""),
    )
    monkeypatch.syspath_prepend(
        str(install(tmp_path, "near_the_door", code, "\n".join(toml_lines)))
    )


@pytest.mark.usefixtures("near_the_door")
async def test_a_placement_of_ones_own_is_chosen_by_its_name(pool: Pool) -> None:
    settings = replace(pool.services.settings, placement_policy="near-the-door")
    pool.services = replace(pool.services, settings=settings)
    nodes = [
        (await pool.offer(labels=labels)).node_id
        for labels in ((), ("zone=door",), ("zone=cellar",))
    ]
    await pool.submit()
    assert [assignment.node_id for assignment in (await pool.plan()).assigned] == [nodes[1]]


MOODY = """
is_broken = True

class Moody:
    promises = False

    def within(self, task):
        return task.submitted_at

    def between(self, turn):
        if is_broken:
            raise ValueError("oops")
        return turn.task.submitted_at
"""


@pytest.fixture
def moody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points = "[potluck.order]\nmoody = moody_order:Moody\n"
    monkeypatch.syspath_prepend(str(install(tmp_path, "moody_order", MOODY, entry_points)))


@pytest.mark.usefixtures("moody")
async def test_an_exception_of_a_policy_is_shown_to_waiting_tasks_until_it_ends(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(pool.services.settings, order_policy="moody")
    pool.services = replace(pool.services, settings=settings)
    task = await pool.submit()
    loop = ScheduleLoop(pool.services, pool.leads, LeaderMemory(pool.services))
    with pytest.raises(BadSettings, match="order policy 'moody' raised ValueError: oops"):
        await loop.run_once()
    waits = (await task_stream.view(pool.services, pool.alice, task.id)).waiting
    assert waits is not None and waits.code == "scheduler_fails" and "log" in waits.sentence
    explanation = await explain_task.explain(pool.services, pool.alice, task.id)
    assert explanation.sentence == waits.sentence

    monkeypatch.setattr("moody_order.is_broken", False)
    await loop.run_once()
    waits = (await task_stream.view(pool.services, pool.alice, task.id)).waiting
    assert waits is not None and waits.code == "no_nodes"
