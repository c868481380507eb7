"""The error responses of the document: by status, with an example for each code."""

from typing import Any

import msgspec

from potluck.model import error
from potluck.model.error import PotluckError
from potluck.server.api.document.schemas import Schema
from potluck.wire.problem import CONTENT_TYPE, Problem, to_problem

_PLACE = "#/components/responses/"
_RETRY_AFTER = {
    "description": "Whole seconds to wait before the next request.",
    "schema": {"type": "integer"},
}
_WAITS = (429, 503)


# An operation has these only if it declares them; all others apply to every operation.
_DECLARED = {
    *(error.AuthorizationPending, error.SlowDown, error.AccessDenied, error.CodeExpired),
    *(error.RegistrationClosed, error.QuotaExceeded, error.DeviceBound, error.StaleLease),
    error.DestinationRefused,
}


def responses(schema: Schema) -> dict[str, Schema]:
    """One response for each status, by name; `schema` is that of a problem."""
    return {
        usual[0].__name__: _response(status, usual, schema)
        for status, errors in _by_status().items()
        if (usual := [kind for kind in errors if kind not in _DECLARED])
    }


def response(status: int, errors: tuple[type[PotluckError], ...], schema: Schema) -> Schema:
    """The shared response of a status, or one with the codes that the operation declares."""
    found = _by_status()[status]
    usual = [kind for kind in found if kind not in _DECLARED]
    own = [kind for kind in found if kind in _DECLARED and kind in errors]
    if own or not usual:
        return _response(status, [*usual, *own], schema)
    return {"$ref": _PLACE + usual[0].__name__}


def expected(
    is_open: bool, is_read: bool, has_body: bool, takes_input: bool, has_name: bool
) -> set[int]:
    """The statuses that any operation of this shape may return; of 5xx only 503 is documented."""
    statuses = {406, 429, 431, 503}
    if not is_read:
        statuses |= {412}
    if not is_open:
        statuses |= {401, 403}
    if takes_input:
        statuses |= {400, 426}
    if has_name:
        statuses |= {404}
    if has_body:
        statuses |= {400, 413, 415}
    return statuses


def _by_status() -> dict[int, list[type[PotluckError]]]:
    by_status: dict[int, list[type[PotluckError]]] = {}
    for kind in error.network_errors():
        by_status.setdefault(kind.status, []).append(kind)
    return by_status


def _response(status: int, errors: list[type[PotluckError]], schema: Schema) -> Schema:
    codes = "\n".join(f"- `{kind.code}`: {kind.title}." for kind in errors)
    examples = {kind.code: {"summary": kind.title, "value": _example(kind)} for kind in errors}
    headers = {"headers": {"Retry-After": _RETRY_AFTER}} if status in _WAITS else {}
    content = {CONTENT_TYPE: {"schema": schema, "examples": examples}}
    return {"description": codes, **headers, "content": content}


def _example(kind: type[PotluckError]) -> Any:
    detail, hint = _SAID.get(kind.code, (f"{kind.title}.", ""))
    seconds = 1.0 if kind.status in _WAITS else None
    problem: Problem = to_problem(kind(detail, hint, seconds))
    return msgspec.to_builtins(problem)


# Realistic sentences and hints; the other codes use their title.
_SAID = {
    "invalid_input": (
        "The body is not valid: expected a whole number, got text - at `$.priority`.",
        "Compare it with /schema/openapi.json.",
    ),
    "unaffordable": (
        "It could cost up to 1.5 credits, but the account has 0.2.",
        "Lower --time or --max-price, or ask an admin for credit.",
    ),
    "not_signed_in": ("You are not signed in.", "Run `potluck login`."),
    "forbidden": ("This requires the scope `tasks:write`.", "Use a key that has it."),
    "quota_exceeded": ("You have 1000 tasks in the queue.", "Wait for some to start."),
    "not_found": (
        "There is no task 'task_01m7gm2q85jfaf9jspxrgzrx1c'.",
        "`potluck ps` lists your tasks.",
    ),
    "not_acceptable": (
        "This operation cannot answer with 'text/html'.",
        "Accept application/json or application/msgpack.",
    ),
    "conflict": (
        "This Idempotency-Key was used for another request.",
        "Use a new key for a new request.",
    ),
    "too_large": ("The body is over the limit.", "Send less at once."),
    "unsupported_media_type": (
        "The body has the content type 'text/plain'.",
        "Send `Content-Type: application/json`.",
    ),
    "rate_limited": ("Too many requests from your account.", "Wait a moment."),
    "unavailable": ("The database does not answer.", "Try again."),
}
