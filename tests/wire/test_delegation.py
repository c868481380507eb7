"""The delegation's digest is what every EIP-712 wallet signs: eth-account is asked as well."""

import secrets

import pytest
from eth_account import Account
from eth_account.messages import _hash_eip191_message, encode_typed_data
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from potluck.wire.identity import Delegation
from potluck.wire.signing.address import checksummed
from potluck.wire.signing.delegation import NODE_SCOPES, digest, typed_data
from potluck.wire.signing.signature import recover, sign

ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: checksummed(f"0x{raw.hex()}"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
DELEGATIONS = st.builds(
    Delegation,
    wallet=ADDRESSES,
    key=ADDRESSES,
    origin=TEXTS,
    scopes=st.lists(TEXTS, min_size=1, max_size=4).map(tuple),
    issued_at=st.integers(0, 2**40),
    expires_at=st.integers(0, 2**40),
    nonce=st.text("0123456789abcdefABCDEF", min_size=8, max_size=72),
    signature=st.just("0x"),
)
ONE = Delegation(
    "0x" + "1" * 40, "0x" + "2" * 40, "https://a.example", NODE_SCOPES, 1, 2, "12345678", "0x"
)


@given(DELEGATIONS)
def test_the_digest_is_that_of_an_independent_wallet(delegation: Delegation) -> None:
    expected = _hash_eip191_message(encode_typed_data(full_message=typed_data(delegation)))
    assert digest(delegation) == expected


def test_the_signature_of_another_wallet_recovers_to_that_wallet() -> None:
    account = Account.from_key(secrets.token_bytes(32))
    delegation = replace(ONE, wallet=account.address)
    signed = account.sign_typed_data(full_message=typed_data(delegation))
    assert recover(digest(delegation), signed.signature) == account.address


def test_our_signature_is_theirs() -> None:
    account = Account.from_key(secrets.token_bytes(32))
    signed = bytes.fromhex(sign(account.key, digest(ONE))[2:])
    encoded = encode_typed_data(full_message=typed_data(ONE))
    assert Account.recover_message(encoded, signature=signed) == account.address


@pytest.mark.parametrize(
    "change",
    [
        {"wallet": "0x" + "3" * 40},
        {"key": "0x" + "3" * 40},
        {"origin": "https://b.example"},
        {"scopes": ("node", "admin")},
        {"scopes": ("nodeadmin",)},
        {"issued_at": 9},
        {"expires_at": 9},
        {"nonce": "87654321"},
    ],
    ids=str,
)
def test_any_change_changes_the_digest(change: dict[str, object]) -> None:
    assert digest(replace(ONE, **change)) != digest(ONE)
