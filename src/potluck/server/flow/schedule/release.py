"""Release: the leader takes a device back from a call stream when others wait for it."""

from collections.abc import Sequence

from potluck.decide.arrays.stream_turns import WantedNodes, plan_releases
from potluck.server.flow.lease.standing_lease import wake_nodes
from potluck.server.services import Services
from potluck.store.tasks import streams


async def release_once(services: Services, wanted: Sequence[WantedNodes]) -> float | None:
    """Returns after how long to look again; None if no stream has a device that others want."""
    if not wanted:
        return None
    async with services.database.statement() as connection:
        standing = await streams.list_standing(connection)
    plan = plan_releases(standing, wanted, services.settings.stream_turn_seconds)
    if plan.attempts:
        async with services.database.statement() as connection:
            await streams.release(connection, plan.attempts)
        chosen = set(plan.attempts)
        await wake_nodes(
            services, [attempt.node_id for attempt in standing if attempt.id in chosen]
        )
    return plan.look_again_seconds
