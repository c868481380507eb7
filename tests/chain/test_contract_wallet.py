"""A contract wallet signs in by EIP-1271, through a real node; whatever is not its yes is a no."""

import asyncio
import time

import pytest
from aiohttp import web

from potluck.server.chain import contract_wallet
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.wire.signing.signature import address_of, sign, text_digest
from tests.chain import rpc
from tests.chain.anvil import Anvil
from tests.chain.contracts import WRONG, YES, owned_by
from tests.chain.rpc import LIARS, serving

OWNER, STRANGER = b"\x01" * 32, b"\x02" * 32
DIGEST = text_digest("Let me in")
SIGNATURE = bytes.fromhex(sign(OWNER, DIGEST)[2:])
NOBODY = "0x000000000000000000000000000000000000dEaD"


@pytest.fixture(scope="module")
def wallet(chain: Anvil) -> str:
    return chain.deploy(owned_by(address_of(OWNER)))


async def said_yes(chain: Anvil, address: str, signature: bytes = SIGNATURE) -> bool:
    return await ContractWallets({chain.chain_id: chain.url}).accept(
        chain.chain_id, address, DIGEST, signature
    )


async def accepted(rpc_urls: dict[int, str]) -> bool:
    return await ContractWallets(rpc_urls).accept(rpc.CHAIN_ID, NOBODY, DIGEST, SIGNATURE)


async def test_its_owner_s_signature_is_a_yes(chain: Anvil, wallet: str) -> None:
    assert await said_yes(chain, wallet)


async def test_a_longer_signature_reaches_the_contract_whole(chain: Anvil, wallet: str) -> None:
    """Contracts add what they like behind the 65 bytes; this one does not look at it."""
    for extra in (1, 31, 32, 2000):
        assert await said_yes(chain, wallet, SIGNATURE + b"\x02" * extra)


@pytest.mark.parametrize(
    "signature",
    [
        bytes.fromhex(sign(STRANGER, DIGEST)[2:]),
        bytes.fromhex(sign(OWNER, text_digest("Let me out"))[2:]),
        SIGNATURE[:-1] + bytes([55 - SIGNATURE[-1]]),
        SIGNATURE[:-1],
        bytes(65),
        b"",
    ],
)
async def test_another_signature_is_a_no(chain: Anvil, wallet: str, signature: bytes) -> None:
    assert not await said_yes(chain, wallet, signature)


@pytest.mark.parametrize("position", range(0, 65, 8))
async def test_a_changed_byte_is_a_no(chain: Anvil, wallet: str, position: int) -> None:
    changed = bytearray(SIGNATURE)
    changed[position] ^= 1
    assert not await said_yes(chain, wallet, bytes(changed))


async def test_an_address_without_code_is_a_no(chain: Anvil) -> None:
    assert not await said_yes(chain, NOBODY)


async def test_a_contract_that_says_yes_to_all_is_believed(chain: Anvil) -> None:
    """So the cases below are refused for what they say, and for nothing else."""
    assert await said_yes(chain, chain.deploy(YES))


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
async def test_a_contract_that_says_anything_else_is_not(chain: Anvil, code: bytes) -> None:
    before = time.monotonic()
    assert not await said_yes(chain, chain.deploy(code))
    # Gas is capped, so that nobody computes at the operator's cost until time is up.
    assert time.monotonic() - before < 2


async def test_a_chain_without_an_rpc_is_not_asked(chain: Anvil, wallet: str) -> None:
    assert not await ContractWallets({}).accept(chain.chain_id, wallet, DIGEST, SIGNATURE)
    assert not await ContractWallets({1: chain.url}).accept(
        chain.chain_id, wallet, DIGEST, SIGNATURE
    )


async def test_an_rpc_of_another_chain_is_not_believed(chain: Anvil, wallet: str) -> None:
    """The same wallet, the same signature, but the message names chain 1."""
    assert not await ContractWallets({1: chain.url}).accept(1, wallet, DIGEST, SIGNATURE)


@pytest.mark.parametrize("rpc_answer", [rpc.honest, rpc.in_pieces])
async def test_an_rpc_that_says_yes_is_believed(rpc_answer: rpc.Answer) -> None:
    async with serving(rpc_answer) as url:
        assert await accepted({rpc.CHAIN_ID: url})


@pytest.mark.parametrize("rpc_answer", LIARS.values(), ids=LIARS)
async def test_an_rpc_that_lies_or_hangs_is_a_no(
    rpc_answer: rpc.Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract_wallet, "_SECONDS", 0.3)
    async with serving(rpc_answer) as url:
        before = time.monotonic()
        assert not await accepted({rpc.CHAIN_ID: url})
        assert time.monotonic() - before < 2


async def test_a_redirect_is_not_followed() -> None:
    """It would lead the server to places of its own network."""
    async with serving(rpc.honest) as target:
        for status in (301, 302, 303, 307, 308):
            async with serving(rpc.sending(b"", status, Location=target)) as url:
                assert not await accepted({rpc.CHAIN_ID: url})


async def test_an_rpc_that_is_down_is_a_no() -> None:
    async with serving(rpc.honest) as url:
        pass
    assert not await accepted({rpc.CHAIN_ID: url})


async def test_the_chain_of_an_rpc_is_queried_once() -> None:
    methods: list[str] = []

    async def counting(request: web.Request, method: str) -> web.StreamResponse:
        methods.append(method)
        return await rpc.honest(request, method)

    async with serving(counting) as url:
        wallets = ContractWallets({rpc.CHAIN_ID: url})
        for _ in range(3):
            assert await wallets.accept(rpc.CHAIN_ID, NOBODY, DIGEST, SIGNATURE)
    assert methods == ["eth_chainId", *["eth_call"] * 3]


async def test_few_questions_are_open_at_a_time() -> None:
    is_open = most_open = 0

    async def thinking(request: web.Request, method: str) -> web.StreamResponse:
        nonlocal is_open, most_open
        is_open += 1
        most_open = max(most_open, is_open)
        await asyncio.sleep(0.02)
        is_open -= 1
        return await rpc.honest(request, method)

    async with serving(thinking) as url:
        wallets = ContractWallets({rpc.CHAIN_ID: url})
        questions = [wallets.accept(rpc.CHAIN_ID, NOBODY, DIGEST, SIGNATURE) for _ in range(40)]
        assert await asyncio.gather(*questions) == [True] * 40
    assert 1 < most_open <= 8
