"""Leaving a pool for good: the server gives up this machine's key, and the machine what it kept.

The owner's file stays: whoever comes back finds the terms as they were.
"""

import shutil
from pathlib import Path

import aiohttp

from potluck.model.error import NodeKeyRefused, NotFound, PotluckError
from potluck.provider.data_directory import (
    attempts_directory,
    forget_node_id,
    hold,
    known_urls,
    load_node_id,
)
from potluck.provider.server.http import Exchange, ServerRequest
from potluck.provider.server.node_key import (
    NodeKey,
    forget_delegation,
    forget_key,
    load_key,
)
from potluck.provider.server.node_session import NodeSession
from potluck.provider.server.server_client import open_session
from potluck.wire import routes
from potluck.wire.codec import encode_json
from potluck.wire.own_machines import LeaveNode
from potluck.wire.signing.sign_in_answer import origin_of

_PATIENCE_SECONDS = 10.0


async def leave_for_good(
    data_directory: Path,
    url: str,
    ca_file: Path | None = None,
    is_anyway: bool = False,
) -> None:
    """Where no provider runs. Nothing is deleted unless the server agrees, or it is so `anyway`."""
    if load_node_id(data_directory, url) is None:
        where = ", ".join(known_urls(data_directory)) or "none"
        raise NotFound(
            f"{data_directory} is not in the pool at {url}.", f"The pools that it is in: {where}."
        )
    with hold(data_directory):
        try:
            await _say_so(data_directory, url, ca_file)
        except PotluckError as error:
            if not is_anyway:
                raise type(error)(
                    f"{error.detail} Nothing was deleted.",
                    "Try again when the server answers. To delete the key all the same, add"
                    " --anyway: the server then goes by the key's own end, or until you revoke it.",
                ) from error
        forget(data_directory, url)


def forget(data_directory: Path, url: str) -> None:
    """Deletes all that was kept for this server; with the last server also the key itself.

    The node id last: as long as it is there, whoever was interrupted can leave once more.
    """
    shutil.rmtree(attempts_directory(data_directory, url), ignore_errors=True)
    if not forget_delegation(data_directory, origin_of(url)):
        forget_key(data_directory)
        (data_directory / "wishes.json").unlink(missing_ok=True)
        shutil.rmtree(data_directory / "environments", ignore_errors=True)
    forget_node_id(data_directory, url)


async def _say_so(data_directory: Path, url: str, ca_file: Path | None) -> None:
    """A key or a node that the server does not know any more has left already."""
    key = load_key(data_directory)
    async with open_session(url, ca_file) as session:
        try:
            await _say(Exchange(session, url), key, load_node_id(data_directory, url) or "")
        except (NodeKeyRefused, NotFound):
            return


async def _say(exchange: Exchange, key: NodeKey, node_id: str) -> None:
    patience = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
    token = await NodeSession(exchange, key, patience).token()
    body = encode_json(LeaveNode(is_for_good=True))
    request = ServerRequest(routes.LEAVE, routes.LEAVE.url(node_id=node_id), body, patience)
    await exchange.send(request, object, token)
