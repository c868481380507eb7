"""Errors on the wire: RFC 9457 problem details with a stable code and a hint."""

from msgspec import Struct

from potluck.model import error
from potluck.model.error import PotluckError

CONTENT_TYPE = "application/problem+json"


class Problem(Struct, frozen=True):
    """The body of every error response."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    retryable: bool = False
    retry_after_seconds: float | None = None


def to_problem(raised: PotluckError) -> Problem:
    return Problem(
        type=f"urn:potluck:error:{raised.code}",
        title=raised.title,
        status=raised.status,
        detail=raised.detail,
        code=raised.code,
        hint=raised.hint,
        retryable=raised.retryable,
        retry_after_seconds=raised.retry_after_seconds,
    )


def to_error(problem: Problem) -> PotluckError:
    """Restores the error on the client."""
    kind = error.by_code(problem.code)
    return kind(problem.detail, problem.hint, problem.retry_after_seconds)
