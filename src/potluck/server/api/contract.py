"""The rewards contract: deposits, claims of a wallet, and how payouts resume after a stop."""

from typing import Final

from potluck.model.account import Scope
from potluck.model.error import (
    BadSettings,
    ChainUnreachable,
    Conflict,
    InvalidInput,
    NotFound,
    TransactionRefused,
    Unavailable,
)
from potluck.server.api.area import Area
from potluck.server.api.examples.names import SHA256, WALLET
from potluck.server.api.http.parameters import CallerRequest
from potluck.server.flow.payout.administration import resume_chain
from potluck.server.flow.payout.proof import show_claim, show_contract
from potluck.server.flow.payout.send_claim import prepare_claim
from potluck.server.flow.payout.send_claim import send_claim as send
from potluck.server.services import Services
from potluck.wire import routes
from potluck.wire.money.contract import (
    ClaimFees,
    ClaimProof,
    ClaimSent,
    RewardsContractView,
    SendClaim,
)

_CONTRACT: Final = "0xF2E246BB76DF876Cef8b38ae84130F4F55De395b"
_TOKEN: Final = "0x5FbDB2315678afecb367f032d93F642f64180aa3"  # noqa: S105  an address

AREA: Final = Area(
    "contract",
    "The contract that takes deposits of a token and pays rewards in it. Amounts of tokens are "
    "strings of digits, in the token's smallest unit: `…_units`.",
)


@AREA.operation(
    routes.REWARDS_CONTRACT,
    Scope.POOL_READ,
    "See the rewards contract",
    response=RewardsContractView(1, _CONTRACT, _TOKEN, 6, 1, 1, 12, True, read_block=23_840_112),
    errors=(NotFound,),
)
async def rewards_contract(services: Services) -> RewardsContractView:
    """Returns the contract that takes deposits, its token, and what a token is worth."""
    return await show_contract(services)


@AREA.operation(
    routes.CLAIM_PROOF,
    Scope.ACCOUNT_READ,
    "Get the proof for your claim",
    response=ClaimProof(
        *(1, _CONTRACT, _TOKEN, WALLET, "9120000", "6768000", 2_352_000, 12),
        *(f"0x{SHA256}", [f"0x{SHA256[::-1]}"]),
    ),
    errors=(NotFound,),
)
async def claim_proof(request: CallerRequest, services: Services) -> ClaimProof:
    """Returns the arguments of `claim` for your wallet in the root that the contract has. When the
    next root becomes current, a claim with this one fails; ask again then."""
    return await show_claim(services, request.user.account.address)


@AREA.operation(
    routes.CLAIM_FEES,
    Scope.ACCOUNT_READ,
    "Get the fees of your claim",
    response=ClaimFees(4, 96_000, "21000000000", "1000000000"),
    errors=(Conflict, NotFound, Unavailable),
    is_timed=False,
)
async def claim_fees(request: CallerRequest, services: Services) -> ClaimFees:
    """Returns the nonce of your wallet and the fees of this moment, for a wallet that has no node
    of its own. A claim that the contract would refuse now is refused here."""
    return await prepare_claim(services, request.user.account.address)


@AREA.operation(
    routes.SEND_CLAIM,
    Scope.ACCOUNT_WRITE,
    "Send your claim",
    request=SendClaim("0x02f8"),
    response=ClaimSent(f"0x{SHA256}"),
    errors=(Conflict, NotFound, Unavailable, InvalidInput),
    status_code=200,
    is_timed=False,
)
async def send_claim(data: SendClaim, request: CallerRequest, services: Services) -> ClaimSent:
    """Sends a claim that your wallet has signed to the chain, and nothing else. Your wallet pays
    the fee. Safe to repeat."""
    return await send(services, request.user.account.address, data)


@AREA.operation(
    routes.RESUME_PAYOUTS,
    Scope.ADMIN,
    "Resume deposits and payouts after they have stopped",
    errors=(Conflict,),
    status_code=204,
)
async def resume_payouts(request: CallerRequest, services: Services) -> None:
    """Continues with the chain and the contract as they are now. After a reorganisation, blocks
    that were added meanwhile are not read: grant what was deposited in them by hand."""
    try:
        await resume_chain(services, request.user.id)
    except (ChainUnreachable, BadSettings, TransactionRefused) as error:
        raise Unavailable(error.detail, "Try again when the RPC answers.", 10.0) from error
