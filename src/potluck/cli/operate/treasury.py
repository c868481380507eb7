"""`potluck treasury`: the process that holds the key of payouts."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.admin.local_server import LocalServerOptions, read_local_settings
from potluck.cli.options import JsonOption, KeyFileOption, expand_option_groups
from potluck.cli.terminal.prompt import ask_hidden
from potluck.cli.terminal.screen import Screen
from potluck.model.error import BadSettings


@expand_option_groups
def treasury(
    options: LocalServerOptions,
    key_file: KeyFileOption = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Where servers ask for signatures.", show_default="in --data-dir"
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Sign payouts for a server, if its ledger supports them."""
    screen, settings = Screen(json), read_local_settings(options)
    from potluck.consumer.identity import wallet
    from potluck.local.data_directory import data_dir_of
    from potluck.local.log import configure_logs
    from potluck.server.chain.chain_settings import read_payout_chain
    from potluck.server.stored_data import find_ledger
    from potluck.server.treasury.process import run_treasury

    chain = read_payout_chain(settings)
    if chain is None:
        raise BadSettings(
            "The treasury needs the settings of the rewards contract.",
            "Set POTLUCK_REWARDS_CONTRACT and the others as for the server.",
        )
    configure_logs(settings.log_level, settings.log_style, [])
    key = wallet.load(key_file, ask_hidden).reveal_key()
    directory = data_dir_of(settings.data_directory) / "treasury"
    path = socket or settings.treasury_socket or directory / "socket"

    def ready(address: str) -> None:
        if json:
            screen.emit({"event": "ready", "address": address, "socket": str(path)})
        else:
            screen.out.line(f"The treasury of {address} listens at {path}. Ctrl-C stops it.")

    asyncio.run(run_treasury(directory, path, key, chain, lambda: find_ledger(settings), ready))
