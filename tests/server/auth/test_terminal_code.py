"""The codes of the device flow: unlike each other, read in any spelling, and not to be forged."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.server.auth.device_flow.codes import (
    ALPHABET,
    new_device_code,
    new_user_code,
    read_device_code,
    read_user_code,
)

KEY = b"k" * 32
ENDS = datetime(2026, 11, 16, 12, 0, 0, 500_000, UTC)


def test_codes_differ_and_use_the_whole_alphabet() -> None:
    codes = {new_user_code() for _ in range(1_000)}
    assert len(codes) == 1_000
    assert set("".join(codes)) == {*ALPHABET, "-"}


@pytest.mark.parametrize(
    "typed_code", ["BCDF-GHJK", "bcdfghjk", "bcdf ghjk", " BCDF-ghjk ", "b-c-d-f-ghjk"]
)
def test_a_user_code_is_read_in_any_spelling(typed_code: str) -> None:
    assert read_user_code(typed_code) == "BCDF-GHJK"


@pytest.mark.parametrize(
    "typed_code", ["", "BCDF-GHJ", "BCDF-GHJKL", "ACDF-GHJK", "BCDF_GHJK", "ＢCDFGHJK"]
)
def test_invalid_user_codes_are_refused(typed_code: str) -> None:
    assert read_user_code(typed_code) is None


def test_a_device_code_shows_its_owner_and_its_expiry() -> None:
    device_code = read_device_code(KEY, new_device_code(KEY, "BCDF-GHJK", ENDS))
    assert device_code is not None
    assert (device_code.user_code, device_code.expires_at) == ("BCDF-GHJK", ENDS)
    later = new_device_code(KEY, "BCDF-GHJK", ENDS + timedelta(days=10_000))
    assert read_device_code(KEY, later) is not None


def test_a_device_code_cannot_be_made_or_changed_without_the_key() -> None:
    code = new_device_code(KEY, "BCDF-GHJK", ENDS)
    assert read_device_code(b"x" * 32, code) is None
    for place, character in enumerate(code):
        for other in "B0fz":
            changed = code[:place] + other + code[place + 1 :]
            assert other == character or read_device_code(KEY, changed) is None, place
    for longer in (f"{code}0", f"{code}\n", f" {code}", code.upper()):
        assert read_device_code(KEY, longer) is None
