"""EIP-1271: asks a contract wallet, on the chain that the message names, whether it signed.

One read-only call, limited in gas, time and response size; an RPC that serves a chain other than
the configured one is not trusted. Every failure counts as a no. Anyone can trigger this call with a
bad signature, so only a few run at a time.
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

_MAGIC = bytes.fromhex("1626ba7e")  # isValidSignature(bytes32,bytes), and its positive result
_GAS = "0x2dc6c0"  # three million
_SECONDS = 5.0
_MAX_RESPONSE_BYTES = 4096
_MAX_CONCURRENT = 8
# An RPC keeps its chain while it runs, but an operator may replace it.
_CHAIN_SECONDS = 600.0


class ContractWallets:
    """The contract wallets on all chains for which the operator configured an RPC."""

    def __init__(self, rpc_urls: Mapping[int, str]) -> None:
        self._rpc_urls = rpc_urls
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._verified_until: dict[int, float] = {}  # by chain whose RPC was verified to serve it

    async def accept(self, chain_id: int, address: str, digest: bytes, signature: bytes) -> bool:
        url = self._rpc_urls.get(chain_id)
        if url is None:
            return False
        import aiohttp  # a large import that few servers need

        call = {"to": address, "gas": _GAS, "data": "0x" + _encoded(digest, signature).hex()}
        try:
            # A call that gets no slot in time is refused too, instead of waiting longer.
            async with asyncio.timeout(_SECONDS), self._slots, aiohttp.ClientSession() as session:
                if not await self._serves(session, url, chain_id):
                    log.warning("the RPC serves another chain", chain_id=chain_id)
                    return False
                result = await _ask(session, url, "eth_call", [call, "latest"])
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            reason = type(error).__name__
            log.info("a contract wallet did not answer", chain_id=chain_id, reason=reason)
            return False
        return result == f"0x{_MAGIC.hex()}{'0' * 56}"

    async def _serves(self, session: "aiohttp.ClientSession", url: str, chain_id: int) -> bool:
        now = time.monotonic()
        if now < self._verified_until.get(chain_id, 0.0):
            return True
        is_match = int(await _ask(session, url, "eth_chainId", []), 16) == chain_id
        if is_match:
            self._verified_until[chain_id] = now + _CHAIN_SECONDS
        return is_match


def _encoded(digest: bytes, signature: bytes) -> bytes:
    """The call in ABI encoding: digest, offset of the bytes, their length, the bytes."""
    padding = -len(signature) % 32
    head = digest + (64).to_bytes(32) + len(signature).to_bytes(32)
    return _MAGIC + head + signature + bytes(padding)


async def _ask(
    session: "aiohttp.ClientSession", url: str, method: str, params: list[object]
) -> str:
    """Returns the result as hexadecimal text; raises ValueError for anything else."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with session.post(url, json=body, allow_redirects=False) as response:
        if response.status != 200:
            raise ValueError(f"{method}: status {response.status}")
        data = await _read(response.content)
    try:
        reply = msgspec.json.decode(data, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise ValueError(f"{method}: not JSON") from error
    result = reply.get("result")
    if "error" in reply or not isinstance(result, str) or not result.startswith("0x"):
        raise ValueError(f"{method}: no result")
    return result


async def _read(content: "aiohttp.StreamReader") -> bytes:
    """Reads a short response completely, in any number of chunks."""
    data = b""
    while piece := await content.read(_MAX_RESPONSE_BYTES):
        data += piece
        if len(data) > _MAX_RESPONSE_BYTES:
            raise ValueError("the response is too long")
    return data
