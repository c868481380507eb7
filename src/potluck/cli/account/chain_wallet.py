"""What commands that send transactions share: the RPC, my wallet's key, and printing calldata."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.account.login import choose_key_file
from potluck.cli.terminal.prompt import ask_hidden
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import BadSettings

if TYPE_CHECKING:
    from potluck.chain.rpc import ChainRpc
    from potluck.chain.transaction import ContractCall
    from potluck.consumer.identity.wallet import Wallet

RpcOption = Annotated[
    str | None,
    typer.Option(
        "--rpc-url",
        metavar="URL",
        help="An RPC endpoint of the contract's chain.",
        envvar="POTLUCK_RPC_URL",
        show_default=False,
    ),
]
CalldataOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Send nothing; print the transactions for another wallet to sign."
    ),
]


def open_rpc(url: str | None, chain_id: int) -> "ChainRpc":
    from potluck.chain.rpc import ChainRpc

    if url is None:
        raise BadSettings(
            f"No RPC endpoint of chain {chain_id} is given.",
            "Name one with --rpc-url or POTLUCK_RPC_URL, or print the calldata with --dry-run.",
        )
    return ChainRpc(url, chain_id)


def load_wallet(server_url: str, key_file: Path | None) -> "Wallet":
    from potluck.consumer.identity import wallet

    return wallet.load(choose_key_file(server_url, key_file), ask_hidden)


def show_calls(
    screen: Screen, chain_id: int, calls: list[tuple[str, "ContractCall"]], **facts: object
) -> None:
    """For a wallet in a browser, or any other that signs."""
    if screen.json:
        made = [
            {"what": what, "to": call.to, "data": f"0x{call.data.hex()}", "value": "0x0"}
            for what, call in calls
        ]
        screen.emit({"chain_id": chain_id, "transactions": made, **facts})
        return
    screen.err.line(f"Nothing was sent. Sign this on chain {chain_id}:", Tone.FAINT)
    for what, call in calls:
        screen.out.line(f"{what}: to {call.to}")
        screen.out.line(f"  0x{call.data.hex()}")
