"""Names that other people see contain no character that hides, or that hides others."""

import re
import sys
import time
import unicodedata

import msgspec
import pytest

from potluck.model.bounded_types import DECEIVING, LineText, ShortText, replace_deceiving
from potluck.model.task_spec import CommandSpec, name_of
from potluck.provider.one_line import one_line

# DerivedCoreProperties.txt defines Default_Ignorable_Code_Point as
#   Other_Default_Ignorable_Code_Point + Cf + Variation_Selector - White_Space
#   - FFF9..FFFB - 13430..13440 - Prepended_Concatenation_Mark.
# Every Cf is refused anyway. These two properties are from PropList.txt of Unicode 16.
OTHER_DEFAULT_IGNORABLE = [
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x2065, 0x2065), (0x3164, 0x3164)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0000), (0xE0002, 0xE001F)),
    *((0xE0080, 0xE00FF), (0xE01F0, 0xE0FFF)),
]
VARIATION_SELECTORS = [(0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)]
NONCHARACTERS = [
    (0xFDD0, 0xFDEF),
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)),
]
WITHOUT_INK = [(0x2800, 0x2800), (0x1D159, 0x1D159)]


# Cf since Unicode 15, which this Python may not know.
NEWER_CONTROLS = [(0x13439, 0x1343F)]


def test_the_refused_characters_are_those_of_the_unicode_properties() -> None:
    ranges = [*OTHER_DEFAULT_IGNORABLE, *VARIATION_SELECTORS, *NONCHARACTERS, *WITHOUT_INK]
    expected = {code for first, last in ranges + NEWER_CONTROLS for code in range(first, last + 1)}
    text = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    categories = {"Cc", "Cf", "Co", "Zl", "Zp"}
    expected |= {ord(letter) for letter in text if unicodedata.category(letter) in categories}
    refused_characters = set(map(ord, re.findall(f"[{DECEIVING}]", text)))
    assert sorted(f"{code:04X}" for code in refused_characters ^ expected) == []


@pytest.mark.parametrize(
    "code",
    [0x061C, 0x00AD, 0x034F, 0x115F, 0x180E, 0x3164, 0xFFF9, 0xE0000, 0xE0041, 0xE007F, 0x202E, 7],
)
@pytest.mark.parametrize("kind", [ShortText, LineText])
def test_a_text_that_others_see_has_no_such_character(kind: type[str], code: int) -> None:
    for text in (f"a{chr(code)}b", chr(code), f"ab{chr(code)}"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(text, kind)


@pytest.mark.parametrize(
    "text",
    [
        "ci",
        "größe",
        "数据",
        "한글",
        "ไทย",
        "می‌خواهم",
        "क्‍ष",
        "❤️",
        "👩‍👩‍👧",
        "🏳️‍🌈",
        "葛󠄀",
        "a b",
        "a\u00a0b",
    ],
)
def test_people_write_their_own_script(text: str) -> None:
    assert msgspec.convert(text, ShortText) == text


def test_foreign_text_is_made_fit_for_the_server() -> None:
    foreign = "".join(map(chr, range(0x3200))) + "\udcff\U000e0041\U0001d159"
    replaced = replace_deceiving(foreign, "?")
    assert all(msgspec.convert(letter, ShortText) for letter in replaced)
    assert msgspec.convert(one_line(foreign), LineText)
    command = CommandSpec((f"/bin/{chr(0x1B)}[31m\u3164sh",))
    assert name_of(command) == "?[31m?sh"


def test_a_long_text_is_matched_in_linear_time() -> None:
    """A pattern that tried all splits would not end."""
    for text in (
        "🙂\u200d" * 499 + "\u200d",
        "a" * 999 + "\u200b",
        "🙂\ufe0f" * 499 + "\ufe0f\ufe0f",
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(text, LineText)


def test_foreign_letters_are_compared_as_fast_as_ascii() -> None:
    """They took more than ten times as long, and a body can have a mebibyte of them."""
    seconds = {letter: min(_matching(letter * 1_000) for _ in range(5)) for letter in "aé漢"}
    assert max(seconds.values()) < 5 * seconds["a"], seconds


def _matching(text: str) -> float:
    started = time.thread_time()
    for _ in range(100):
        msgspec.convert(text, LineText)
    return time.thread_time() - started
