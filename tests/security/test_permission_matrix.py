"""Who may do what, for every route, caller and object: as the policy page says, and no leaks.

What is somebody else's answers like what does not exist, word for word.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar, get

from potluck.model.account import Role
from potluck.server.api.http.access import check_policies
from potluck.server.api.operations import OPERATIONS
from tests.case_counts import counting_cases
from tests.processes import ServerProcess
from tests.security.permission_matrix import FOREIGN, MISSING, Answer, Matrix, Operation, operations
from tests.security.players import Player

# For people, not for programs: they are not in the document.
PAGES = {
    *("front_page", "join_page", "device_page", "docs_page", "runbook_page"),
    *("page_file", "dashboard_asset"),
}
# For these an account has to be more than their scope says.
ALSO_NEEDED = {"authorise_node_key": Role.PROVIDER}
# Here the lease in the body is looked at before the node, and that one is nobody's.
FENCED = {"append_log", "begin_node_upload", "get_input", "add_files", "keep_checkpoint"}
# About something of an attempt, which none of these machines has, or that was never sent.
OF_NO_ATTEMPT = {
    "put_node_part",
    "finish_node_upload",
    "redeliver",
    "remove_version",
    "task_result",
}
# About the rewards contract, which this pool does not have.
OF_NO_CONTRACT = {"rewards_contract", "claim_proof", "claim_fees", "send_claim"}
STATUSES = {
    "not_signed_in": 401,
    "account_suspended": 403,
    "forbidden": 403,
    "not_found": 404,
    "stale_lease": 409,
}

Seen = dict[tuple[str, str, str], Answer]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    directory = tmp_path_factory.mktemp("matrix")
    # Nobody beats here, and strangers are many.
    patient = {
        "POTLUCK_SILENT_AFTER_SECONDS": "600",
        "POTLUCK_LEASE_SECONDS": "1200",
        "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0",
        "POTLUCK_WEBHOOK_CALLS_PER_SECOND": "0",
        "POTLUCK_ESTIMATES_PER_SECOND": "0",
        "POTLUCK_EPOCH_SECONDS": "1",
        "POTLUCK_EPOCH_POLL_SECONDS": "0.2",
    }
    with ServerProcess(directory, 0, **patient) as server:
        yield Matrix(server)


@pytest.mark.timeout(600)
def test_everybody_gets_what_the_policy_says(
    matrix: Matrix, request: pytest.FixtureRequest
) -> None:
    documented = {operation.name for operation in matrix.operations}
    assert documented == set(OPERATIONS) - PAGES, "the document keeps no route to itself"
    assert not any(OPERATIONS[page].scopes for page in PAGES)
    answers: Seen = {}
    with counting_cases(request) as tally:
        for player in matrix.players:
            for operation, ownership in matrix.cells(player):
                with tally(f"matrix, {player.name}", f"{operation.name}, {ownership}"):
                    answer = matrix.ask(operation, player, ownership)
                    answers[operation.name, player.name, ownership] = answer
                    check(matrix, operation, player, ownership, answer)
                    check_alike(answers, operation, player, ownership)
        with tally("matrix, what is the other's", "is as it was"):
            assert matrix.is_other_untouched()
        tally.note(
            f"matrix: {len(answers)} cells of {len(matrix.operations)} operations"
            f" and {len(matrix.players)} callers"
        )


def check(
    matrix: Matrix, operation: Operation, player: Player, ownership: str, answer: Answer
) -> None:
    assert answer.status < 500, answer
    expected = expected_refusal(operation, player, ownership)
    if expected is not None:
        assert (answer.status, answer.code) == (STATUSES[expected], expected), answer
        assert expected != "not_signed_in" or answer == matrix.refusal
    elif operation.scopes:
        assert answer.code not in STATUSES or operation.name in FENCED, answer
    if Role.ADMIN not in player.roles:
        assert not matrix.told(answer), answer


def expected_refusal(operation: Operation, player: Player, ownership: str) -> str | None:
    if (denial := player.denial(operation.scopes)) is not None:
        return denial
    if ownership == MISSING or (ownership == FOREIGN and operation.is_owned):
        return "stale_lease" if operation.name in FENCED else "not_found"
    if operation.name in OF_NO_ATTEMPT | OF_NO_CONTRACT:
        return "not_found"
    needed = ALSO_NEEDED.get(operation.name)
    return "forbidden" if needed is not None and needed not in player.roles else None


def check_alike(answers: Seen, operation: Operation, player: Player, ownership: str) -> None:
    answer = answers[operation.name, player.name, ownership]
    if not operation.scopes:
        # A credential changes nothing where none is asked for.
        anonymous = answers[operation.name, "anonymous", ownership]
        assert (answer.status, answer.code) == (anonymous.status, anonymous.code)
    if ownership == MISSING and operation.is_owned:
        assert answer == answers[operation.name, player.name, FOREIGN], "that it exists can be told"


def test_a_route_without_a_policy_does_not_start() -> None:
    @get("/unheard-of", operation_id="unheard_of")
    async def unheard_of() -> None: ...

    with pytest.raises(AssertionError, match="/unheard-of has no policy"):
        check_policies(Litestar(route_handlers=[unheard_of], openapi_config=None))


@pytest.mark.parametrize(
    ("path", "operation", "complaint"),
    [
        ("/v1/x", {"operationId": "unheard_of"}, "has no policy"),
        ("/v1/x/{x_id}", {"operationId": "me"}, "nobody here can make"),
        ("/v1/x", {"operationId": "me", "requestBody": {}}, "takes a body"),
        ("/v1/{task_id}/{x_id}", {"operationId": "me"}, "fill"),
    ],
)
def test_a_route_that_the_matrix_does_not_know_is_noticed(
    path: str, operation: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        operations({"paths": {path: {"post": operation}}})
