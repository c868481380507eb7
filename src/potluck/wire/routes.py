"""Every path of the API. The server mounts them, the clients fill them in."""

from typing import NamedTuple

DEFAULT_PORT = 8470
PREFIX = "/v1/"  # of the API; pages and probes have no version


class Route(NamedTuple):
    method: str
    path: str

    def url(self, **names: str) -> str:
        """The path with its parameters filled in."""
        return self.path.format(**names)

    @property
    def template(self) -> str:
        """The path in the syntax of the server framework."""
        return self.path.replace("}", ":str}")


HEALTHZ = Route("GET", "/healthz")
READYZ = Route("GET", "/readyz")
METRICS = Route("GET", "/metrics")
PACKAGE = Route("GET", "/v1/package")
PACKAGE_FILE = Route("GET", "/v1/package/{file}")

CA_CERTIFICATE = Route("GET", "/v1/ca")
CHALLENGE = Route("POST", "/v1/auth/challenge")
LOGIN = Route("POST", "/v1/auth/login")
REFRESH = Route("POST", "/v1/auth/refresh")
LOGOUT = Route("POST", "/v1/auth/logout")
NODE_LOGIN = Route("POST", "/v1/auth/node")
ASK_FOR_TERMINAL = Route("POST", "/v1/auth/device")
TERMINAL_TOKEN = Route("POST", "/v1/auth/device/token")
SHOW_TERMINAL = Route("GET", "/v1/auth/device/{user_code}")
DRAFT_TERMINAL = Route("POST", "/v1/auth/device/{user_code}/draft")
APPROVE_TERMINAL = Route("POST", "/v1/auth/device/{user_code}/approve")
DENY_TERMINAL = Route("POST", "/v1/auth/device/{user_code}/deny")

ME = Route("GET", "/v1/me")
CHOOSE_ROLES = Route("PUT", "/v1/me/roles")
LIST_SESSIONS = Route("GET", "/v1/me/sessions")
END_SESSION = Route("DELETE", "/v1/me/sessions/{session_id}")
LIST_KEYS = Route("GET", "/v1/me/keys")
MAKE_KEY = Route("POST", "/v1/me/keys")
REVOKE_KEY = Route("DELETE", "/v1/me/keys/{key_id}")
REVOKE_KEYS = Route("DELETE", "/v1/me/keys")
LIST_NODE_KEYS = Route("GET", "/v1/me/node-keys")
AUTHORISE_NODE_KEY = Route("POST", "/v1/me/node-keys")
REVOKE_NODE_KEY = Route("DELETE", "/v1/me/node-keys/{node_key_id}")
EARNINGS = Route("GET", "/v1/me/earnings")
LEDGER = Route("GET", "/v1/me/ledger")
LEDGER_SUMMARY = Route("GET", "/v1/me/ledger/summary")

LIST_RECEIPTS = Route("GET", "/v1/me/receipts")
EXPORT_RECEIPTS = Route("GET", "/v1/me/receipts/export")
END_RECEIPTS = Route("GET", "/v1/me/receipts/export/end")
SIGNING_ADDRESS = Route("GET", "/v1/signing-address")

LIST_ACCOUNTS = Route("GET", "/v1/accounts")
SET_ROLES = Route("PUT", "/v1/accounts/{account_id}/roles")
SUSPEND_ACCOUNT = Route("POST", "/v1/accounts/{account_id}/suspend")
RESUME_ACCOUNT = Route("POST", "/v1/accounts/{account_id}/resume")
SET_QUOTA = Route("PUT", "/v1/accounts/{account_id}/quota")
GRANT_CREDIT = Route("POST", "/v1/accounts/{account_id}/grants")
SET_LABEL = Route("PUT", "/v1/accounts/{account_id}/label")
TAKE_CREDIT = Route("POST", "/v1/accounts/{account_id}/takes")
POOL_STATUS = Route("GET", "/v1/status")
LIST_POOL_TASKS = Route("GET", "/v1/pool/tasks")
CORDON_NODE = Route("POST", "/v1/nodes/{node_id}/cordon")
UNCORDON_NODE = Route("POST", "/v1/nodes/{node_id}/uncordon")
LIST_INVITES = Route("GET", "/v1/invites")
MAKE_INVITE = Route("POST", "/v1/invites")
REVOKE_INVITE = Route("DELETE", "/v1/invites/{invite_id}")
AUDIT = Route("GET", "/v1/audit")
VERIFY_AUDIT = Route("POST", "/v1/audit/verify")
LIST_ALERTS = Route("GET", "/v1/alerts")
TEST_ALERTS = Route("POST", "/v1/alerts/test")
SILENCE_ALERTS = Route("POST", "/v1/alerts/silences")
END_SILENCE = Route("DELETE", "/v1/alerts/silences/{silence_id}")
LIST_ERRORS = Route("GET", "/v1/errors")
ROTATE_KEY = Route("POST", "/v1/encryption/rotate")

SUBMIT_TASK = Route("POST", "/v1/tasks")
LIST_TASKS = Route("GET", "/v1/tasks")
GET_TASK = Route("GET", "/v1/tasks/{task_id}")
CANCEL_TASK = Route("POST", "/v1/tasks/{task_id}/cancel")
RETRY_TASK = Route("POST", "/v1/tasks/{task_id}/retry")
FOLLOW_TASK = Route("GET", "/v1/tasks/{task_id}/follow")
LIST_ATTEMPTS = Route("GET", "/v1/tasks/{task_id}/attempts")
FAILED_ITEMS = Route("GET", "/v1/tasks/{task_id}/items")
EXPLAIN_TASK = Route("GET", "/v1/tasks/{task_id}/explain")
TASK_LOGS = Route("GET", "/v1/tasks/{task_id}/logs")
TASK_FILES = Route("GET", "/v1/tasks/{task_id}/files")
SUBMIT_TASKS = Route("POST", "/v1/tasks/batch")
ESTIMATE_TASK = Route("POST", "/v1/tasks/estimate")
ASK_RESULTS = Route("POST", "/v1/results")

LIST_EVENTS = Route("GET", "/v1/events")
FOLLOW_EVENTS = Route("GET", "/v1/events/follow")

LIST_WEBHOOKS = Route("GET", "/v1/webhooks")
MAKE_WEBHOOK = Route("POST", "/v1/webhooks")
GET_WEBHOOK = Route("GET", "/v1/webhooks/{webhook_id}")
CHANGE_WEBHOOK = Route("PATCH", "/v1/webhooks/{webhook_id}")
REMOVE_WEBHOOK = Route("DELETE", "/v1/webhooks/{webhook_id}")
TEST_WEBHOOK = Route("POST", "/v1/webhooks/{webhook_id}/test")
ROTATE_WEBHOOK = Route("POST", "/v1/webhooks/{webhook_id}/rotate")
PAUSE_WEBHOOK = Route("POST", "/v1/webhooks/{webhook_id}/pause")
RESUME_WEBHOOK = Route("POST", "/v1/webhooks/{webhook_id}/resume")
LIST_DELIVERIES = Route("GET", "/v1/webhooks/{webhook_id}/deliveries")
REDELIVER = Route("POST", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver")

BEGIN_UPLOAD = Route("POST", "/v1/uploads")
PUT_PART = Route("PUT", "/v1/uploads/{upload_id}/parts/{number}")
FINISH_UPLOAD = Route("POST", "/v1/uploads/{upload_id}/finish")
GET_BLOB = Route("GET", "/v1/blobs/{sha256}")

SHOW_POOL = Route("GET", "/v1/pool")
LIST_DEVICES = Route("GET", "/v1/devices")
DEVICE_HISTORY = Route("GET", "/v1/devices/{device_id}/history")
DEVICE_PRICES = Route("GET", "/v1/devices/{device_id}/prices")
SUGGEST_PRICE = Route("GET", "/v1/devices/{device_id}/suggestion")
LIST_PRICES = Route("GET", "/v1/prices")
LIST_NODES = Route("GET", "/v1/nodes")
GET_NODE = Route("GET", "/v1/nodes/{node_id}")
CHANGE_TERMS = Route("PATCH", "/v1/nodes/{node_id}/terms")
GIVE_ORDER = Route("POST", "/v1/nodes/{node_id}/orders")
EXPLAIN_NODE = Route("GET", "/v1/nodes/{node_id}/explain")
REGISTER_NODE = Route("POST", "/v1/nodes")
ACQUIRE_LEASES = Route("POST", "/v1/nodes/{node_id}/leases")
HEARTBEAT = Route("POST", "/v1/nodes/{node_id}/heartbeats")
REPORT = Route("POST", "/v1/nodes/{node_id}/reports")
APPEND_LOG = Route("POST", "/v1/nodes/{node_id}/logs")
ANSWER_CHALLENGES = Route("POST", "/v1/nodes/{node_id}/challenges")
LEAVE = Route("POST", "/v1/nodes/{node_id}/leave")
BEGIN_NODE_UPLOAD = Route("POST", "/v1/nodes/{node_id}/uploads")
PUT_NODE_PART = Route("PUT", "/v1/nodes/{node_id}/uploads/{upload_id}/parts/{number}")
FINISH_NODE_UPLOAD = Route("POST", "/v1/nodes/{node_id}/uploads/{upload_id}/finish")
ADD_FILES = Route("POST", "/v1/nodes/{node_id}/files")
KEEP_CHECKPOINT = Route("POST", "/v1/nodes/{node_id}/checkpoints")
GET_INPUT = Route("GET", "/v1/nodes/{node_id}/blobs/{sha256}")
