"""Settings of deposits and payouts on a chain; part of the server's settings.

They are valid only together: `read_payout_chain` says what is missing or contradicts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from potluck.decide.payouts.token_rate import TokenRate, make_rate
from potluck.local.optional_dependency import check_chain_part
from potluck.model.error import BadSettings, InvalidInput
from potluck.server.alerts.settings import AlertSettings
from potluck.wire.signing.address import checksummed

Pause = Annotated[float, Meta(gt=0, le=86_400)]


class ChainSettings(AlertSettings, frozen=True, kw_only=True):
    # RPC endpoints by chain ID, such as `1=https://…,10=https://…`: for verifying contract wallets,
    # and for the rewards contract.
    chain_rpc_urls: Mapping[int, str] = {}

    # The rewards contract that takes deposits and pays rewards; without it, credits stay in the
    # pool. Needs `potluck[chain]`. See [money.md](money.md#the-contract).
    rewards_contract: str | None = None
    # The chain that it is on; `POTLUCK_CHAIN_RPC_URLS` must have an endpoint of it.
    rewards_chain_id: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    # How many decimals its token has; compared with the token at the start.
    rewards_token_decimals: Annotated[int, Meta(ge=0, le=24)] = 18
    # How many credits a whole token is worth. It cannot be changed for a contract in use.
    rewards_credits_per_token: Annotated[int, Meta(ge=1, le=10**9)] = 1
    # How many blocks must follow one before its deposits and claims count. More than a
    # reorganisation of the chain is ever deep: one that is deeper stops crediting.
    rewards_confirmations: Annotated[int, Meta(ge=0, le=100)] = 12
    # The block in which the contract was created; nothing before it is read.
    rewards_first_block: Annotated[int, Meta(ge=0, le=2**53)] = 0
    # How many blocks one request for events covers; some endpoints allow few.
    rewards_blocks_per_request: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    rewards_poll_seconds: Pause = 15.0  # how often the chain is read
    # A transaction that is in no block after this time is replaced, with a higher fee.
    rewards_stuck_seconds: Pause = 600.0
    # An alert fires if a payout does not proceed for this time (6 hours).
    alert_stuck_seconds: Pause = 21_600.0
    # The socket of `potluck treasury`, which signs payouts; without it, none are made.
    treasury_socket: Path | None = None
    # The PostgreSQL address that `potluck treasury` reads the ledger with, of a role that can only
    # read; by default that of the server. See [money.md](money.md#the-treasury).
    treasury_database_url: str | None = None


class PayoutChainSettings(Struct, frozen=True):
    """The settings of a server that uses a rewards contract."""

    rpc_url: str
    chain_id: int
    contract: str  # checksummed
    decimals: int
    rate: TokenRate
    confirmations: int
    first_block: int
    blocks_per_request: int


def read_payout_chain(settings: ChainSettings) -> PayoutChainSettings | None:
    """None without a contract. Raises BadSettings naming what is wrong."""
    if settings.rewards_contract is None:
        _check_alone(settings)
        return None
    chain_id = settings.rewards_chain_id
    if chain_id is None:
        raise BadSettings(
            "POTLUCK_REWARDS_CONTRACT is set, but POTLUCK_REWARDS_CHAIN_ID is not.",
            "Set it to the ID of the chain that the contract is on.",
        )
    rpc_url = settings.chain_rpc_urls.get(chain_id)
    if rpc_url is None:
        raise BadSettings(
            f"POTLUCK_CHAIN_RPC_URLS has no endpoint of chain {chain_id}, which"
            " POTLUCK_REWARDS_CHAIN_ID names.",
            f"Add one: POTLUCK_CHAIN_RPC_URLS={chain_id}=https://…",
        )
    check_chain_part()
    return PayoutChainSettings(
        rpc_url,
        chain_id,
        _contract(settings.rewards_contract),
        settings.rewards_token_decimals,
        _rate(settings),
        settings.rewards_confirmations,
        settings.rewards_first_block,
        settings.rewards_blocks_per_request,
    )


def _check_alone(settings: ChainSettings) -> None:
    for name in ("rewards_chain_id", "treasury_socket"):
        if getattr(settings, name) is not None:
            raise BadSettings(
                f"POTLUCK_{name.upper()} is set, but POTLUCK_REWARDS_CONTRACT is not.",
                "Set it to the address of the rewards contract, or unset the other.",
            )


def _contract(address: str) -> str:
    try:
        return checksummed(address)
    except InvalidInput as error:
        raise BadSettings(f"POTLUCK_REWARDS_CONTRACT: {error.detail}", error.hint) from error


def _rate(settings: ChainSettings) -> TokenRate:
    decimals, credits_each = settings.rewards_token_decimals, settings.rewards_credits_per_token
    rate = make_rate(decimals, credits_each)
    if rate is None:
        raise BadSettings(
            f"With {decimals} decimals and {credits_each} credits per token, neither a"
            " micro-credit nor the token's smallest unit is a whole number of the other.",
            "Choose another POTLUCK_REWARDS_CREDITS_PER_TOKEN, such as a power of ten.",
        )
    return rate
