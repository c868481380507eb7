"""Bounded kinds of text and numbers, so that strictness is declared once and checked at the edge.

PostgreSQL can not store NUL, terminals obey control characters, and a 64-bit column overflows:
every field that crosses the network is one of these, never a bare `str` or `int`.
"""

from typing import Annotated

from msgspec import Meta

# Python lets `$` match before a last line break, JSON Schema does not; this is the end in both.
END = "$(?!\\n)"
# Any text but NUL.
NO_NUL = f"^[^\\x00]*{END}"
# What is obeyed, unseen or turns text round; without it one line reads as it is.
DECEIVING = (
    "\\x00-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060\\u2066-\\u2069\\ufeff"
)
PRINTABLE = f"^[^{DECEIVING}]*{END}"

ASCII_PATTERN = f"^[ -~]*{END}"
VARIABLE_PATTERN = f"^[A-Za-z_][A-Za-z0-9_]*{END}"

SOURCE_CHARACTERS = 524_288
# Shorter secrets are in every second word, so a log shows them.
LEAST_MASKED_CHARACTERS = 6
# Of one task, together: all that is logged is searched for them.
MOST_SECRET_CHARACTERS = 65_536

ShortText = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
LineText = Annotated[str, Meta(max_length=1_000, pattern=PRINTABLE)]
ArgumentText = Annotated[str, Meta(max_length=32_768, pattern=NO_NUL)]
SourceText = Annotated[str, Meta(max_length=SOURCE_CHARACTERS, pattern=NO_NUL)]
VariableName = Annotated[str, Meta(max_length=128, pattern=VARIABLE_PATTERN)]

# Bytes, micro-credits and the like: what a signed 64-bit column holds, and not negative.
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# Of a machine or a device, up to a pebibyte: more is a mistake.
MemoryBytes = Annotated[int, Meta(ge=0, le=2**50)]
# Micro-credits per hour, up to a million credits: sums and products stay within 64 bits.
Price = Annotated[int, Meta(ge=0, le=10**12)]
SmallCount = Annotated[int, Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=366 * 86_400)]
