"""Values from untrusted nodes: a closed list of types, encoded as MessagePack.

The return value of a function comes from a machine that may be malicious. So it is decoded as data:
decoding runs no code, imports nothing but numpy and pyarrow, and takes time and memory in
proportion to the input. Other types are refused when encoding, with their place and an alternative.

The types: None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, datetime,
date, time, timedelta, Decimal, UUID; numpy arrays and scalars without objects; Arrow tables, record
batches and arrays. Values come back unchanged, with three exceptions: a bytearray comes back as
bytes, the time zone of a time as its offset, and every numpy array in C order.

Sandboxed functions use this folder too, so it imports only the standard library and its own
modules, by relative imports.
"""

from .error import PlainError
from .read import decode
from .write import encode

__all__ = ["PlainError", "decode", "encode"]
