# pragma version 0.4.3
"""
@notice An ERC-20 token for tests, ordinary or with one flaw. Everyone may mint.
"""

event Transfer:
    sender: indexed(address)
    receiver: indexed(address)
    amount: uint256

RETURNS_NOTHING: constant(uint256) = 1
RETURNS_FALSE: constant(uint256) = 2
TAKES_A_FEE: constant(uint256) = 3
CALLS_BACK: constant(uint256) = 4
FLAW: immutable(uint256)

decimals: public(constant(uint8)) = 6
balanceOf: public(HashMap[address, uint256])
allowance: public(HashMap[address, HashMap[address, uint256]])

# With CALLS_BACK: what is called once, in the middle of the next transfer, and how that went.
target: address
data: Bytes[1024]
calls_that_failed: public(uint256)
calls_that_succeeded: public(uint256)


@deploy
def __init__(flaw: uint256):
    FLAW = flaw


@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount
    log Transfer(sender=empty(address), receiver=account, amount=amount)


@external
def burn(account: address, amount: uint256):
    self.balanceOf[account] -= amount
    log Transfer(sender=account, receiver=empty(address), amount=amount)


@external
def call_back(target: address, data: Bytes[1024]):
    self.target = target
    self.data = data
    # So that what it calls could take tokens from it.
    self.balanceOf[self] = 1000
    self.allowance[self][target] = 1000


@external
def approve(spender: address, amount: uint256) -> bool:
    self.allowance[msg.sender][spender] = amount
    return True


@external
@raw_return
def transfer(receiver: address, amount: uint256) -> Bytes[32]:
    return self._move(msg.sender, receiver, amount)


@external
@raw_return
def transferFrom(sender: address, receiver: address, amount: uint256) -> Bytes[32]:
    self.allowance[sender][msg.sender] -= amount
    return self._move(sender, receiver, amount)


@internal
def _move(sender: address, receiver: address, amount: uint256) -> Bytes[32]:
    if FLAW == RETURNS_FALSE:
        return abi_encode(False)
    if FLAW == CALLS_BACK and self.target != empty(address):
        target: address = self.target
        self.target = empty(address)
        if raw_call(target, self.data, revert_on_failure=False):
            self.calls_that_succeeded += 1
        else:
            self.calls_that_failed += 1
    received: uint256 = amount
    if FLAW == TAKES_A_FEE:
        received = amount - amount // 10
    self.balanceOf[sender] -= amount
    self.balanceOf[receiver] += received
    log Transfer(sender=sender, receiver=receiver, amount=received)
    if FLAW == RETURNS_NOTHING:
        return b""
    return abi_encode(True)
