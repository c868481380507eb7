"""Every path of the API, once. The server mounts them, the clients fill them in."""

from typing import NamedTuple

DEFAULT_PORT = 8470


class Route(NamedTuple):
    method: str
    path: str

    def url(self, **names: str) -> str:
        """The path with its names filled in."""
        return self.path.format(**names)

    @property
    def template(self) -> str:
        """The path as the server framework wants it: every name is text."""
        return self.path.replace("}", ":str}")


HEALTHZ = Route("GET", "/healthz")
READYZ = Route("GET", "/readyz")

ME = Route("GET", "/v1/me")
ADD_ACCOUNT = Route("POST", "/v1/accounts")
GRANT_CREDIT = Route("POST", "/v1/accounts/{account_id}/grants")

SUBMIT_TASK = Route("POST", "/v1/tasks")
LIST_TASKS = Route("GET", "/v1/tasks")
GET_TASK = Route("GET", "/v1/tasks/{task_id}")
CANCEL_TASK = Route("POST", "/v1/tasks/{task_id}/cancel")
FOLLOW_TASK = Route("GET", "/v1/tasks/{task_id}/follow")
TASK_LOGS = Route("GET", "/v1/tasks/{task_id}/logs")

LIST_NODES = Route("GET", "/v1/nodes")
REGISTER_NODE = Route("POST", "/v1/nodes")
ACQUIRE_LEASES = Route("POST", "/v1/nodes/{node_id}/leases")
HEARTBEAT = Route("POST", "/v1/nodes/{node_id}/heartbeats")
REPORT = Route("POST", "/v1/nodes/{node_id}/reports")
APPEND_LOG = Route("POST", "/v1/nodes/{node_id}/logs")
LEAVE = Route("POST", "/v1/nodes/{node_id}/leave")
