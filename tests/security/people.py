"""Accounts with everything that an account can have, and the credentials that come with them."""

import hashlib
import itertools
import time
from typing import Any

import msgspec

from potluck.model.account import SCOPES, Credential, Scope
from potluck.wire import routes
from potluck.wire.signing.device_statement import statement_digest
from potluck.wire.signing.signature import sign
from potluck.wire.volumes import VolumeFile, VolumeManifest
from tests.processes import Api, ServerProcess, await_true
from tests.server.flow.pool import description
from tests.wallets import Wallet

KEY_SCOPES = sorted(SCOPES[Credential.KEY])
SCRIPT = {"kind": "script", "filename": "a.py", "source": "print(1)"}
# It waits: no machine here has so much memory, so nobody but a caller changes it.
TASK = {"spec": SCRIPT, "requirements": {"memory_bytes": 2**50}}
# Nobody listens there.
WEBHOOK = {"url": "http://127.0.0.1:9/hook", "kinds": ["task.finished"]}
_numbers = itertools.count(1)


class Person:
    """A wallet that has signed in and is, for now, consumer and provider: it has one of each."""

    def __init__(self, server: ServerProcess, name: str) -> None:
        self.server = server
        self.wallet = Wallet(f"{name} {next(_numbers)}")
        tokens = self.wallet.sign_in(server.url)
        self.account_id: str = tokens["account_id"]
        self.token: str = tokens["access_token"]
        self.api = server.client(self.token)
        roles = {"roles": ["consumer", "provider"]}
        assert self.api.put(routes.CHOOSE_ROLES.path, roles)["id"] == self.account_id
        # Whom it takes no tasks from, which is for nobody else to know.
        self.denied = Wallet(f"denied {next(_numbers)}").address
        self.node_key = self.new_node_key()
        self.node_id, self.device_id = self._register()
        self.keys = {scope: self.new_key(scope)["secret"] for scope in KEY_SCOPES}
        # What calls are made about: not what the person itself comes in with.
        self.objects: dict[str, str] = {
            "task_id": self.new_task(),
            "session_id": self.new_session(),
            "key_id": self.new_key(Scope.POOL_READ)["key"]["id"],
            "node_key_id": self.new_node_key_id(Wallet(f"spare {next(_numbers)}")),
            "node_id": self.node_id,
            "device_id": self.device_id,
            "account_id": self.account_id,
            "upload_id": self.new_upload(b"under way")["upload_id"],
            "sha256": self.new_blob(self.account_id.encode()),
            "webhook_id": self.new_webhook(),
            "volume_id": self.new_volume(),
        }

    def be(self, admin: Api, *roles: str) -> "Person":
        """What an admin makes of it."""
        path = routes.SET_ROLES.url(account_id=self.account_id)
        response = admin.call("PUT", path, msgspec.json.encode({"roles": roles}))
        assert response.status == 204, response.data
        return self

    def suspended(self, admin: Api) -> "Person":
        path = routes.SUSPEND_ACCOUNT.url(account_id=self.account_id)
        assert admin.call("POST", path, b'{"reason": "a test"}').status == 204
        return self

    def new_task(self) -> str:
        task_id: str = self.api.post(routes.SUBMIT_TASK.path, TASK)["id"]
        return task_id

    def new_upload(self, data: bytes) -> Any:
        blob = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        return self.api.post(routes.BEGIN_UPLOAD.path, {"blob": blob})

    def new_volume(self) -> str:
        files = (VolumeFile(self.account_id, False, ()),)
        data = VolumeManifest((), files).encode()
        self.manifest = {"sha256": self.new_blob(data), "size_bytes": len(data)}
        body = {"name": "a-test", "manifest": self.manifest}
        volume_id: str = self.api.post(routes.PUT_VOLUME.path, body)["volume"]["id"]
        return volume_id

    def new_blob(self, data: bytes) -> str:
        """Nobody else has the same."""
        upload_id = self.new_upload(data)["upload_id"]
        path = routes.PUT_PART.url(upload_id=upload_id, number="0")
        self.api.call("PUT", path, data, Content_Type="application/octet-stream")
        path = routes.FINISH_UPLOAD.url(upload_id=upload_id)
        await_true(lambda: self.api.call("POST", path).json()["complete"], "it is put together")
        return hashlib.sha256(data).hexdigest()

    def new_webhook(self) -> str:
        webhook_id: str = self.api.post(routes.MAKE_WEBHOOK.path, WEBHOOK)["webhook"]["id"]
        return webhook_id

    def new_session(self) -> str:
        before = self.sessions()
        self.wallet.sign_in(self.server.url)
        (session_id,) = self.sessions() - before
        return session_id

    def sessions(self) -> set[str]:
        return {session["id"] for session in self.api.get(routes.LIST_SESSIONS.path)["sessions"]}

    def new_key(self, scope: str) -> Any:
        return self.api.post(routes.MAKE_KEY.path, {"name": "a test", "scopes": [scope]})

    def new_node_key(self) -> Wallet:
        key = Wallet(f"node key {next(_numbers)}")
        self.new_node_key_id(key)
        return key

    def new_node_key_id(self, key: Wallet) -> str:
        node_key_id: str = self.wallet.authorise(self.server.url, self.token, key)["id"]
        return node_key_id

    def node_token(self) -> str:
        return self.node_key.sign_in_as_node(self.server.url)

    def _register(self) -> tuple[str, str]:
        api = self.server.client(self.node_token())
        registration = api.post(routes.REGISTER_NODE.path, self.registration())
        (device_id,) = registration["device_ids"]
        return registration["node_id"], device_id

    @property
    def uuid(self) -> str:
        """Of its device, which is nobody else's."""
        return f"GPU-{self.node_key.address[2:12]}"

    def registration(self, uuid: str = "") -> dict[str, Any]:
        """What this person's node says of itself."""
        uuid, now = uuid or self.uuid, int(time.time())
        offered = msgspec.to_builtins(description())
        offered["devices"][0]["uuid"] = uuid
        offered["devices"][0]["terms"]["deny"] = [self.denied]
        origin = self.server.client("").post(routes.CHALLENGE.path, {})["origins"][0]
        digest = statement_digest(uuid, self.node_key.address, origin, now)
        statement = {"uuid": uuid, "origin": origin, "stated_at": now}
        signed = {**statement, "signature": sign(self.node_key.key, digest)}
        return {"description": offered, "statements": [signed]}
