"""Bounded text and number types: limits are declared once and checked at the edge.

PostgreSQL cannot store NUL, terminals obey control characters, and 64-bit columns overflow, so
every field that crosses the network has one of these types, never a bare `str` or `int`.
"""

from typing import Annotated

from msgspec import Meta

# In Python `$` also matches before a final line break, in JSON Schema it does not.
END = "$(?!\\n)"
NO_NUL = f"^[^\\x00]*{END}"
# Control characters, invisible characters and those that reverse the text direction.
DECEIVING = (
    "\\x00-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060\\u2066-\\u2069\\ufeff"
)
PRINTABLE = f"^[^{DECEIVING}]*{END}"

ASCII_PATTERN = f"^[ -~]*{END}"
VARIABLE_PATTERN = f"^[A-Za-z_][A-Za-z0-9_]*{END}"

SOURCE_CHARACTERS = 524_288
# Shorter secrets occur in ordinary words, so logs do not mask them.
LEAST_MASKED_CHARACTERS = 6
# Of one node: no machine has more, not even eight cards in seven partitions each.
MOST_DEVICES = 64
# Of one task in total: its log is searched for them.
MOST_SECRET_CHARACTERS = 65_536

ShortText = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
LineText = Annotated[str, Meta(max_length=1_000, pattern=PRINTABLE)]
ArgumentText = Annotated[str, Meta(max_length=32_768, pattern=NO_NUL)]
SourceText = Annotated[str, Meta(max_length=SOURCE_CHARACTERS, pattern=NO_NUL)]
VariableName = Annotated[str, Meta(max_length=128, pattern=VARIABLE_PATTERN)]

# Bytes, micro-credits and similar: not negative, and fits a signed 64-bit column.
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# Up to a pebibyte; more is a mistake.
MemoryBytes = Annotated[int, Meta(ge=0, le=2**50)]
# Micro-credits per hour, up to a million credits, so that sums and products fit 64 bits.
Price = Annotated[int, Meta(ge=0, le=10**12)]
SmallCount = Annotated[int, Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=366 * 86_400)]
