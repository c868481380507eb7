"""Signed in with the node key: a token of a few minutes, and the next one before it ends.

A key that the server does not take any more was revoked, or its time is over. Trying again would
not help, so that is said once, and the provider ends.
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

# Of a token's life: the next one is fetched when so much of it is over.
_USED_UP = 0.8


class NodeSession:
    """Whoever needs a token asks here; however many ask, one signs in."""

    def __init__(self, exchange: Exchange, key: NodeKey, patience: aiohttp.ClientTimeout) -> None:
        self._exchange = exchange
        self._key = key
        self._patience = patience
        self._signing_in = asyncio.Lock()
        self._token: NodeToken | None = None
        self._renew_at = 0.0

    async def token(self, refused: str | None = None) -> str:
        """A token other than the refused one. Raises NodeKeyRefused where there is none to have."""
        async with self._signing_in:
            known = self._token
            is_over = time.monotonic() >= self._renew_at
            if known is None or is_over or known.access_token == refused:
                known = await self._sign_in()
            return known.access_token

    @property
    def account_id(self) -> AccountId:
        """Whom the key works for."""
        assert self._token is not None, "the first call signs in"
        return self._token.account_id

    async def _sign_in(self) -> NodeToken:
        try:
            token = await self._try()
        except NotSignedIn:
            token = await self._try_again()
        self._token = token
        self._renew_at = time.monotonic() + token.expires_in * _USED_UP
        return token

    async def _try_again(self) -> NodeToken:
        """With a challenge of its own: what was wrong may have been the first one's age."""
        try:
            return await self._try()
        except NotSignedIn as error:
            raise _refused(self._key, self._exchange.url) from error

    async def _try(self) -> NodeToken:
        asked = await self._send(routes.CHALLENGE, b"", Challenge)
        text = sign_in_text(
            self._exchange.url, asked, self._key.address, NODE_STATEMENT, datetime.now(UTC)
        )
        login = NodeLogin(text, self._key.sign_text(text))
        return await self._send(routes.NODE_LOGIN, encode_json(login), NodeToken)

    async def _send(self, route: Route, body: bytes, kind: type[T]) -> T:
        return await self._exchange.send(
            ServerRequest(route, route.path, body, self._patience), kind
        )


def _refused(key: NodeKey, url: str) -> NodeKeyRefused:
    return NodeKeyRefused(
        f"The server at {url} does not take this machine's node key {key.address}:"
        " it was revoked, or its time is over.",
        f"Authorise it again: potluck provide {url} --authorise"
        " (and see that this machine's clock is right).",
    )
