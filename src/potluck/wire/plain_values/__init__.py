"""Values that may travel from a stranger: a closed list of types, written as MessagePack.

What a function returns comes from a machine that nobody vouches for. So it is read as data: reading
runs nothing, imports nothing but numpy and pyarrow, and takes time and memory in proportion to what
came. What is not on the list is refused where it is written, with the place and what to do instead.

The types: None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, datetime,
date, time, timedelta, Decimal, UUID; arrays and scalars of numpy without objects in them; tables,
record batches and arrays of Arrow. Each comes back as what it was, with three exceptions: a
bytearray comes back as bytes, the time zone of a time as its offset, and any array of numpy in C
order.

This folder is also shown to functions in their sandbox. It imports the standard library only, and
its own parts by their place.
"""

from .error import PlainError
from .read import decode
from .write import encode

__all__ = ["PlainError", "decode", "encode"]
