"""Contract wallets, assembled by hand: one that is right, and those that are wrong in one way.

Each is asked `isValidSignature(bytes32 digest, bytes signature)`. In the call's data the digest is
at 4, the length of the signature at 68, the signature itself from 100 on.
"""

import re

MAGIC = 0x1626BA7E

# The few operations that are used here.
_TABLE = """
    STOP 00  MUL 02  LT 10  EQ 14  SHL 1b  SHR 1c  CALLDATALOAD 35  CALLDATACOPY 37  POP 50
    MLOAD 51  MSTORE 52  JUMP 56  GAS 5a  JUMPDEST 5b  RETURN f3  STATICCALL fa  REVERT fd
    INVALID fe
"""
_OPERATIONS = {
    name: bytes.fromhex(code) for name, code in re.findall(r"([A-Z]+) ([0-9a-f]{2})", _TABLE)
}


def assemble(text: str) -> bytes:
    """Words become operations; numbers are pushed, hexadecimal ones as wide as they are written."""
    code = b""
    for word in text.split():
        if word in _OPERATIONS:
            code += _OPERATIONS[word]
        else:
            number = bytes.fromhex(word[2:]) if word.startswith("0x") else bytes([int(word)])
            code += bytes([0x5F + len(number)]) + number
    return code


def answering(word: str, size: int = 32) -> bytes:
    """Says the same to everybody: `size` bytes that begin with this word of 32 bytes."""
    return assemble(f"{word} 0 MSTORE 0x{size:08x} 0 RETURN")


def owned_by(owner: str) -> bytes:
    """A wallet of one key: the first 65 bytes of the signature are recovered, the rest is ignored.

    Memory: the digest at 0, v at 32, r and s at 64, what contract 1 recovers at 128.
    """
    return assemble(
        f"""
        4 CALLDATALOAD                  0 MSTORE
        164 CALLDATALOAD 248 SHR        32 MSTORE
        64 100 64 CALLDATACOPY
        32 128 128 0 1 GAS STATICCALL POP
        128 MLOAD {owner.lower()} EQ
        0x{MAGIC:08x} 224 SHL MUL       0 MSTORE
        32 0 RETURN
        """
    )


_LEFT = f"0x{MAGIC:08x}{'00' * 28}"
YES = answering(_LEFT)
# What is not exactly the yes of EIP-1271 is a no.
WRONG = {
    "it says nothing": assemble("STOP"),
    "it reverts": assemble("0 0 REVERT"),
    "it reverts with a yes inside": assemble(f"{_LEFT} 0 MSTORE 32 0 REVERT"),
    "it fails": assemble("INVALID"),
    "it says yes to those who pay for more than three million gas": assemble(
        f"GAS 0x003d0900 LT {_LEFT} MUL 0 MSTORE 32 0 RETURN"
    ),
    "it never ends": assemble("JUMPDEST 0 JUMP"),
    "it answers with memory as long as gas lasts": answering(_LEFT, 2**21),
    "it says zero": answering("0"),
    "it says true": answering("1"),
    "it says no as EIP-1271 examples do": answering(f"0x{'ff' * 4}{'00' * 28}"),
    "the yes is at the wrong end": answering(f"0x{MAGIC:08x}"),
    "the yes is four bytes long": answering(_LEFT, 4),
    "the yes has one byte too few": answering(_LEFT, 31),
    "the yes has company": answering(f"0x{MAGIC:08x}{'ff' * 28}"),
    "the yes has a second word": answering(_LEFT, 64),
    "the yes is one bit off": answering(f"0x{MAGIC ^ 1:08x}{'00' * 28}"),
    "the yes has a tail of 8 KiB": answering(_LEFT, 8192),
}
