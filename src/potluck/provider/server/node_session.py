"""Signs in with the node key: a token for a few minutes, renewed before it expires.

A key that the server rejects was revoked or has expired. Retrying would not help, so the provider
stops with that error.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import TypeVar

import aiohttp

from potluck.model.error import NodeKeyRefused, NotSignedIn
from potluck.model.ids import AccountId
from potluck.provider.server.http import Exchange, ServerRequest
from potluck.provider.server.node_key import NodeKey
from potluck.wire import routes
from potluck.wire.codec import encode_json
from potluck.wire.identity import Challenge, NodeLogin, NodeToken
from potluck.wire.routes import Route
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT, sign_in_text

T = TypeVar("T")

# The next token is fetched after this share of a token's life.
_USED_UP = 0.8


class NodeSession:
    """Provides the current token; concurrent callers share one sign-in."""

    def __init__(self, exchange: Exchange, key: NodeKey, patience: aiohttp.ClientTimeout) -> None:
        self._exchange = exchange
        self._key = key
        self._patience = patience
        self._signing_in = asyncio.Lock()
        self._token: NodeToken | None = None
        self._renew_at = 0.0

    async def token(self, refused: str | None = None) -> str:
        """A token other than the refused one. Raises NodeKeyRefused if the key is rejected."""
        async with self._signing_in:
            token = self._token
            is_due = time.monotonic() >= self._renew_at
            if token is None or is_due or token.access_token == refused:
                token = await self._sign_in()
            return token.access_token

    @property
    def account_id(self) -> AccountId:
        """The account that the key belongs to."""
        assert self._token is not None, "the first call signs in"
        return self._token.account_id

    async def _sign_in(self) -> NodeToken:
        try:
            token = await self._try()
        except NotSignedIn:  # the challenge may have been too old
            try:
                token = await self._try()
            except NotSignedIn as error:
                raise _refused(self._key, self._exchange.url) from error
        self._token = token
        self._renew_at = time.monotonic() + token.expires_in * _USED_UP
        return token

    async def _try(self) -> NodeToken:
        challenge = await self._send(routes.CHALLENGE, b"", Challenge)
        text = sign_in_text(
            self._exchange.url, challenge, self._key.address, NODE_STATEMENT, datetime.now(UTC)
        )
        login = NodeLogin(text, self._key.sign_text(text))
        return await self._send(routes.NODE_LOGIN, encode_json(login), NodeToken)

    async def _send(self, route: Route, body: bytes, kind: type[T]) -> T:
        return await self._exchange.send(
            ServerRequest(route, route.path, body, self._patience), kind
        )


def _refused(key: NodeKey, url: str) -> NodeKeyRefused:
    return NodeKeyRefused(
        f"The server at {url} rejects this machine's node key {key.address}:"
        " it was revoked or has expired.",
        f"Authorise it again: potluck provide {url} --authorise"
        " (and check that this machine's clock is right).",
    )
