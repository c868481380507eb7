"""A contract wallet signs in at a real server, which asks a real chain."""

from collections.abc import Iterator

import pytest

from potluck.wire import routes
from tests.chain.anvil import Anvil
from tests.chain.contracts import YES, owned_by
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

OWNER = Wallet("owner of a contract")


@pytest.fixture(scope="module")
def anybody(chain: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    # Chain 1 may be named too, but nobody told the server where to ask it.
    environment = {
        "POTLUCK_CHAIN_IDS": f"{chain.chain_id},1",
        "POTLUCK_CHAIN_RPC_URLS": f"{chain.chain_id}={chain.url}",
    }
    with ServerProcess(tmp_path_factory.mktemp("chain"), 0, **environment) as server:
        yield server.client("")


def sign_in(api: Api, address: str, signer: Wallet, **changes: object) -> tuple[int, str]:
    challenge = api.post(routes.CHALLENGE.path, {})
    message = signer.message(challenge, address=address, **changes)
    login = {"message": message, "signature": signer.sign_text(message)}
    response = api.post(routes.LOGIN.path, login)
    return response.get("status", 201), response.get("address", response.get("code"))


def test_the_owner_of_a_contract_signs_in_as_the_contract(chain: Anvil, anybody: Api) -> None:
    wallet = chain.deploy(owned_by(OWNER.address))
    assert sign_in(anybody, wallet, OWNER) == (201, wallet)


def test_other_signers_are_refused(chain: Anvil, anybody: Api) -> None:
    wallet, refusal = chain.deploy(owned_by(OWNER.address)), (401, "not_signed_in")
    assert sign_in(anybody, wallet, Wallet("a stranger")) == refusal
    assert sign_in(anybody, "0x000000000000000000000000000000000000dEaD", OWNER) == refusal


@pytest.mark.parametrize("chain_id", [1, 10])
def test_a_contract_of_another_chain_is_unknown(chain: Anvil, anybody: Api, chain_id: int) -> None:
    """This one says yes to all, so that nothing but the chain is wrong."""
    wallet = chain.deploy(YES)
    assert sign_in(anybody, wallet, OWNER) == (201, wallet)
    assert sign_in(anybody, wallet, OWNER, chain_id=chain_id) == (401, "not_signed_in")
