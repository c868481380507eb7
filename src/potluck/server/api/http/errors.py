"""Every error response is a problem detail, including errors of the framework."""

import asyncio
from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, NotFoundException
from structlog.contextvars import get_contextvars

from potluck.model import error
from potluck.model.decode_errors import plain_message
from potluck.model.error import LocalError, PotluckError
from potluck.server.api.http import query
from potluck.server.api.http.dashboard_files import navigation_response
from potluck.wire import problem

log = structlog.get_logger()

_FRAMEWORK = {
    401: error.NotSignedIn,
    403: error.Forbidden,
    404: error.NotFound,
    405: error.MethodNotAllowed,
    413: error.TooLarge,
    415: error.UnsupportedMediaType,
    429: error.RateLimited,
    503: error.Unavailable,
}


def answer_error(request: Request[Any, Any, Any], raised: Exception) -> Response[Any]:
    if isinstance(raised, NotFoundException) and (page := navigation_response(request)) is not None:
        return page
    error = _translate(request, raised)
    headers = {}
    if error.status in (429, 503):
        headers["Retry-After"] = str(max(1, round(error.retry_after_seconds or 1)))
    if error.status == 405 and isinstance(raised, HTTPException):
        allowed = (raised.headers or {}).get("allow", "")
        headers["Allow"] = ", ".join(sorted(allowed.split(", ")))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        problem.to_problem(error),
        status_code=error.status,
        media_type=problem.CONTENT_TYPE,
        headers=headers,
    )


def _translate(request: Request[Any, Any, Any], raised: Exception) -> PotluckError:
    if isinstance(raised, PotluckError) and not isinstance(raised, LocalError):
        return raised
    if isinstance(raised, HTTPException) and raised.status_code < 500:
        return _framework_error(request, raised)
    if isinstance(raised, msgspec.MsgspecError | UnicodeError | RecursionError):
        return error.InvalidInput("The body cannot be read.", "Send valid JSON in UTF-8.")
    if isinstance(raised, asyncio.TimeoutError | ConnectionError):
        return error.Unavailable(
            "A service that the server needs does not respond.", "Try again.", 1.0
        )
    log.error("request failed", path=request.url.path, exc_info=raised)
    if isinstance(raised, LocalError):  # its text names files and commands of this machine
        return error.Internal("The server's settings are not valid.", "See its log.")
    request_id = get_contextvars().get("request_id", "")
    return error.Internal(
        f"Internal error; the server has logged it (request {request_id}).", "Try again later."
    )


def _framework_error(request: Request[Any, Any, Any], raised: HTTPException) -> PotluckError:
    kind = _FRAMEWORK.get(raised.status_code, error.InvalidInput)
    if kind is error.NotFound:
        return kind(f"No operation has the path {request.url.path}.", "See /schema/openapi.json.")
    if kind is error.MethodNotAllowed:
        return kind(f"{request.url.path} does not support {request.method}.")
    if kind is error.TooLarge:
        return kind("The body exceeds the limit.", "Send less at once.")
    return kind(_sentence(request, raised), "Compare the request with /schema/openapi.json.")


def _sentence(request: Request[Any, Any, Any], raised: HTTPException) -> str:
    """The details from the framework's list of errors, if it has one."""
    extra = raised.extra if isinstance(raised.extra, list) else []
    if any(item.get("key") == "data" for item in extra):
        return "The request has no body."
    parts = [_wrong(request.route_handler, **item) for item in extra]
    return f"{'; '.join(parts)}." if parts else raised.detail


def _wrong(handler: Any, key: str = "", message: str = "", **_: Any) -> str:
    """The error of one parameter, by its public name, with its allowed values."""
    sentence = f"{query.public_name(handler, key)}: {plain_message(message)}"
    choices = query.choices(handler, key)
    return f"{sentence} (choose from {', '.join(choices)})" if choices else sentence
