"""EIP-1271: a contract wallet is asked, on the chain that the message names, whether it signed.

One read-only call with a cap on gas, time and answer; an RPC that serves another chain than it was
configured for is not believed. Whatever goes wrong is a no. Anybody can make the server ask, with
any bad signature, so few questions are open at a time.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import structlog

if TYPE_CHECKING:
    import aiohttp

log = structlog.get_logger()

_MAGIC = bytes.fromhex("1626ba7e")  # isValidSignature(bytes32,bytes), and its yes
_GAS = "0x2dc6c0"  # three million
_SECONDS = 5.0
_LONGEST_ANSWER = 4096
_AT_ONCE = 8
# An RPC does not become another chain's while it runs, but an operator may put another one there.
_CHAIN_SECONDS = 600.0


class ContractWallets:
    """Those of all chains that the operator said where to ask."""

    def __init__(self, rpc_urls: Mapping[int, str]) -> None:
        self._rpc_urls = rpc_urls
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._known_until: dict[int, float] = {}  # chains whose RPC was seen to serve them

    async def accept(self, chain_id: int, address: str, digest: bytes, signature: bytes) -> bool:
        url = self._rpc_urls.get(chain_id)
        if url is None:
            return False
        import aiohttp  # large, and few servers ask a chain

        call = {"to": address, "gas": _GAS, "data": "0x" + _encoded(digest, signature).hex()}
        try:
            # Who does not get a turn in time is refused too, rather than kept waiting.
            async with asyncio.timeout(_SECONDS), self._turns, aiohttp.ClientSession() as session:
                if not await self._serves(session, url, chain_id):
                    log.warning("the RPC serves another chain", chain_id=chain_id)
                    return False
                answer = await _ask(session, url, "eth_call", [call, "latest"])
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            reason = type(error).__name__
            log.info("no answer from a contract wallet", chain_id=chain_id, reason=reason)
            return False
        return answer == f"0x{_MAGIC.hex()}{'0' * 56}"

    async def _serves(self, session: "aiohttp.ClientSession", url: str, chain_id: int) -> bool:
        now = time.monotonic()
        if now < self._known_until.get(chain_id, 0.0):
            return True
        is_so = int(await _ask(session, url, "eth_chainId", []), 16) == chain_id
        if is_so:
            self._known_until[chain_id] = now + _CHAIN_SECONDS
        return is_so


def _encoded(digest: bytes, signature: bytes) -> bytes:
    """The call as the ABI has it: the digest, where the bytes begin, their length, the bytes."""
    padding = -len(signature) % 32
    head = digest + (64).to_bytes(32) + len(signature).to_bytes(32)
    return _MAGIC + head + signature + bytes(padding)


async def _ask(
    session: "aiohttp.ClientSession", url: str, method: str, params: list[object]
) -> str:
    """The result as hexadecimal text; ValueError for everything else."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with session.post(url, json=body, allow_redirects=False) as response:
        if response.status != 200:
            raise ValueError(f"{method}: status {response.status}")
        data = await _read(response.content)
    try:
        said = msgspec.json.decode(data, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise ValueError(f"{method}: not JSON") from error
    result = said.get("result")
    if "error" in said or not isinstance(result, str) or not result.startswith("0x"):
        raise ValueError(f"{method}: no result")
    return result


async def _read(content: "aiohttp.StreamReader") -> bytes:
    """All of a short answer, in however many pieces it comes."""
    data = b""
    while piece := await content.read(_LONGEST_ANSWER):
        data += piece
        if len(data) > _LONGEST_ANSWER:
            raise ValueError("the answer is too long")
    return data
