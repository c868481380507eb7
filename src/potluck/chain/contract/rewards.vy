# pragma version 0.4.3
"""
@title Potluck rewards
@license Apache-2.0
@notice Takes deposits of one ERC-20 token, and pays rewards by cumulative Merkle roots.

A root is proposed by a hot key and takes effect after a delay, in which the owner can revoke it.
There is no other way to set one. A claim pays the difference between the cumulative amount in the
current root and what the account was paid before, so no root and no claim can pay twice. Claims are
the only way out: the owner can stop payments, but cannot withdraw the tokens.

Always true: total_claimed <= current.total <= pending.total (while a root is pending).

The token must be an ordinary one. It may return nothing, and may take a fee from what it transfers.
It must not change balances without a transfer, nor take more from the sender than the amount.
"""

from ethereum.ercs import IERC20

event Deposited:
    account: indexed(address)
    payer: indexed(address)
    amount: uint256

event RootProposed:
    root: bytes32
    epoch: indexed(uint256)
    total: uint256
    statement: bytes32
    accepted_from: uint256

event RootAccepted:
    root: bytes32
    epoch: indexed(uint256)
    total: uint256
    statement: bytes32

event RootRevoked:
    root: bytes32
    epoch: indexed(uint256)
    total: uint256
    statement: bytes32

event Claimed:
    account: indexed(address)
    amount: uint256
    cumulative: uint256
    root: bytes32

event ProposerChanged:
    proposer: indexed(address)

event OwnershipOffered:
    owner: indexed(address)
    next_owner: indexed(address)

event OwnershipAccepted:
    owner: indexed(address)

event Paused:
    is_paused: bool

struct Root:
    root: bytes32
    epoch: uint256
    total: uint256  # of all cumulative amounts in it
    statement: bytes32  # SHA-256 of the published statement of the epoch

TOKEN: public(immutable(IERC20))
DELAY_SECONDS: public(immutable(uint256))

# A proof of this length covers 2**32 accounts.
MOST_PROOF_NODES: constant(uint256) = 32
SHORTEST_DELAY_SECONDS: constant(uint256) = 60
# With a delay without end the contract would take deposits and never pay.
LONGEST_DELAY_SECONDS: constant(uint256) = 30 * 24 * 60 * 60

owner: public(address)  # a cold key
next_owner: public(address)
proposer: public(address)  # a hot key; the zero address: nobody can propose
is_paused: public(bool)

current: public(Root)
pending: public(Root)
pending_from: public(uint256)  # when the pending root can be accepted; 0: none is pending

claimed: public(HashMap[address, uint256])
total_claimed: public(uint256)


@deploy
def __init__(token: address, owner: address, proposer: address, delay_seconds: uint256):
    assert token.is_contract, "the token is not a contract"
    assert owner != empty(address), "no owner"
    assert delay_seconds >= SHORTEST_DELAY_SECONDS, "the delay is too short"
    assert delay_seconds <= LONGEST_DELAY_SECONDS, "the delay is too long"
    TOKEN = IERC20(token)
    DELAY_SECONDS = delay_seconds
    self.owner = owner
    self.proposer = proposer
    log OwnershipAccepted(owner=owner)
    log ProposerChanged(proposer=proposer)


@external
@nonreentrant
def deposit(account: address, amount: uint256):
    """
    @notice Takes tokens of the caller as credit for an account.
    @dev Not during another one: a token that calls back would have the inner one counted twice.
    """
    assert not self.is_paused, "paused"
    assert account != empty(address), "no account"
    before: uint256 = staticcall TOKEN.balanceOf(self)
    assert extcall TOKEN.transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "the token refused the transfer"
    # Less than the amount, if the token takes a fee.
    received: uint256 = staticcall TOKEN.balanceOf(self) - before
    assert received > 0, "nothing was deposited"
    log Deposited(account=account, payer=msg.sender, amount=received)


@external
@nonreentrant
def propose_root(root: bytes32, epoch: uint256, total: uint256, statement: bytes32):
    """
    @notice Proposes the root of the next epoch; it can be accepted after the delay.
    """
    assert msg.sender == self.proposer, "not the proposer"
    assert not self.is_paused, "paused"
    assert self.pending_from == 0, "a root is pending"
    assert epoch == self.current.epoch + 1, "not the next epoch"
    assert root != empty(bytes32), "no root"
    assert statement != empty(bytes32), "no statement"
    assert total >= self.current.total, "the total is lower than before"
    self._check_covered(total)
    self.pending = Root(root=root, epoch=epoch, total=total, statement=statement)
    self.pending_from = block.timestamp + DELAY_SECONDS
    log RootProposed(
        root=root, epoch=epoch, total=total, statement=statement, accepted_from=self.pending_from
    )


@external
@nonreentrant
def accept_root():
    """
    @notice Makes the pending root the current one, after the delay. Anyone may call it.
    @dev Nobody can prevent it: claims lower the balance by what they add to total_claimed.
        Not during a claim: the token could call it when the one has changed and not the other.
    """
    assert not self.is_paused, "paused"
    assert self.pending_from != 0, "no root is pending"
    assert block.timestamp >= self.pending_from, "too early"
    self._check_covered(self.pending.total)
    self.current = self.pending
    self._clear_pending()
    log RootAccepted(
        root=self.current.root,
        epoch=self.current.epoch,
        total=self.current.total,
        statement=self.current.statement,
    )


@external
def revoke_root(expected_root: bytes32):
    """
    @notice Removes the pending root, also while paused.
    @dev Only the owner may: nobody who steals the hot key can take an honest root back.
    @param expected_root The root to remove, so that a late call does not remove the next one.
    """
    self._check_owner()
    assert self.pending_from != 0, "no root is pending"
    assert expected_root == self.pending.root, "another root is pending"
    log RootRevoked(
        root=self.pending.root,
        epoch=self.pending.epoch,
        total=self.pending.total,
        statement=self.pending.statement,
    )
    self._clear_pending()


@external
@nonreentrant
def claim(
    account: address,
    cumulative: uint256,
    expected_root: bytes32,
    proof: DynArray[bytes32, MOST_PROOF_NODES],
) -> uint256:
    """
    @notice Pays an account what it has not been paid of its cumulative amount. Anyone may call it.
    @param expected_root The root that the proof belongs to; another one may have become current.
    """
    assert not self.is_paused, "paused"
    assert self.current.root != empty(bytes32), "no root was accepted yet"
    assert expected_root == self.current.root, "another root is current"
    assert self._is_member(account, cumulative, proof), "wrong proof"
    paid_before: uint256 = self.claimed[account]
    assert cumulative > paid_before, "nothing to claim"
    amount: uint256 = cumulative - paid_before
    self.claimed[account] = cumulative
    self.total_claimed += amount
    # However the root was made, no more than its total is paid.
    assert self.total_claimed <= self.current.total, "more than the total"
    assert extcall TOKEN.transfer(
        account, amount, default_return_value=True
    ), "the token refused the transfer"
    log Claimed(account=account, amount=amount, cumulative=cumulative, root=self.current.root)
    return amount


@external
def set_paused(is_paused: bool):
    """
    @notice Stops, or allows again, deposits, proposals, accepting and claims.
    @dev The delay of a pending root goes on: revoke a wrong one before you allow all this again.
    """
    self._check_owner()
    self.is_paused = is_paused
    log Paused(is_paused=is_paused)


@external
def set_proposer(proposer: address):
    """
    @notice Replaces the hot key. A pending root stays; it can be revoked.
    """
    self._check_owner()
    self.proposer = proposer
    log ProposerChanged(proposer=proposer)


@external
def offer_ownership(next_owner: address):
    """
    @notice Offers the contract to another owner, who must accept; the zero address withdraws it.
    """
    self._check_owner()
    self.next_owner = next_owner
    log OwnershipOffered(owner=self.owner, next_owner=next_owner)


@external
def accept_ownership():
    """
    @notice Takes the contract over.
    """
    assert msg.sender == self.next_owner, "not the next owner"
    self.owner = msg.sender
    self.next_owner = empty(address)
    log OwnershipAccepted(owner=msg.sender)


@view
@external
def leaf_of(account: address, cumulative: uint256) -> bytes32:
    """
    @notice The leaf of an account: hashed twice, so that no inner node is a leaf.
    """
    return self._leaf(account, cumulative)


@view
@internal
def _check_owner():
    assert msg.sender == self.owner, "not the owner"


@view
@internal
def _check_covered(total: uint256):
    """
    @notice Reverts unless the contract holds enough to pay all that the root promises.
    @dev The difference is never negative: a total is at least the current one, which bounds
        total_claimed.
    """
    unpaid: uint256 = total - self.total_claimed
    assert unpaid <= staticcall TOKEN.balanceOf(self), "the balance does not cover the total"


@internal
def _clear_pending():
    self.pending = empty(Root)
    self.pending_from = 0


@view
@internal
def _leaf(account: address, cumulative: uint256) -> bytes32:
    return keccak256(keccak256(abi_encode(account, TOKEN.address, cumulative)))


@view
@internal
def _is_member(
    account: address, cumulative: uint256, proof: DynArray[bytes32, MOST_PROOF_NODES]
) -> bool:
    node: bytes32 = self._leaf(account, cumulative)
    for sibling: bytes32 in proof:
        if convert(node, uint256) < convert(sibling, uint256):
            node = keccak256(concat(node, sibling))
        else:
            node = keccak256(concat(sibling, node))
    return node == self.current.root
