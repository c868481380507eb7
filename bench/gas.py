"""Gas of each transaction of the rewards contract, on an Ethereum node of its own.

    make bench-gas                      a table
    python -m bench.gas --json          the same as JSON

The token is an ordinary ERC-20 of the tests. A claim is measured twice: the first of a wallet,
which has no tokens yet, and a later one. Gas does not depend on the machine.
"""

import argparse
import hashlib
import json
from statistics import mean
from typing import Any

from potluck.chain.merkle import RewardLeaf
from potluck.chain.rewards_contract import RewardsRoot
from tests.chain.anvil import Anvil, find_anvil, running_anvil
from tests.chain.rewards import DELAY_SECONDS, PROPOSER, STRANGER, EpochTree, RewardsRig, wallet

SIZES = (10, 100, 1_000, 10_000, 20_000)
CLAIMS = 5  # of so many wallets, whose proofs differ in length by one at most
_STEP = 1_000


def measure(chain: Anvil, wallets: int) -> dict[str, int]:
    rig = RewardsRig(chain)
    first_deposit = rig.deposit(wallets * _STEP).gas_used
    deposit = rig.deposit(wallets * _STEP).gas_used
    first, later = (_epoch(rig, wallets, epoch) for epoch in (1, 2))
    return {
        "wallets": wallets,
        "proof_nodes": first["proof_nodes"],
        "first_deposit": first_deposit,
        "deposit": deposit,
        "propose": later["propose"],
        "accept": later["accept"],
        "first_claim": first["claim"],
        "claim": later["claim"],
    }


def _epoch(rig: RewardsRig, wallets: int, epoch: int) -> dict[str, int]:
    leaves = [RewardLeaf(_account(number), rig.token, epoch * _STEP) for number in range(wallets)]
    tree = EpochTree(leaves)
    statement = hashlib.sha256(f"epoch {epoch}".encode()).digest()
    root = RewardsRoot(tree.root, epoch, tree.total, statement)
    propose = rig.contract.propose(root, PROPOSER).gas_used
    rig.pass_time(DELAY_SECONDS)
    accept = rig.contract.accept(STRANGER).gas_used
    # The very first claim of a contract also writes the sum of all claims for the first time.
    rig.claim(tree, wallets - 1)
    claims = [rig.claim(tree, number).gas_used for number in range(CLAIMS)]
    proof_nodes = max(len(tree.tree.proof(leaf)) for leaf in leaves[:CLAIMS])
    return {
        "propose": propose,
        "accept": accept,
        "claim": round(mean(claims)),
        "proof_nodes": proof_nodes,
    }


def _account(number: int) -> str:
    """Those who claim are real wallets; an address of the rest is quicker to make."""
    if number < CLAIMS:
        return wallet(number)
    return f"0x{hashlib.sha256(str(number).encode()).hexdigest()[:40]}"


def show(rows: list[dict[str, int]]) -> None:
    print("| " + " | ".join(name.replace("_", " ") for name in rows[0]) + " |")
    print("|" + "---:|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{figure:,}" for figure in row.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments: Any = parser.parse_args()
    program = find_anvil()
    if program is None:
        raise SystemExit("anvil is missing; scripts/test-needs.sh installs it")
    with running_anvil(program, 31337) as chain:
        rows = [measure(chain, wallets) for wallets in SIZES]
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
