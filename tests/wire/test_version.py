"""Which version sends a request, and how a client explains a refusal by it."""

import pytest

from potluck.model.ids import AttemptId
from potluck.model.lease import Lease
from potluck.model.task import EndReason, Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.codec import decode_json, encode_json, encode_request
from potluck.wire.own_machines import LeaveNode
from potluck.wire.provider import Finished, ItemOutcome, ItemsDone, Reports, for_earlier_server
from potluck.wire.results import SubmitTasks
from potluck.wire.strict_types import StrictTaskRequest
from potluck.wire.version import explain_difference, is_earlier, minor_version, parse_user_agent


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        ("potluck/0.1.0", "0.1.0"),
        ("potluck/0.2.0+h3f2a9c0b71d4 extra", "0.2.0+h3f2a9c0b71d4"),
        ("Python/3.11 aiohttp/3.12", None),
        ("not-potluck/1.0", None),
        ("", None),
    ],
)
def test_the_version_is_in_the_user_agent(agent: str, version: str | None) -> None:
    assert parse_user_agent(agent) == version


def test_minor_versions_are_compared_as_numbers() -> None:
    assert is_earlier("0.9.5", "0.10.0") and not is_earlier("0.10.0", "0.9.5")
    assert not is_earlier("0.2.0", "0.2.9"), "fixes change nothing between programs"
    assert not is_earlier("nightly", "0.2.0") and minor_version("nightly") is None


def test_a_difference_is_explained_with_what_to_do() -> None:
    assert "Ask its operator to upgrade" in explain_difference("0.2.0", "0.1.0")
    assert "upgrade the client" in explain_difference("0.2.0", "0.3.0")
    assert explain_difference("0.2.0", "0.2.1") == explain_difference("0.2.0", "") == ""


def test_a_request_has_only_what_differs_from_its_defaults() -> None:
    """So that a server which does not know a new field takes it, unless somebody has set it."""
    request = TaskRequest(ScriptSpec("s.py", "print(1)"), requirements=Requirements(cores=2))
    sent = encode_request(request)
    assert sent == (
        b'{"spec":{"kind":"script","filename":"s.py","source":"print(1)"},'
        b'"requirements":{"cores":2}}'
    )
    strict = decode_json(sent, StrictTaskRequest)
    assert encode_json(strict) == encode_json(request)


def test_of_an_array_like_struct_only_trailing_fields_are_omitted() -> None:
    outcome = ItemOutcome(3, EndReason.COMPLETED, 0.5, 0)
    assert encode_request(outcome) == b'[3,"completed",0.5,0]'
    assert decode_json(encode_request(outcome), ItemOutcome) == outcome
    failed = ItemOutcome(3, EndReason.EXCEPTION, 0.5, last_lines="why")
    assert decode_json(encode_request(failed), ItemOutcome) == failed


def test_an_earlier_server_gets_what_it_knows() -> None:
    lease = Lease(AttemptId("attempt_1"), "x" * 40)
    finished = Finished(lease, EndReason.EXIT_STATUS, 1, last_lines="why")
    items = ItemsDone(lease, (ItemOutcome(3, EndReason.EXCEPTION, 0.5, last_lines="why"),))
    sent = encode_request(for_earlier_server(Reports((finished, items))))
    assert b"last_lines" not in sent and b"why" not in sent
    assert b'[3,"exception",0.5]' in sent


def test_lists_and_empty_requests_are_as_they_were() -> None:
    task = TaskRequest(ScriptSpec("s.py", "print(1)"))
    assert encode_request(SubmitTasks((task, task))).count(b'"kind":"script"') == 2
    assert encode_request(LeaveNode()) == b"{}"
