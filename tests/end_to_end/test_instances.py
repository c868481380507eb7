"""Several instances on one PostgreSQL and one Redis are one server."""

from contextlib import ExitStack
from pathlib import Path

from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true


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
        await_true(lambda: second.client().call("GET", "/readyz").status == 200, "it leads")
