"""A refusal of a wrong value speaks to people: no types of Python, no patterns."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
import pytest

from potluck.local.settings import read_values
from potluck.model.alert import AlertName
from potluck.model.decode_errors import plain_message
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.task import TaskRequest
from potluck.wire import codec
from potluck.wire.strict_types import StrictTaskRequest

TASK = '{"spec": {"kind": "script", "filename": "a.py", "source": "1"}'

SAID = [
    # (what was sent, what is said of it)
    (f'{TASK}, "priority": "high"}}', "expected a whole number, got text - at `$.priority`"),
    (f'{TASK}, "after": ["task_1"]}}', "text that is the id of a task - at `$.after[0]`"),
    (f'{TASK}, "name": ""}}', "expected text with a length of at least 1 - at `$.name`"),
    ("{}", "missing field `spec`"),
    ("[]", "expected an object, got a list"),
    ("{", "The body is not valid: it is incomplete."),
    (" ", "The body is not valid: it is incomplete."),
    (f'{TASK}, "name": "\\ud800', "The body is not valid: it is incomplete."),
    (f'{TASK}, "name": "\\ud800"}}', "A text in the body contains half of a surrogate pair."),
    (f'{TASK}, "requirements": {{"device_kind": "tpu"}}}}', "'tpu' is not a valid choice"),
    (
        f'{TASK}, "requirements": {{"compute_capability": "x"}}}}',
        "expected text of a different form",
    ),
    (f'{TASK}, "items": "all"}}', "expected a whole number or nothing, got text"),
]


@pytest.mark.parametrize(("body", "sentence"), SAID, ids=[row[1] for row in SAID])
def test_bodies_are_refused_in_plain_words(body: str, sentence: str) -> None:
    with pytest.raises(InvalidInput) as error_info:
        codec.decode_json(body, TaskRequest)
    assert sentence in error_info.value.detail
    assert "regex" not in error_info.value.detail and "`str`" not in error_info.value.detail


class Wanted(msgspec.Struct):
    most: int | None = None
    seconds: Mapping[AlertName, Annotated[float, msgspec.Meta(ge=0)]] = {}


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("MOST", "many", "TEST_MOST: expected a whole number or nothing"),
        ("SECONDS", "NodeGone=1", "TEST_SECONDS: 'NodeGone' is not a valid choice."),
        ("SECONDS", "NodeLost=-1", "TEST_SECONDS: expected a number of 0 or more."),
        ("SECONDS", "NodeLost=1,NodeLost=2", "TEST_SECONDS has a name twice."),
    ],
)
def test_settings_are_refused_in_plain_words(variable: str, value: str, sentence: str) -> None:
    with pytest.raises(BadSettings) as error_info:
        read_values(Wanted, "TEST_", {}, {f"TEST_{variable}": value}, {}, {})
    assert error_info.value.detail.startswith(sentence)


def test_other_complaints() -> None:
    assert plain_message("Object contains unknown field `x`") == "unknown field `x`"


def test_unknown_messages_are_left_unchanged() -> None:
    assert plain_message("JSON is malformed (byte 3)") == "JSON is malformed (byte 3)"


def test_a_quoted_name_as_long_as_the_body_costs_no_more_than_a_short_one() -> None:
    """Its start and its end are kept, so that no pattern searches all of it again and again."""
    name = "matching regex '" * 60_000
    with pytest.raises(InvalidInput) as error_info:
        codec.decode_json(f'{TASK}, "{name}": 1}}', StrictTaskRequest)
    assert error_info.value.detail.startswith("The body is not valid: unknown field `matching")
    assert len(error_info.value.detail) < 1_000
