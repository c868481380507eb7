"""Leaves a pool for good: the server revokes this machine's key, and local data is deleted.

The owner's file stays, for a later return.
"""

import shutil
from contextlib import suppress
from pathlib import Path

import aiohttp

from potluck.model.error import NodeKeyRefused, NotFound, PotluckError
from potluck.provider.data_directory import (
    attempts_directory,
    forget_node_id,
    known_urls,
    load_node_id,
    lock_directory,
)
from potluck.provider.server.http import Exchange, ServerRequest, open_session
from potluck.provider.server.node_key import forget_delegation, forget_key, load_key
from potluck.provider.server.node_session import NodeSession
from potluck.wire import routes
from potluck.wire.codec import encode_json
from potluck.wire.own_machines import LeaveNode
from potluck.wire.signing.sign_in_answer import origin_of

_PATIENCE_SECONDS = 10.0


async def leave_for_good(
    data_directory: Path, url: str, ca_file: Path | None = None, is_anyway: bool = False
) -> None:
    """For a stopped provider. Deletes nothing unless the server confirms, or `is_anyway`."""
    if load_node_id(data_directory, url) is None:
        urls = ", ".join(known_urls(data_directory)) or "none"
        raise NotFound(f"{data_directory} is not in the pool at {url}.", f"It is in: {urls}.")
    with lock_directory(data_directory):
        try:
            await _leave_pool(data_directory, url, ca_file)
        except PotluckError as error:
            if not is_anyway:
                raise type(error)(
                    f"{error.detail} Nothing was deleted.",
                    "Try again when the server answers. To delete the key now, add --anyway: for"
                    " the server, it stays valid until it expires or you revoke it.",
                ) from error
        forget(data_directory, url)


def forget(data_directory: Path, url: str) -> None:
    """Deletes all data of this server; with the last server also the node key.

    The node id goes last, so that an interrupted leave can be repeated.
    """
    shutil.rmtree(attempts_directory(data_directory, url), ignore_errors=True)
    if not forget_delegation(data_directory, origin_of(url)):
        forget_key(data_directory)
        (data_directory / "wishes.json").unlink(missing_ok=True)
        for name in ("environments", "volumes"):
            shutil.rmtree(data_directory / name, ignore_errors=True)
    forget_node_id(data_directory, url)


async def _leave_pool(data_directory: Path, url: str, ca_file: Path | None) -> None:
    """A key or node that the server does not know has left already."""
    patience = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
    path = routes.LEAVE.url(node_id=load_node_id(data_directory, url) or "")
    body = encode_json(LeaveNode(is_for_good=True))
    async with open_session(url, ca_file) as session:
        exchange = Exchange(session, url)
        with suppress(NodeKeyRefused, NotFound):
            token = await NodeSession(exchange, load_key(data_directory), patience).token()
            await exchange.send(ServerRequest(routes.LEAVE, path, body, patience), object, token)
