"""Wallets for tests: a key from a name, and what its owner does with it."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import urllib3

from potluck.wire import routes
from potluck.wire.sign_in import SignIn, write
from potluck.wire.signature import address_of, sign, text_digest


class Wallet:
    """The same name is the same wallet in every run."""

    def __init__(self, name: str) -> None:
        self.key = hashlib.sha256(f"a test wallet: {name}".encode()).digest()
        self.address = address_of(self.key)

    def sign_text(self, text: str) -> str:
        return sign(self.key, text_digest(text))

    def message(self, challenge: dict[str, Any], **changes: Any) -> str:
        """The EIP-4361 message that answers a challenge."""
        origin = challenge["origins"][0]
        said = {
            "domain": origin.partition("://")[2],
            "address": self.address,
            "uri": origin,
            "version": "1",
            "chain_id": challenge["chain_ids"][0],
            "nonce": challenge["nonce"],
            "issued_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        return write(SignIn(**{**said, **changes}))

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


def _post(url: str, value: Any) -> Any:
    return urllib3.request("POST", url, json=value, retries=False, timeout=30).json()
