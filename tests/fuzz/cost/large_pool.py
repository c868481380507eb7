"""A pool in which every request can do its worst: large nodes, a running array, a long queue."""

from typing import Any

from potluck.wire import routes
from tests.fuzz.cost.hostile_bodies import large_offer
from tests.processes import Api, ServerProcess, await_true
from tests.security.people import SCRIPT, Person


class LargePool:
    def __init__(self, server: ServerProcess, large_nodes: int) -> None:
        self.server = server
        self.person = Person(server, "hostile")
        self.person.be(server.client(), "consumer", "provider", "admin")
        self.node_api = server.client(self.person.node_token())
        for number in range(large_nodes):
            self._add_node(100 + number)
        self.lease = self._start_array()

    def _add_node(self, number: int) -> None:
        """With a node key of its own: a key is one machine."""
        person = self.person
        before, person.node_key = person.node_key, person.new_node_key()
        api = self.server.client(person.node_token())
        registration = api.post(routes.REGISTER_NODE.path, large_offer(person, number))
        assert "node_id" in registration, registration
        person.node_key = before

    def _start_array(self) -> dict[str, str]:
        """The lease of an attempt of the person's own task on its own node."""
        task = {"spec": SCRIPT, "items": 100_000, "requirements": {"device_model": "RTX 4090"}}
        task_view = self.person.api.post(routes.SUBMIT_TASK.path, task)
        assert "id" in task_view, task_view
        self.person.objects["task_id"] = task_view["id"]
        path = routes.ACQUIRE_LEASES.url(node_id=self.person.node_id)
        grants: list[Any] = await_true(
            lambda: self.node_api.post(path, {"wait_seconds": 1})["grants"], "an attempt"
        )
        return {"attempt_id": grants[0]["attempt_id"], "token": grants[0]["token"]}

    def tokens(self) -> tuple[str, str]:
        """Of a session and of a node key, both new: a request may have ended the last ones."""
        person, server = self.person, self.server
        admin: Api = server.client(server.sign_in(server.wallet))
        admin.call("POST", routes.RESUME_ACCOUNT.url(account_id=person.account_id))
        person.be(admin, "consumer", "provider", "admin")
        session = str(person.wallet.sign_in(server.url)["access_token"])
        person.wallet.authorise(server.url, session, person.node_key)
        return session, person.node_token()
