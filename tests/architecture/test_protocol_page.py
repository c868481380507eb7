"""The examples in docs/protocol.md are messages: each decodes as the type that its fence names."""

import json
from typing import Any

import msgspec
import pytest

from potluck.wire import codec, problem, provider
from tests.architecture.repository_files import DOCS, code_blocks

KINDS: dict[str, Any] = {
    **{name: kind for name, kind in vars(provider).items() if isinstance(kind, type)},
    "Problem": problem.Problem,
}
EXAMPLES = [
    (fence.split()[1], body)
    for fence, body in code_blocks((DOCS / "protocol.md").read_text())
    if fence.startswith("json ")
]
# Each of these is sent or answered as a whole; the others are parts of them.
MESSAGES = {
    *("RegisterNode", "NodeRegistered", "AcquireLeases", "LeasesGranted", "Heartbeat"),
    *("HeartbeatAnswer", "Reports", "ReportAnswers", "LogAppended", "Problem"),
}


@pytest.mark.parametrize(("name", "body"), EXAMPLES)
def test_an_example_decodes_and_says_nothing_unknown(name: str, body: str) -> None:
    value = codec.decode_json(body, KINDS[name])
    encoded_again = json.loads(msgspec.json.encode(value))
    assert _is_part(json.loads(body), encoded_again), (
        f"the example has fields that {name} does not know"
    )


def test_every_message_has_an_example() -> None:
    assert {name for name, _ in EXAMPLES} >= MESSAGES


def _is_part(part: Any, whole: Any) -> bool:
    """Defaults may be left out of an example; what is shown must come back."""
    if isinstance(part, dict):
        return all(key in whole and _is_part(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(_is_part, part, whole))
    return bool(part == whole)
