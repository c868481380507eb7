"""An EVM chain through one JSON-RPC endpoint: transactions are signed here, and sent.

Every operation asks the endpoint for its chain id first: an address and a balance mean nothing on
another chain. Signing and sending are separate, so that a caller can store what it signed before
anyone sees it, and send the same bytes again after a crash.

The client is synchronous, because commands and the process that signs are. A server calls it in a
thread: it asks a few times a minute.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

from potluck.chain.transaction import (
    ContractCall,
    SignedTransaction,
    UnsignedTransaction,
    sign_transaction,
)
from potluck.local.optional_dependency import check_chain_part
from potluck.model.error import BadSettings, ChainUnreachable, TransactionRefused
from potluck.wire.signing.signature import address_of

if TYPE_CHECKING:
    from web3 import Web3
    from web3.exceptions import Web3RPCError
    from web3.types import BlockData, TxParams, TxReceipt

_SECONDS_TO_ANSWER: Final = 10
_SECONDS_TO_MINE: Final = 120.0
_POLL_SECONDS: Final = 0.05
# The state may change between the estimate and the block; what is not used is not paid.
_GAS_MARGIN_PERCENT: Final = 25
_MALFORMED: Final = (TypeError, AttributeError)  # of the library, for JSON of another shape
_REVERT_WITH_REASON: Final = "0x08c379a0"  # Error(string)
_MAX_REASON_CHARACTERS: Final = 200


class ChainBlock(Struct, frozen=True):
    number: int
    hash: bytes
    time: int


class TransactionFee(Struct, frozen=True):
    """In wei for each unit of gas."""

    max_fee: int
    max_tip: int


class TransactionReceipt(Struct, frozen=True):
    hash: bytes
    block_number: int
    gas_used: int
    contract_address: str | None  # if the transaction created one
    has_succeeded: bool = True


class ChainRpc:
    """Holds no connection that has to be closed."""

    def __init__(self, url: str, chain_id: int) -> None:
        check_chain_part()
        from web3 import HTTPProvider, Web3

        options = {"timeout": _SECONDS_TO_ANSWER, "allow_redirects": False}
        self.chain_id = chain_id
        # Often there is a secret in the path of the URL: only the host is shown.
        self._host = urlsplit(url).hostname or "no host"
        # Without retries of its own: the caller knows whether and when to try again.
        provider = HTTPProvider(url, request_kwargs=options, exception_retry_configuration=None)
        self._web3 = Web3(provider)
        # It asks for the chain id before each call; `checked` does so once for an operation.
        self._web3.middleware_onion.remove("validation")

    @contextmanager
    def checked(self) -> Iterator["Web3"]:
        """The library, once the chain id is verified; its errors become ours."""
        from web3.exceptions import ContractLogicError, Web3Exception

        try:
            self._check_chain()
            yield self._web3
        except ContractLogicError as error:
            raise _refusal(_revert_reason(error.data)) from error
        # An endpoint can answer with anything: the library then stumbles in many ways.
        except (Web3Exception, OSError, ValueError, LookupError, *_MALFORMED) as error:
            raise ChainUnreachable(
                f"The RPC of chain {self.chain_id} at {self._host} failed: {type(error).__name__}.",
                "Check its address and whether it responds, then try again.",
            ) from error

    def read_head(self) -> ChainBlock:
        with self.checked() as web3:
            return _block(web3.eth.get_block("latest"))

    def find_block(self, number: int) -> ChainBlock | None:
        """None if the chain has no such block now."""
        from eth_typing import BlockNumber
        from web3.exceptions import BlockNotFound

        with self.checked() as web3:
            try:
                return _block(web3.eth.get_block(BlockNumber(number)))
            except BlockNotFound:
                return None

    def next_nonce(self, address: str) -> int:
        """The number of the address's next transaction, after those that wait to be mined."""
        with self.checked() as web3:
            return web3.eth.get_transaction_count(web3.to_checksum_address(address), "pending")

    def count_transactions(self, address: str, block_number: int) -> int:
        """How many transactions of the address are in the chain up to this block."""
        from eth_typing import BlockNumber

        with self.checked() as web3:
            spelled = web3.to_checksum_address(address)
            return web3.eth.get_transaction_count(spelled, BlockNumber(block_number))

    def read_fee(self) -> TransactionFee:
        with self.checked() as web3:
            return _fee(web3)

    def prepare(self, call: ContractCall, sender: str, nonce: int) -> UnsignedTransaction:
        """With gas and fee of this moment. Raises TransactionRefused if the call would fail now."""
        with self.checked() as web3:
            gas = web3.eth.estimate_gas(_parameters(web3, call, sender))
            fee = _fee(web3)
        margin = gas * _GAS_MARGIN_PERCENT // 100
        return UnsignedTransaction(
            self.chain_id, nonce, call, gas + margin, fee.max_fee, fee.max_tip
        )

    def sign(self, call: ContractCall, private_key: bytes, nonce: int) -> SignedTransaction:
        """Raises TransactionRefused, and signs nothing, if the call would fail now."""
        return sign_transaction(self.prepare(call, address_of(private_key), nonce), private_key)

    def broadcast(self, transaction: SignedTransaction) -> None:
        """Sends it, again if it was sent before: only its first arrival counts."""
        from hexbytes import HexBytes
        from web3.exceptions import TransactionNotFound, Web3RPCError

        with self.checked() as web3:
            try:
                web3.eth.send_raw_transaction(transaction.raw)
            except Web3RPCError as error:
                try:
                    web3.eth.get_transaction(HexBytes(transaction.hash))
                except TransactionNotFound:
                    raise _refusal(_why_not_taken(error)) from error

    def await_receipt(
        self, transaction_hash: bytes, seconds: float = _SECONDS_TO_MINE
    ) -> TransactionReceipt:
        """Waits until it is in a block. Raises TransactionRefused if it failed there."""
        from hexbytes import HexBytes

        with self.checked() as web3:
            receipt = web3.eth.wait_for_transaction_receipt(
                HexBytes(transaction_hash), timeout=seconds, poll_latency=_POLL_SECONDS
            )
        transaction_receipt = _receipt(receipt)
        if not transaction_receipt.has_succeeded:
            raise _refusal("it failed in its block")
        return transaction_receipt

    def find_receipt(self, transaction_hash: bytes) -> TransactionReceipt | None:
        """None if it is in no block now."""
        from hexbytes import HexBytes
        from web3.exceptions import TransactionNotFound

        with self.checked() as web3:
            try:
                return _receipt(web3.eth.get_transaction_receipt(HexBytes(transaction_hash)))
            except TransactionNotFound:
                return None

    def send(self, call: ContractCall, private_key: bytes) -> TransactionReceipt:
        """Signs, sends and waits: for callers that need not survive a crash in between."""
        nonce = self.next_nonce(address_of(private_key))
        transaction = self.sign(call, private_key, nonce)
        self.broadcast(transaction)
        return self.await_receipt(transaction.hash)

    def _check_chain(self) -> None:
        actual = self._web3.eth.chain_id
        if actual != self.chain_id:
            raise BadSettings(
                f"The RPC at {self._host} serves chain {actual}, not chain {self.chain_id}.",
                "Configure an RPC of the chain that the contract is on.",
            )


def _parameters(web3: "Web3", call: ContractCall, sender: str) -> "TxParams":
    from web3.types import Wei

    parameters: TxParams = {
        "from": web3.to_checksum_address(sender),
        "data": web3.to_hex(call.data),
        "value": Wei(0),
    }
    if call.to is not None:
        parameters["to"] = web3.to_checksum_address(call.to)
    return parameters


def _fee(web3: "Web3") -> TransactionFee:
    tip = web3.eth.max_priority_fee
    base_fee = web3.eth.get_block("latest")["baseFeePerGas"]
    return TransactionFee(2 * base_fee + tip, tip)


def _block(block: "BlockData") -> ChainBlock:
    return ChainBlock(block["number"], bytes(block["hash"]), block["timestamp"])


def _receipt(receipt: "TxReceipt") -> TransactionReceipt:
    return TransactionReceipt(
        bytes(receipt["transactionHash"]),
        receipt["blockNumber"],
        receipt["gasUsed"],
        receipt.get("contractAddress"),
        receipt["status"] == 1,
    )


def _refusal(reason: str) -> TransactionRefused:
    return TransactionRefused(
        f"The transaction was refused: {reason}.",
        "Nothing has changed on the chain. Check the state of the contract, and try again.",
    )


def _why_not_taken(error: "Web3RPCError") -> str:
    """Why a node refused a transaction. Each kind of node has its own words, some with amounts."""
    words = str(error).lower()
    for reason, sign in (
        ("its wallet cannot pay the fee", "insufficient funds"),
        ("its nonce is used", "nonce"),
        ("its fee is too low", "underpriced"),
        ("its fee is too low", "fee"),
    ):
        if sign in words:
            return reason
    return "its nonce is used, its fee is too low, or its wallet cannot pay the fee"


def _revert_reason(data: object) -> str:
    """What the contract gave as its reason; it may be any text, also of a foreign contract."""
    from eth_abi.abi import decode
    from eth_abi.exceptions import DecodingError

    if not isinstance(data, str) or not data.startswith(_REVERT_WITH_REASON):
        return "the contract gave no reason"
    try:
        (reason,) = decode(["string"], bytes.fromhex(data[len(_REVERT_WITH_REASON) :]))
    except (DecodingError, ValueError):
        return "the contract gave no readable reason"
    return str(reason)[:_MAX_REASON_CHARACTERS]
