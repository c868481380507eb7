"""A rewards contract with a token on a chain of the tests' own, and those who use it."""

import hashlib
from enum import IntEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from web3 import Web3

from potluck.chain.merkle import MerkleTree, RewardLeaf
from potluck.chain.rewards_contract import (
    RewardsContract,
    RewardsRoot,
    approve_call,
    claim_call,
    contract_call,
    deposit_call,
)
from potluck.chain.rpc import ChainRpc, TransactionReceipt
from potluck.chain.transaction import ContractCall
from potluck.wire.signing.signature import address_of
from scripts.contract import compile_contract
from tests.chain.anvil import Anvil

OWNER, PROPOSER, PAYER, STRANGER = (bytes([number]) * 32 for number in (17, 18, 19, 20))
DELAY_SECONDS = 3600
_ETHER = 10**18
_TOKEN = Path(__file__).parent / "token.vy"


class Flaw(IntEnum):
    """Of a token, by the numbers in token.vy."""

    NONE = 0
    RETURNS_NOTHING = 1
    RETURNS_FALSE = 2
    TAKES_A_FEE = 3
    CALLS_BACK = 4


@cache
def compiled_token() -> dict[str, Any]:
    return compile_contract(_TOKEN)


def wallet(number: int) -> str:
    """The address of somebody who is only paid."""
    return address_of(b"\x77" + number.to_bytes(31))


class RewardsRig:
    """A contract of its own, whose payer has many tokens and has approved them all."""

    def __init__(self, chain: Anvil, flaw: Flaw = Flaw.NONE) -> None:
        self.chain = chain
        self.rpc = ChainRpc(chain.url, chain.chain_id)
        for key in (OWNER, PROPOSER, PAYER, STRANGER):
            chain.ask("anvil_setBalance", address_of(key), hex(1000 * _ETHER))
        self.token = self._deploy_token(flaw)
        self.contract = RewardsContract.deploy(
            self.rpc,
            STRANGER,
            token=self.token,
            owner=address_of(OWNER),
            proposer=address_of(PROPOSER),
            delay_seconds=DELAY_SECONDS,
        )
        self.address = self.contract.address
        self.ask_token("mint", address_of(PAYER), _ETHER)
        self.rpc.send(approve_call(self.token, self.address, _ETHER), PAYER)

    def deposit(self, amount: int, account: str = "", key: bytes = PAYER) -> TransactionReceipt:
        call = deposit_call(self.address, account or wallet(0), amount)
        return self.rpc.send(call, key)

    def ask(self, key: bytes, function: str, *arguments: object) -> TransactionReceipt:
        """Any function of the contract, by anyone."""
        return self.rpc.send(contract_call(self.address, function, *arguments), key)

    def ask_token(self, function: str, *arguments: object) -> TransactionReceipt:
        encoded = self._token_contract.encode_abi(function, args=list(arguments))
        return self.rpc.send(ContractCall(self.token, bytes.fromhex(encoded[2:])), STRANGER)

    def read_token(self, function: str, *arguments: object) -> int:
        return int(self._token_contract.functions[function](*arguments).call())

    def balance(self, account: str) -> int:
        return self.read_token("balanceOf", account)

    def tree(self, *cumulative: int) -> "EpochTree":
        """A tree in which wallet 0 has the first of these amounts, and so on."""
        leaves = [
            RewardLeaf(wallet(number), self.token, amount)
            for number, amount in enumerate(cumulative)
        ]
        return EpochTree(leaves)

    def root(self, tree: "EpochTree", epoch: int, total: int | None = None) -> RewardsRoot:
        statement = hashlib.sha256(f"epoch {epoch}".encode()).digest()
        return RewardsRoot(tree.root, epoch, tree.total if total is None else total, statement)

    def propose(self, tree: "EpochTree", epoch: int = 1, total: int | None = None) -> None:
        self.contract.propose(self.root(tree, epoch, total), PROPOSER)

    def accept(self) -> None:
        self.pass_time(DELAY_SECONDS)
        self.contract.accept(STRANGER)

    def install(self, tree: "EpochTree", epoch: int = 1) -> None:
        self.propose(tree, epoch)
        self.accept()

    def claim_call(self, tree: "EpochTree", number: int) -> ContractCall:
        leaf = tree.leaves[number]
        return claim_call(self.address, leaf, tree.root, tree.tree.proof(leaf))

    def claim(self, tree: "EpochTree", number: int, key: bytes = STRANGER) -> TransactionReceipt:
        return self.rpc.send(self.claim_call(tree, number), key)

    def pass_time(self, seconds: int) -> None:
        self.chain.ask("evm_increaseTime", seconds)
        self.chain.ask("evm_mine")

    @cached_property
    def _token_contract(self) -> Any:
        return Web3(Web3.HTTPProvider(self.chain.url)).eth.contract(
            Web3.to_checksum_address(self.token), abi=compiled_token()["abi"]
        )

    def _deploy_token(self, flaw: Flaw) -> str:
        compiled = compiled_token()
        factory = Web3().eth.contract(abi=compiled["abi"], bytecode=compiled["bytecode"])
        data = bytes.fromhex(factory.constructor(int(flaw)).data_in_transaction[2:])
        address = self.rpc.send(ContractCall(None, data), STRANGER).contract_address
        assert address is not None
        return address


class EpochTree:
    def __init__(self, leaves: list[RewardLeaf]) -> None:
        self.leaves = leaves
        self.tree = MerkleTree(leaves)

    @property
    def root(self) -> bytes:
        return self.tree.root

    @property
    def total(self) -> int:
        return sum(leaf.cumulative for leaf in self.leaves)
