"""Who is let in, as the public vectors of EIP-4361 have it: each file, each case, by our own code.

A vector says against what it wants to be verified: `domainBinding`, `matchNonce` and `time`. What
it does not say is not checked here; the server itself always checks all (tests/security).
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from potluck.model.error import InvalidInput, NotSignedIn
from potluck.server.auth.sign_in import is_for, is_in_force, verify_signature
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.wire.signing.sign_in_message import SignIn, moment, read, write
from potluck.wire.signing.signature import recover, text_digest
from tests.case_counts import counting_cases
from tests.chain.anvil import Anvil
from tests.chain.contracts import owned_by
from tests.public_data import shared_folder
from tests.wire.test_sign_in import fields

_AGAINST = ("domainBinding", "matchNonce", "time")


class Refused(Exception):
    """What the vector expects of a message that does not hold."""


@pytest.fixture
def vectors(request: pytest.FixtureRequest) -> Path:
    return shared_folder(request.config, "vectors/spruceid-siwe")


def load(vectors: Path, name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((vectors / f"{name}.json").read_text())
    return vector


def parts(origin: str = "http://127.0.0.1", **rpc_urls: str) -> Services:
    """A server's parts, as far as a signature is concerned."""
    urls = {int(chain_id.removeprefix("chain_")): url for chain_id, url in rpc_urls.items()}
    no_services: dict[str, Any] = dict.fromkeys(Services.__struct_fields__)
    settings = ServerSettings(data_directory=Path("unused"))
    known = {"settings": settings, "origins": (origin,), "contract_wallets": ContractWallets(urls)}
    return Services(**{**no_services, **known})


async def verify(vector: dict[str, Any]) -> None:
    """Raises InvalidInput, NotSignedIn or Refused for what does not hold."""
    values = {name: value for name, value in vector.items() if name not in _AGAINST}
    signature = values.pop("signature")
    message = write(fields(values))
    message_fields = read(message)
    if not _is_as_wanted(message_fields, vector):
        raise Refused
    await verify_signature(
        parts(), message_fields.address, text_digest(message), signature, message_fields.chain_id
    )


def _is_as_wanted(message_fields: SignIn, vector: dict[str, Any]) -> bool:
    now = moment(vector["time"]) if "time" in vector else datetime.now(UTC)
    domain, nonce = vector.get("domainBinding"), vector.get("matchNonce")
    return (
        is_in_force(message_fields, now)
        and (domain is None or is_for(parts(f"https://{domain}"), message_fields))
        and (nonce is None or message_fields.nonce == nonce)
    )


async def test_valid_vectors_are_accepted(vectors: Path, request: pytest.FixtureRequest) -> None:
    with counting_cases(request) as tally:
        for case, vector in load(vectors, "verification_positive").items():
            with tally("verification_positive", case):
                await verify(vector)


async def test_invalid_vectors_are_refused(vectors: Path, request: pytest.FixtureRequest) -> None:
    with counting_cases(request) as tally:
        for case, vector in load(vectors, "verification_negative").items():
            is_refused = pytest.raises((InvalidInput, NotSignedIn, Refused))
            with tally("verification_negative", case), is_refused:
                await verify(vector)


async def test_a_negative_vector_holds_but_for_what_it_names(vectors: Path) -> None:
    """So they are refused for their own reason: these, without what they name, are let in."""
    negative = load(vectors, "verification_negative")
    for case in ("domain binding", "custom time", "custom nonce"):
        await verify({k: v for k, v in negative[case].items() if k not in _AGAINST})
    await verify({**negative["expired message"], "time": "2020-12-31T00:00:00Z"})
    await verify({**negative["not yet valid"], "time": "2100-12-31T00:00:00Z"})


async def test_contract_wallets_are_asked_on_their_chain(
    vectors: Path, request: pytest.FixtureRequest, mainnet: Anvil
) -> None:
    """The wallets of these vectors live on Ethereum's main chain, which no test asks.

    A chain of our own has the same number, and at each wallet's address a contract that recovers
    the first 65 bytes and compares. The owner is who signed the vector, so what is shown is that
    the vector's message, digest and signature reach the contract of that address, on that chain,
    as they are: for the same contract any change is a no, and without it the wallet is nobody.
    """
    server = parts(chain_1=mainnet.url)
    with counting_cases(request) as tally:
        for case, vector in load(vectors, "eip1271").items():
            with tally("eip1271", case):
                message_fields, digest = read(vector["message"]), text_digest(vector["message"])
                signature = vector["signature"]
                owner = recover(digest, bytes.fromhex(signature[2:])[:65])
                assert owner is not None and owner != message_fields.address
                arguments = (server, message_fields.address, digest)
                with pytest.raises(NotSignedIn):
                    await verify_signature(*arguments, signature, message_fields.chain_id)
                mainnet.put(message_fields.address, owned_by(owner))
                await verify_signature(*arguments, signature, message_fields.chain_id)
                with pytest.raises(NotSignedIn):
                    await verify_signature(*arguments, _changed(signature), message_fields.chain_id)
                with pytest.raises(NotSignedIn):
                    other = text_digest(vector["message"] + " ")
                    await verify_signature(
                        server, message_fields.address, other, signature, message_fields.chain_id
                    )
                with pytest.raises(NotSignedIn):
                    await verify_signature(
                        parts(), message_fields.address, digest, signature, message_fields.chain_id
                    )


def _changed(signature: str) -> str:
    return signature[:20] + ("0" if signature[20] != "0" else "1") + signature[21:]
