"""The rewards contract: its calldata, its state, its events, and who calls what.

Calldata needs no connection, so that a command can print what a wallet should sign. Amounts are in
the token's smallest unit, times in Unix seconds. State is read at one block.
"""

import importlib.resources
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from potluck.chain.merkle import RewardLeaf
from potluck.chain.rpc import ChainRpc, TransactionReceipt
from potluck.chain.transaction import ContractCall
from potluck.decide.payouts.treasury_rules import SignatureContent
from potluck.local.optional_dependency import check_chain_part
from potluck.model.error import BadSettings
from potluck.model.payout import TransactionKind
from potluck.wire.signing.address import checksummed

if TYPE_CHECKING:
    from eth_typing import ChecksumAddress
    from web3.contract import Contract

_TOKEN_ABI = [
    {
        "type": "function",
        "name": "approve",
        "stateMutability": "nonpayable",
        "inputs": [{"name": "spender", "type": "address"}, {"name": "amount", "type": "uint256"}],
        "outputs": [],
    },
    {
        "type": "function",
        "name": "balanceOf",
        "stateMutability": "view",
        "inputs": [{"name": "account", "type": "address"}],
        "outputs": [{"name": "", "type": "uint256"}],
    },
    {
        "type": "function",
        "name": "decimals",
        "stateMutability": "view",
        "inputs": [],
        "outputs": [{"name": "", "type": "uint8"}],
    },
]


class RewardsRoot(Struct, frozen=True):
    """What one epoch promises: the root of a tree of cumulative amounts, and their sum."""

    root: bytes
    epoch: int
    total: int
    statement: bytes  # SHA-256 of the published statement of the epoch


class RewardsState(Struct, frozen=True):
    block_number: int
    block_time: int
    token: str
    delay_seconds: int
    owner: str
    next_owner: str | None
    proposer: str | None  # None: no account can propose
    is_paused: bool
    current: RewardsRoot | None  # None: no root was accepted yet
    pending: RewardsRoot | None
    pending_from: int | None  # when the pending root can be accepted
    total_claimed: int
    balance: int


class EventPlace(Struct, frozen=True, order=True):
    """Identifies an event on its chain, as long as the block stays in it."""

    block_number: int
    log_index: int
    transaction_hash: bytes
    block_hash: bytes


class DepositEvent(Struct, frozen=True):
    account: str  # the account that is credited
    payer: str
    amount: int
    place: EventPlace


class ClaimEvent(Struct, frozen=True):
    account: str
    amount: int
    cumulative: int
    root: bytes
    place: EventPlace


class RewardsContract:
    def __init__(self, rpc: ChainRpc, address: str) -> None:
        self.rpc = rpc
        self.address = address

    @classmethod
    def deploy(
        cls,
        rpc: ChainRpc,
        private_key: bytes,
        *,
        token: str,
        owner: str,
        proposer: str,
        delay_seconds: int,
    ) -> "RewardsContract":
        receipt = rpc.send(deploy_call(token, owner, proposer, delay_seconds), private_key)
        assert receipt.contract_address is not None
        return cls(rpc, receipt.contract_address)

    def propose(self, root: RewardsRoot, private_key: bytes) -> TransactionReceipt:
        return self.rpc.send(propose_call(self.address, root), private_key)

    def accept(self, private_key: bytes) -> TransactionReceipt:
        return self.rpc.send(accept_call(self.address), private_key)

    def read_state(self, block_number: int | None = None) -> RewardsState:
        """At this block, or at the latest."""
        from eth_typing import BlockNumber

        with self.rpc.checked() as web3:
            block = web3.eth.get_block(
                "latest" if block_number is None else BlockNumber(block_number)
            )
            number = block["number"]
            self._check_code(bytes(web3.eth.get_code(_spelled(self.address), number)))
            contract = web3.eth.contract(_spelled(self.address), abi=_compiled()["abi"])
            read = {
                name: contract.functions[name]().call(block_identifier=number) for name in _STATE
            }
            token = web3.eth.contract(read["TOKEN"], abi=_TOKEN_ABI)
            balance = token.functions.balanceOf(contract.address).call(block_identifier=number)
        return RewardsState(
            block_number=number,
            block_time=block["timestamp"],
            token=read["TOKEN"],
            delay_seconds=read["DELAY_SECONDS"],
            owner=read["owner"],
            next_owner=_address_or_none(read["next_owner"]),
            proposer=_address_or_none(read["proposer"]),
            is_paused=read["is_paused"],
            current=_root_or_none(read["current"]),
            pending=_root_or_none(read["pending"]),
            pending_from=read["pending_from"] or None,
            total_claimed=read["total_claimed"],
            balance=balance,
        )

    def read_token_decimals(self) -> int:
        with self.rpc.checked() as web3:
            contract = web3.eth.contract(_spelled(self.address), abi=_compiled()["abi"])
            token = web3.eth.contract(contract.functions.TOKEN().call(), abi=_TOKEN_ABI)
            return int(token.functions.decimals().call())

    def read_claimed(self, account: str) -> int:
        """What the account was paid by this contract until now."""
        with self.rpc.checked() as web3:
            contract = web3.eth.contract(_spelled(self.address), abi=_compiled()["abi"])
            return int(contract.functions.claimed(_spelled(account)).call())

    def read_deposits(self, first_block: int, last_block: int) -> list[DepositEvent]:
        """In the order of the chain, both blocks included."""
        return [
            DepositEvent(values["account"], values["payer"], values["amount"], place)
            for values, place in self._events("Deposited", first_block, last_block)
        ]

    def read_claims(self, first_block: int, last_block: int) -> list[ClaimEvent]:
        """In the order of the chain, both blocks included."""
        return [
            ClaimEvent(
                values["account"],
                values["amount"],
                values["cumulative"],
                bytes(values["root"]),
                place,
            )
            for values, place in self._events("Claimed", first_block, last_block)
        ]

    def _events(
        self, name: str, first_block: int, last_block: int
    ) -> list[tuple[dict[str, Any], EventPlace]]:
        with self.rpc.checked() as web3:
            contract = web3.eth.contract(_spelled(self.address), abi=_compiled()["abi"])
            logs = contract.events[name]().get_logs(from_block=first_block, to_block=last_block)
        events = [(dict(log["args"]), _place(log)) for log in logs]
        return sorted(events, key=lambda event: event[1])

    def _check_code(self, code: bytes) -> None:
        if not code:
            raise BadSettings(
                f"There is no contract at {self.address} on chain {self.rpc.chain_id}.",
                "Check the address and the chain of the rewards contract.",
            )


def deploy_call(token: str, owner: str, proposer: str, delay_seconds: int) -> ContractCall:
    made = _offline().constructor(
        _spelled(token), _spelled(owner), _spelled(proposer), delay_seconds
    )
    return ContractCall(None, _bytes(made.data_in_transaction))


def approve_call(token: str, contract: str, amount: int) -> ContractCall:
    """Allows the contract to take a deposit of this amount: the transaction before `deposit`."""
    check_chain_part()
    from web3 import Web3

    spender = _spelled(contract)
    encoded = Web3().eth.contract(abi=_TOKEN_ABI).encode_abi("approve", args=[spender, amount])
    return ContractCall(token, _bytes(encoded))


def deposit_call(contract: str, account: str, amount: int) -> ContractCall:
    return contract_call(contract, "deposit", _spelled(account), amount)


def claim_call(
    contract: str, leaf: RewardLeaf, root: bytes, proof: Sequence[bytes]
) -> ContractCall:
    """Pays the leaf's account; any wallet may send it."""
    account = _spelled(leaf.account)
    return contract_call(contract, "claim", account, leaf.cumulative, root, list(proof))


def propose_call(contract: str, root: RewardsRoot) -> ContractCall:
    return contract_call(
        contract, "propose_root", root.root, root.epoch, root.total, root.statement
    )


def accept_call(contract: str) -> ContractCall:
    return contract_call(contract, "accept_root")


def treasury_call(content: SignatureContent) -> ContractCall:
    """What a transaction of the treasury does."""
    if content.kind is TransactionKind.ACCEPT:
        return accept_call(content.contract)
    root = RewardsRoot(content.root, content.number, content.total_units, content.statement)
    return propose_call(content.contract, root)


def contract_call(contract: str, function: str, *arguments: object) -> ContractCall:
    """A call of any function of the contract; those of the owner have no name of their own here."""
    return ContractCall(contract, _bytes(_offline().encode_abi(function, args=list(arguments))))


_STATE = (
    *("TOKEN", "DELAY_SECONDS", "owner", "next_owner", "proposer", "is_paused"),
    *("current", "pending", "pending_from", "total_claimed"),
)


@cache
def _compiled() -> dict[str, Any]:
    folder = importlib.resources.files("potluck.chain") / "contract"
    compiled: dict[str, Any] = msgspec.json.decode((folder / "rewards.json").read_bytes())
    return compiled


@cache
def _offline() -> "type[Contract]":
    check_chain_part()
    from web3 import Web3

    compiled = _compiled()
    return Web3().eth.contract(abi=compiled["abi"], bytecode=compiled["bytecode"])


def _spelled(address: str) -> "ChecksumAddress":
    return cast("ChecksumAddress", checksummed(address))


def _bytes(encoded: str) -> bytes:
    return bytes.fromhex(encoded.removeprefix("0x"))


def _address_or_none(address: str) -> str | None:
    return address if int(address, 16) else None


def _root_or_none(values: tuple[bytes, int, int, bytes]) -> RewardsRoot | None:
    root, epoch, total, statement = values
    return RewardsRoot(bytes(root), epoch, total, bytes(statement)) if any(root) else None


def _place(log: Any) -> EventPlace:
    return EventPlace(
        log["blockNumber"], log["logIndex"], bytes(log["transactionHash"]), bytes(log["blockHash"])
    )
