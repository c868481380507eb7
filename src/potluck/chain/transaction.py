"""Transactions, and how they are signed: without a connection, so that a key can live apart.

A signature is deterministic: the same transaction, signed again after a crash, has the same bytes.
"""

from msgspec import Struct

from potluck.local.optional_dependency import check_chain_part


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
