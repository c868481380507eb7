"""Wallets for tests: a key from a name, and what its owner does with it."""

import hashlib
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
import urllib3

from potluck.wire import routes
from potluck.wire.identity import Delegation
from potluck.wire.signing import delegation
from potluck.wire.signing.device_statement import statement_digest
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT
from potluck.wire.signing.sign_in_message import SignIn, write
from potluck.wire.signing.signature import address_of, sign, text_digest
from tests.log_scanner import SCANNER


class Wallet:
    """The same name is the same wallet in every run."""

    def __init__(self, name: str) -> None:
        self.key = hashlib.sha256(f"a test wallet: {name}".encode()).digest()
        self.address = address_of(self.key)
        SCANNER.plant(f"the key of the wallet {name!r}", self.key.hex())

    def sign_text(self, text: str) -> str:
        return sign(self.key, text_digest(text))

    def message(self, challenge: dict[str, Any], **changes: Any) -> str:
        """The EIP-4361 message that answers a challenge."""
        origin = challenge["origins"][0]
        fields = {
            "domain": origin.partition("://")[2],
            "address": self.address,
            "uri": origin,
            "version": "1",
            "chain_id": challenge["chain_ids"][0],
            "nonce": challenge["nonce"],
            "issued_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        return write(SignIn(**{**fields, **changes}))

    def answer(self, challenge: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """The body of a login."""
        message = self.message(challenge, **changes)
        return {"message": message, "signature": self.sign_text(message)}

    def sign_in(self, url: str, invite: str | None = None) -> dict[str, Any]:
        """A session's tokens."""
        challenge = _post(url + routes.CHALLENGE.path, {})
        extra = {} if invite is None else {"invite": invite}
        tokens: dict[str, Any] = _post(url + routes.LOGIN.path, {**self.answer(challenge), **extra})
        assert "access_token" in tokens, tokens
        return tokens

    def authorise(self, url: str, token: str, node_key: "Wallet") -> dict[str, Any]:
        """Signs that this node key may work for the wallet, and says so to the server."""
        challenge = _post(url + routes.CHALLENGE.path, {})
        word = self.delegation(challenge, node_key)
        response: dict[str, Any] = _post(
            url + routes.AUTHORISE_NODE_KEY.path, {"delegation": word}, token
        )
        return response

    def delegation(
        self, challenge: dict[str, Any], node_key: "Wallet", **changes: Any
    ) -> dict[str, Any]:
        now = int(time.time())
        fields = {
            "wallet": self.address,
            "key": node_key.address,
            "origin": challenge["origins"][0],
            "scopes": ["node"],
            "issued_at": now,
            "expires_at": now + 3600,
            "nonce": challenge["nonce"],
            "signature": "0x",
            **changes,
        }
        digest = delegation.digest(msgspec.convert(fields, Delegation))
        return {**fields, "signature": sign(self.key, digest)}

    def sign_in_as_node(self, url: str) -> str:
        """The token of a node key, which this wallet is."""
        challenge = _post(url + routes.CHALLENGE.path, {})
        login = self.answer(challenge, statement=NODE_STATEMENT)
        token: str = _post(url + routes.NODE_LOGIN.path, login)["access_token"]
        return token

    def state(self, origin: str, uuid: str, **changes: Any) -> dict[str, Any]:
        """What this node key says about a device that it registers."""
        fields = {"uuid": uuid, "origin": origin, "stated_at": int(time.time()), **changes}
        digest = statement_digest(
            fields["uuid"], self.address, fields["origin"], fields["stated_at"]
        )
        return {**fields, "signature": sign(self.key, digest)}


def _post(url: str, value: Any, token: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = urllib3.request("POST", url, json=value, headers=headers, retries=False, timeout=30)
    return answer.json()
