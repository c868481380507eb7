"""EIP-4361 as its public vectors have it, and a reader that hostile text cannot slow down."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.model.error import InvalidInput
from potluck.wire.signing.sign_in_message import LONGEST_MESSAGE, SignIn, moment, read, write
from tests.case_counts import counting_cases
from tests.public_data import shared_folder

_NAMES = {
    "chainId": "chain_id",
    "issuedAt": "issued_at",
    "expirationTime": "expiration_time",
    "notBefore": "not_before",
    "requestId": "request_id",
}
SAID = SignIn(
    domain="127.0.0.1:8470",
    address="0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2",
    uri="http://127.0.0.1:8470",
    version="1",
    chain_id=1,
    nonce="abcdefgh12",
    issued_at="2026-11-16T00:00:00Z",
)


@pytest.fixture
def vectors(request: pytest.FixtureRequest) -> Path:
    return shared_folder(request.config, "vectors/spruceid-siwe")


def load(vectors: Path, name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((vectors / f"{name}.json").read_text())
    return vector


def fields(values: dict[str, Any]) -> SignIn:
    """The message that the values of a vector describe."""
    values_by_field = {_NAMES.get(name, name): value for name, value in values.items()}
    if values_by_field.get("resources") is not None:
        values_by_field["resources"] = tuple(values_by_field["resources"])
    return SignIn(**values_by_field)


def test_valid_messages_are_parsed(vectors: Path, request: pytest.FixtureRequest) -> None:
    with counting_cases(request) as tally:
        for case, vector in load(vectors, "parsing_positive").items():
            with tally("parsing_positive", case):
                message = read(vector["message"])
                assert message == fields(vector["fields"])
                assert write(message) == vector["message"]


def test_invalid_values_are_refused(vectors: Path, request: pytest.FixtureRequest) -> None:
    with counting_cases(request) as tally:
        for case, message in load(vectors, "parsing_negative").items():
            with tally("parsing_negative", case), pytest.raises(InvalidInput):
                read(message)


def test_invalid_values_cannot_be_written(vectors: Path, request: pytest.FixtureRequest) -> None:
    with counting_cases(request) as tally:
        for case, values in load(vectors, "parsing_negative_objects").items():
            is_refused = pytest.raises((InvalidInput, TypeError))
            with tally("parsing_negative_objects", case), is_refused:
                write(fields(values))


@pytest.mark.parametrize(
    "changes",
    [
        {"statement": None},
        {"statement": ""},
        {"statement": "Come in"},
        {"request_id": ""},
        {"request_id": "a%20b"},
        {"resources": ()},
        {"resources": ("https://a.example/b?c=d#e", "urn:x:y")},
        {"expiration_time": "2026-11-16T00:00:00.123456789+02:00", "not_before": SAID.issued_at},
        {"scheme": "https"},
        {"domain": "[::1]:8470"},
        {"uri": "https://[v1.fe80::a+en1]/a//b;c"},
    ],
)
def test_written_values_are_read_back(changes: dict[str, Any]) -> None:
    message = SignIn(
        **{**{name: getattr(SAID, name) for name in SAID.__struct_fields__}, **changes}
    )
    assert read(write(message)) == message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("wants", "Wants"),
        ("abcdefgh12", "abcdefg"),
        ("abcdefgh12", "abcdefgh-2"),
        ("Chain ID: 1", "Chain ID: 0x1"),
        ("Chain ID: 1", "Chain ID: -1"),
        ("Version: 1", "Version: 2"),
        ("0xC02a", "0xc02A"),
        ("0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2", SAID.address.lower()),
        ("http://127", "://127"),
        ("URI: http://127.0.0.1:8470", "URI: http://[::g]"),
        ("URI: http://127.0.0.1:8470", "URI: http://a b"),
        ("URI: http://127.0.0.1:8470", "URI: http://a/%zz"),
        ("2026-11-16T", "2026-02-30T"),
        ("2026-11-16T00:00:00Z", "2026-11-16T00:00:00"),
        ("2026-11-16T00:00:00Z", "2026-11-16T00:00:00Z\n"),
        ("2026-11-16T00:00:00Z", "2026-11-16T00:00:00Z\nColour: red"),
        ("2026-11-16T00:00:00Z", "٢026-11-16T00:00:00Z"),
        ("account:", "account:\u2028"),
        ("127.0.0.1:8470 wants", "127.0.0.1:8470  wants"),
    ],
)
def test_a_small_change_makes_it_unreadable(old: str, new: str) -> None:
    text = write(SAID)
    assert old in text
    with pytest.raises(InvalidInput):
        read(text.replace(old, new, 1))


@pytest.mark.parametrize("size", [LONGEST_MESSAGE - 100, LONGEST_MESSAGE + 1, 16_384, 2**20])
@pytest.mark.parametrize("junk", ["A", "\n", "0x", "%", "http://", " ", "a:", "[", "- ", "é"])
def test_hostile_text_costs_nothing(junk: str, size: int) -> None:
    opening = write(SAID).split("URI")[0]
    before = time.perf_counter()
    for text in (junk * (size // len(junk)), opening + junk * size, junk * size + opening):
        with pytest.raises(InvalidInput):
            read(text)
    # Quadratic readers need minutes; this is no measurement, only far from both.
    assert time.perf_counter() - before < 2


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for candidate in (text, write(SAID).replace("Issued", text, 1), write(SAID) + text):
        try:
            message = read(candidate)
        except InvalidInput:
            continue
        assert write(message) == candidate


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2021-09-30T16:25:24-02:00", datetime(2021, 9, 30, 18, 25, 24, tzinfo=UTC)),
        ("2021-09-30t16:25:24.5z", datetime(2021, 9, 30, 16, 25, 24, 500_000, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_times_are_what_they_say(written: str, expected: datetime) -> None:
    assert moment(written) == expected
