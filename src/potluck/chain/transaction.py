"""Transactions, and how they are signed: without a connection, so that a key can live apart.

A signature is deterministic: the same transaction, signed again after a crash, has the same bytes.
"""

from msgspec import Struct

from potluck.local.optional_dependency import check_chain_part
from potluck.model.error import InvalidInput


class ContractCall(Struct, frozen=True):
    """What a transaction does; any key may sign it. Without an address it creates a contract."""

    to: str | None
    data: bytes


class UnsignedTransaction(Struct, frozen=True):
    """All that a signature covers. It sends no coins of the chain."""

    chain_id: int
    nonce: int
    call: ContractCall
    gas: int
    max_fee: int  # in wei for each unit of gas
    max_tip: int


class SignedTransaction(Struct, frozen=True):
    raw: bytes
    hash: bytes
    nonce: int


def sign_transaction(transaction: UnsignedTransaction, private_key: bytes) -> SignedTransaction:
    check_chain_part()
    from eth_account import Account
    from web3 import Web3

    call = transaction.call
    signed = Account.sign_transaction(
        {
            "type": 2,
            "chainId": transaction.chain_id,
            "nonce": transaction.nonce,
            "to": b"" if call.to is None else Web3.to_checksum_address(call.to),
            "value": 0,
            "data": call.data,
            "gas": transaction.gas,
            "maxFeePerGas": transaction.max_fee,
            "maxPriorityFeePerGas": transaction.max_tip,
        },
        private_key,
    )
    return SignedTransaction(bytes(signed.raw_transaction), bytes(signed.hash), transaction.nonce)


def read_signed(raw: bytes) -> tuple[UnsignedTransaction, str, SignedTransaction]:
    """What a transaction does, and the wallet that signed it. Raises InvalidInput unless it is of
    type 2, sends no coins, and has no access list."""
    check_chain_part()
    from eth_account import Account
    from eth_account.typed_transactions.typed_transaction import TypedTransaction
    from eth_utils.crypto import keccak
    from hexbytes import HexBytes

    try:
        fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        sender = Account.recover_transaction(raw)
    except Exception as error:  # each part of the decoder has errors of its own
        raise _unreadable() from error
    if fields["type"] != 2 or fields["value"] != 0 or fields["accessList"]:
        raise _unreadable()
    call = ContractCall(f"0x{bytes(fields['to']).hex()}", bytes(fields["data"]))
    content = UnsignedTransaction(
        fields["chainId"],
        fields["nonce"],
        call,
        fields["gas"],
        fields["maxFeePerGas"],
        fields["maxPriorityFeePerGas"],
    )
    return content, sender, SignedTransaction(raw, keccak(raw), fields["nonce"])


def _unreadable() -> InvalidInput:
    return InvalidInput(
        "This is not a signed transaction of type 2 that sends no coins.", "Sign it anew."
    )
