"""Bounded text and number types: limits are declared once and checked at the edge.

PostgreSQL cannot store NUL, terminals obey control characters, and 64-bit columns overflow, so
every field that crosses the network has one of these types, never a bare `str` or `int`.
"""

import re
from typing import Annotated

from msgspec import Meta

# In Python `$` also matches before a final line break, in JSON Schema it does not.
END = "$(?!\\n)"
NO_NUL = f"^[^\\x00]*{END}"
# Characters that make a name look like another one, by their Unicode properties and not by a list
# of known tricks; a test derives the same set. Written out, so that all versions of Python agree.
# Lone surrogates are missing: no decoder accepts them.
_HIDDEN = (
    # General categories Cc, Cf, Co, Zl and Zp.
    "\\x00-\\x1f\\x7f-\\x9f\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2"
    "\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ue000-\\uf8ff\\ufeff\\ufff9-\\ufffb"
    # Noncharacters.
    "\\ufdd0-\\ufdef\\ufffe\\uffff"
    # Default_Ignorable_Code_Point, as far as not above.
    "\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0\\ufff0-\\ufff8"
    # A symbol without ink.
    "\\u2800"
)
# The same above U+FFFF, in the same order.
_HIGH_HIDDEN = (
    "\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a"
    "\\U000f0000-\\U0010ffff"
    + "".join(f"\\U{end:08x}\\U{end + 1:08x}" for end in range(0x1FFFE, 0xF0000, 0x10000))
    + "\\U000e0000-\\U000e0fff\\U0001d159"
)
_SELECTORS = "\\u180b-\\u180d\\u180f\\ufe00-\\ufe0f"
DECEIVING = f"{_HIDDEN}{_HIGH_HIDDEN}{_SELECTORS}\\u200c\\u200d"
# Joiners and variation selectors belong to the spelling of many scripts and to emoji. They may
# follow a character of those, and a joiner must precede one; elsewhere they are invisible.
_JOINED = "\\u0590-\\u1cff\\u203c-\\ud7ff\\uf900-\\ufaff\\U00010000-\\U0003ffff"
_JOINT = (
    f"(?:(?<=[{_JOINED}])[{_SELECTORS}\\U000e0100-\\U000e01ef]"
    f"|(?<=[{_JOINED}\\ufe0f])[\\u200c\\u200d](?=[{_JOINED}]))"
)


# What a pattern excludes besides, and the ASCII characters that remain.
_PLAIN = {"": " -~", "\\\\": " -\\[\\]-~"}


_LAST = 0x10FFFF


def _all_but(characters: str) -> str:
    """The content of a set with all other characters.

    Comparing with it is ten times faster than with the negated set: most letters are found in its
    first ranges.
    """
    content = characters.encode().decode("unicode_escape")
    ranges, start = "", 0
    for first, last in sorted(re.findall("(?s)(.)(?:-(.))?", content)):
        if start < ord(first):
            ranges += f"\\U{start:08x}-\\U{ord(first) - 1:08x}"
        start = max(start, ord(last or first) + 1)
    return ranges if start > _LAST else f"{ranges}\\U{start:08x}-\\U{_LAST:08x}"


def visible_to_end(without: str = "") -> str:
    """A pattern of visible text up to its end, without these characters either."""
    letters = f"[{_all_but(DECEIVING + without)}]*"
    return f"(?:[{_PLAIN[without]}]*{END}|{letters}(?:{_JOINT}{letters})*{END})"


def portable_pattern(pattern: str) -> str:
    """The pattern for other languages: nothing above U+FFFF, and joiners are accepted anywhere."""
    for without in _PLAIN:
        pattern = pattern.replace(visible_to_end(without), f"[^{_HIDDEN}{without}]*$")
    return pattern.replace(END, "$")


PRINTABLE = f"^{visible_to_end()}"

ASCII_PATTERN = f"^[ -~]*{END}"
VARIABLE_PATTERN = f"^[A-Za-z_][A-Za-z0-9_]*{END}"

SOURCE_CHARACTERS = 524_288
# Shorter secrets occur in ordinary words, so logs do not mask them.
LEAST_MASKED_CHARACTERS = 6
# Of the end of an output, which explains a failure.
MOST_LAST_CHARACTERS = 1_000
# Of one node: no machine has more, not even eight cards in seven partitions each.
MOST_DEVICES = 64
# Of one task in total: its log is searched for them.
MOST_SECRET_CHARACTERS = 65_536

ShortText = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
LineText = Annotated[str, Meta(max_length=1_000, pattern=PRINTABLE)]
# The end of an output: printed only after it was made printable.
LastLines = Annotated[str, Meta(max_length=MOST_LAST_CHARACTERS)]
ArgumentText = Annotated[str, Meta(max_length=32_768, pattern=NO_NUL)]
# A body can have so many of these that a pattern for each is slow: `task_spec.check_texts` checks
# all of a task together.
ManyText = Annotated[str, Meta(max_length=32_768, extra_json_schema={"pattern": NO_NUL})]
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


def replace_deceiving(text: str, replacement: str) -> str:
    """Makes foreign text fit for a field of printable text, except for its length."""
    shown = (letter if letter.isprintable() else replacement for letter in text)
    return re.sub(f"[{DECEIVING}]", replacement, "".join(shown))
