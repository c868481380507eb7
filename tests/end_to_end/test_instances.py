"""Several instances on one PostgreSQL and one Redis are one server."""

from contextlib import ExitStack
from pathlib import Path

from potluck.consumer import Patience, Potluck
from potluck.model.event import EventKind
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.events import EventView
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true
from tests.redis_server import RedisServer
from tests.server.api.webhook_receiver import hooked


def test_two_instances_share_the_work_and_one_takes_over(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url}
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        stack.enter_context(ProviderProcess(tmp_path / "p1", second, **FAST_PROVIDER))
        # Submitted here, planned by the leader, fetched there, followed anywhere.
        task_id = first.client().submit("print('hello from the other side')")
        assert second.client().finished(task_id)["state"] == "succeeded"
        first.kill()
        after = second.client().submit("print('still here')")
        assert second.client().finished(after)["state"] == "succeeded"
        await_true(lambda: second.client().get("/readyz")["parts"]["leader"] == "ok", "it leads")


def test_events_of_one_instance_reach_the_other(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """By a wake-up, and long before anybody would look by itself; and to one webhook, once."""
    shared = {
        "POTLUCK_DATABASE_URL": database_url,
        "POTLUCK_REDIS_URL": redis_url,
        "POTLUCK_FOLLOW_POLL_SECONDS": "300",
    }
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        receiver = stack.enter_context(hooked())
        patient = Patience(silence_seconds=60.0)
        first_client, second_client = (
            Potluck(first.url, first.token),
            Potluck(second.url, first.token, patient),
        )
        second_client.webhooks.add(receiver.url, kinds=[EventKind.TASK_QUEUED])
        stream = iter(second_client.events.follow("0"))
        for _ in range(2):
            task = first_client.tasks.submit(TaskRequest(ScriptSpec("s.py", "print(1)")))
            event = next(stream)
            assert isinstance(event, EventView) and event.task_id == task.id
        await_true(lambda: len(receiver.got) == 2, "the webhook is told too")


def test_a_revocation_applies_on_other_instances(
    tmp_path: Path, database_url: str, shared_redis: RedisServer, redis_url: str
) -> None:
    """The other has kept the callers. Redis brings it the word, and holds nothing of them."""
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url}
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(tmp_path / "one", 0, **shared))
        second = stack.enter_context(ServerProcess(tmp_path / "two", 0, **shared))
        for _ in range(3):
            key = first.client().post("/v1/me/keys", {"name": "ci", "scopes": ["pool:read"]})
            clients = [server.client(key["secret"]) for server in (first, second)]
            for client in clients:
                assert client.call("GET", "/v1/pool").status == 200
            shared_redis.flush()
            assert clients[1].call("GET", "/v1/pool").status == 200
            first.client().call("DELETE", f"/v1/me/keys/{key['key']['id']}")
            assert clients[0].call("GET", "/v1/pool").status == 401, "at once, where it was revoked"
            await_true(
                lambda: clients[1].call("GET", "/v1/pool").status == 401,  # noqa: B023
                "the other instance refuses it, too",
                seconds=10,
            )
