"""Ten thousand items on five nodes, of which one is killed and one is slow; time is virtual.

The leader, the leases and the reports are the real ones. Only the nodes are simulated: what they do
takes no time, and they say how long it would have taken.
"""

import heapq
from collections import Counter

from potluck.decide.arrays.ranges import GOOD_SECONDS
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.schedule import schedule
from potluck.server.leader.memory import LeaderMemory
from potluck.wire.provider import Grant, ItemOutcome, ItemsDone, Started
from tests.server.flow.pool import Pool, done, lease_of, used

ITEMS = 10_000
ITEM_SECONDS = 0.05
SLOW = 20.0  # so many times as long
KILLED_AT = 40.0
# When the others learn of it: a lease with little patience.
LEASE_SECONDS = 10.0
PART = 100


class ArraySimulation:
    """Nodes with a speed each, and a clock that jumps from one end of a range to the next."""

    def __init__(self, pool: Pool, task_id: TaskId, item_seconds: dict[NodeId, float]) -> None:
        self.pool = pool
        self.task_id = task_id
        self.item_seconds = item_seconds
        self.killed: NodeId | None = None
        self.broken: NodeId | None = None  # every item fails on it
        self.now = 0.0
        self.accepted: Counter[int] = Counter()
        self.tried: dict[NodeId, Counter[int]] = {node_id: Counter() for node_id in item_seconds}
        self.ends: list[tuple[float, str, NodeId, Grant]] = []
        self.last_end: dict[NodeId, float] = {}
        self.longest_range = 0.0
        self._memory = LeaderMemory(pool.services)

    async def run(self, kill: NodeId | None = None) -> None:
        await self._memory.begin()
        await self._hand_out()
        while self.ends:
            self.now, _, node_id, grant = heapq.heappop(self.ends)
            if kill and self.killed is None and self.now >= KILLED_AT and node_id != kill:
                await self._kill(kill)
            if node_id != self.killed:
                await self._finish(node_id, grant)
            elif grant.items:
                await self._lose()
            await self._hand_out()

    async def _hand_out(self) -> None:
        while not (
            await schedule.schedule_once(self.pool.services, self.pool.leads, self._memory)
        ).is_complete:
            pass
        for node_id, seconds in self.item_seconds.items():
            if node_id == self.killed:
                continue
            held_leases = [lease_of(grant) for _, _, owner, grant in self.ends if owner == node_id]
            for grant in await self.pool.fetch(node_id, *held_leases):
                await self.pool.report(node_id, Started(lease_of(grant)))
                duration = seconds * _count(grant)
                self.longest_range = max(self.longest_range, duration)
                entry = (self.now + duration, grant.attempt_id, node_id, grant)
                heapq.heappush(self.ends, entry)

    async def _finish(self, node_id: NodeId, grant: Grant) -> None:
        """In parts, as a node does that runs them one after the other."""
        items = [item for part in grant.items for item in range(part.start, part.end)]
        seconds = self.item_seconds[node_id]
        antedate = """UPDATE attempts SET fetched_at = fetched_at - make_interval(secs => $2),
            started_at = started_at - make_interval(secs => $2) WHERE id = $1"""
        await self.pool.sql(antedate, grant.attempt_id, seconds * len(items))
        for start in range(0, len(items), PART):
            await self._part(node_id, grant, items[start : start + PART])
        end = done(grant, usage=used(seconds * len(items)))
        assert await self.pool.report(node_id, end) == ["accepted"]
        self.last_end[node_id] = self.now

    async def _part(self, node_id: NodeId, grant: Grant, items: list[int]) -> None:
        """Every hundredth fails; each part is sent twice, as after an answer that got lost."""
        seconds = self.item_seconds[node_id]
        outcomes = tuple(
            ItemOutcome(item, EndReason.EXIT_STATUS, seconds, 1)
            if item % 100 == 7 or node_id == self.broken
            else ItemOutcome(item, EndReason.COMPLETED, seconds, 0)
            for item in items
        )
        part = ItemsDone(lease_of(grant), outcomes)
        before = await self._outcomes()
        assert await self.pool.report(node_id, part, part) == ["accepted", "accepted"]
        assert await self._outcomes() - before == len(items)
        self.accepted.update(items)
        self.tried[node_id].update(items)

    async def _outcomes(self) -> int:
        counts = "SELECT sum(items_done) FROM attempts WHERE task_id = $1"
        outcomes: int = await self.pool.sql(counts, self.task_id)
        return outcomes

    async def _kill(self, node_id: NodeId) -> None:
        """In the middle of a range, a part of which it has told."""
        self.killed = node_id
        (entry,) = [entry for entry in self.ends if entry[2] == node_id]
        first_items = [entry[3].items[0].start, entry[3].items[0].start + 1]
        await self._part(node_id, entry[3], first_items)
        self.ends.remove(entry)
        heapq.heapify(self.ends)
        heapq.heappush(self.ends, (self.now + LEASE_SECONDS, "", node_id, entry[3]))

    async def _lose(self) -> None:
        expire_leases = "UPDATE attempts SET lease_expires_at = now() WHERE node_id = $1"
        await self.pool.sql(expire_leases, self.killed)
        await self.pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", self.killed)
        assert await expire.expire_once(self.pool.services, self.pool.leads) == 1


def _count(grant: Grant) -> int:
    return sum(map(len, grant.items))


async def test_each_of_ten_thousand_items_has_one_outcome_and_the_slow_node_holds_nobody_up(
    pool: Pool,
) -> None:
    nodes = [(await pool.offer()).node_id for _ in range(5)]
    task = await pool.submit(items=ITEMS, allow_failures=ITEMS // 100)
    speeds = dict.fromkeys(nodes, ITEM_SECONDS) | {nodes[4]: ITEM_SECONDS * SLOW}
    simulation = ArraySimulation(pool, task.id, speeds)
    await simulation.run(kill=nodes[1])
    after = await pool.task(task.id)
    assert after.state is TaskState.SUCCEEDED and after.items is not None
    assert (after.items.succeeded, after.items.failed) == (ITEMS - ITEMS // 100, ITEMS // 100)
    assert set(simulation.accepted.values()) == {1} and len(simulation.accepted) == ITEMS
    assert simulation.longest_range <= 10.0
    # What the killed node had half done is done again; nobody waits for a range of the slow one.
    assert simulation.now <= _soonest() + GOOD_SECONDS
    await pool.check()


async def test_a_node_on_which_everything_fails_at_once_gets_through_little_of_an_array(
    pool: Pool,
) -> None:
    nodes = [(await pool.offer()).node_id for _ in range(3)]
    task = await pool.submit(items=1_000, allow_failures=10, max_attempts=2)
    simulation = ArraySimulation(
        pool, task.id, dict.fromkeys(nodes, ITEM_SECONDS) | {nodes[0]: 0.001}
    )
    simulation.broken = nodes[0]
    await simulation.run()
    after = await pool.task(task.id)
    assert after.state is TaskState.SUCCEEDED and after.items is not None
    assert after.items.failed == 10, "those that fail everywhere"
    assert max(simulation.tried[nodes[0]].values()) == 1, "what failed there is tried elsewhere"
    assert len(simulation.tried[nodes[0]]) <= 12
    await pool.check()


def _soonest() -> float:
    """Four quick nodes and a slow one, until one of the quick ones is killed."""
    slow, quick = 1 / (ITEM_SECONDS * SLOW), 1 / ITEM_SECONDS
    return KILLED_AT + (ITEMS - KILLED_AT * (4 * quick + slow)) / (3 * quick + slow)
