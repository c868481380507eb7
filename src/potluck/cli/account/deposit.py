"""`potluck deposit`: tokens become credits."""

from typing import Annotated

import typer

from potluck.cli.account.chain_wallet import (
    CalldataOption,
    RpcOption,
    load_wallet,
    open_rpc,
    show_calls,
)
from potluck.cli.options import JsonOption, KeyFileOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import InvalidInput
from potluck.model.units import parse_amount, show_amount
from potluck.wire.money.contract import RewardsContractView
from potluck.wire.signing.address import checksummed


def deposit(
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="In credits, such as 25 or 0.5.")],
    account: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="WALLET", help="Whose credits; default: mine.", show_default=False
        ),
    ] = None,
    dry_run: CalldataOption = False,
    rpc_url: RpcOption = None,
    key_file: KeyFileOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Deposit tokens in the pool's contract, as credits."""
    screen, micro = Screen(json), parse_amount(amount, "AMOUNT")
    with connect(server) as potluck:
        contract = potluck.rewards.contract()
        receiver = potluck.account.me().address if account is None else checksummed(account)
        url = potluck.url
    units = _to_units(micro, contract)
    from potluck.chain.rewards_contract import approve_call, deposit_call

    calls = [
        ("approve", approve_call(contract.token, contract.contract, units)),
        ("deposit", deposit_call(contract.contract, receiver, units)),
    ]
    if dry_run:
        show_calls(screen, contract.chain_id, calls, units=str(units), account=receiver)
        return
    if contract.stopped_because is not None:
        raise InvalidInput(
            f"The pool credits no deposits now: {contract.stopped_because}", "Ask its operator."
        )
    rpc = open_rpc(rpc_url, contract.chain_id)
    key = load_wallet(url, key_file).reveal_key()
    hashes = [f"0x{rpc.send(call, key).hash.hex()}" for _, call in calls]
    if json:
        screen.emit({"transaction_hash": hashes[-1], "units": str(units), "account": receiver})
        return
    screen.out.line(f"Deposited {show_amount(micro)} for {receiver}: {hashes[-1]}", Tone.GOOD)
    screen.err.line(f"It is credited after {contract.confirmations} further blocks.", Tone.FAINT)


def _to_units(micro: int, contract: RewardsContractView) -> int:
    units, rest = divmod(micro * contract.token_units, contract.credit_micro)
    if rest or not units:
        smallest = show_amount(-(-contract.credit_micro // contract.token_units))
        raise InvalidInput(
            f"{show_amount(micro)} are not a whole number of the token's smallest unit.",
            f"Choose a multiple of {smallest}.",
        )
    return units
