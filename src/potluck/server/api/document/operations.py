"""One operation of the document."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from potluck.server.api.document import about, problems
from potluck.server.api.document.parameters import parameters
from potluck.server.api.document.schemas import Schema, Schemas
from potluck.server.api.examples import AREAS, EXAMPLES
from potluck.server.api.examples.example import Example, as_typed
from potluck.server.auth.policy import OPEN, POLICY, opened_by
from potluck.wire import routes
from potluck.wire.problem import Problem

if TYPE_CHECKING:
    from potluck.server.api.document.build import Described

_JSON, _OCTETS, _STREAM = "application/json", "application/octet-stream", "text/event-stream"
_BYTES: Final[Schema] = {"type": "string", "format": "binary"}
_TEXT: Final[Schema] = {"type": "string"}
_UNKNOWN = "more"  # where no area knows it


def described(operation: "Described", schemas: Schemas) -> Schema:
    name = operation.name
    example = EXAMPLES.get(name) or Example(name.replace("_", " ").capitalize())
    found: Schema = {
        "tags": [_area_of(name)],
        "summary": example.title,
        "description": _description(operation),
        "operationId": name,
    }
    if POLICY.get(name) is OPEN:
        found["security"] = []
    listed = parameters(operation.said)
    if _has_etag(operation):
        listed.append(about.IF_NONE_MATCH)
    if listed:
        found["parameters"] = listed
    if body := _body(operation, schemas, example):
        found["requestBody"] = body
    return {**found, "responses": _responses(operation, schemas, example)}


def _description(operation: "Described") -> str:
    """The handler's own words, and what the caller needs to be let in."""
    said = str(operation.said.get("description", ""))
    scopes = " or ".join(f"`{scope}`" for scope in opened_by(operation.name))
    needs = f"Takes the scope {scopes}." if scopes else "Open to everybody."
    return f"{said}\n\n{needs}".strip()


def _area_of(name: str) -> str:
    return next((area.name for area in AREAS if name in area.operations), _UNKNOWN)


def _has_etag(operation: "Described") -> bool:
    return operation.method == "get" and not operation.is_stream


def _body(operation: "Described", schemas: Schemas, example: Example) -> Schema | None:
    if operation.request is not None:
        schema = schemas.of_request(operation.request)
        content = {_JSON: _media(schema, as_typed(example.request))}
        # A handler that has a value for the case that nothing comes needs no body.
        field = operation.handler.parsed_data_field
        return {"content": content, "required": field is not None and not field.has_default}
    if "requestBody" in operation.said:
        return {"content": {_OCTETS: _media(_BYTES, None)}, "required": True}
    return None


def _media(schema: Schema, example: Any) -> Schema:
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _responses(operation: "Described", schemas: Schemas, example: Example) -> Schema:
    found: dict[str, Schema] = {_status(operation): _success(operation, schemas, example)}
    if _has_etag(operation):
        found["304"] = {"description": "It is what you have.", "headers": {"ETag": about.ETAG}}
    names = operation.said.get("parameters", [])
    wanted = problems.expected(
        is_open=POLICY.get(operation.name) is OPEN,
        has_body="requestBody" in operation.said,
        # Whatever is not known is refused, also where nothing is.
        takes_input=operation.path.startswith(routes.PREFIX),
        has_name=any(each["in"] == "path" for each in names),
    )
    problem = schemas.of_answer(Problem)
    return found | {
        str(each): problems.response(each, operation.name, problem)
        for each in sorted({*wanted, *example.also})
    }


def _status(operation: "Described") -> str:
    return str(operation.handler.status_code)


def _success(operation: "Described", schemas: Schemas, example: Example) -> Schema:
    if operation.answer is not None:
        schema = schemas.of_answer(operation.answer)
        said = _words(schema, schemas)
        content = {_JSON: _media(schema, _whole(example.answer))}
        return {"description": said, **_headers(operation), "content": content}
    if operation.is_stream:
        content = {_STREAM: _media(_TEXT, example.answer)}
        return {"description": "Events as they come, until there is no more.", "content": content}
    kind = operation.handler.media_type
    if _status(operation) == "204":
        return {"description": "Done."}
    if kind == _OCTETS:
        content = {_OCTETS: _media(_BYTES, None)}
        return {"description": "The bytes.", **_headers(operation), "content": content}
    content = {str(kind): _media(_TEXT, example.answer)}
    return {"description": "The text.", **_headers(operation), "content": content}


def _words(schema: Schema, schemas: Schemas) -> str:
    """What the type of the answer says of itself, in its first paragraph."""
    name = schema.get("$ref", "").rpartition("/")[2]
    said = str(schemas.components.get(name, {}).get("description", ""))
    return said.partition("\n\n")[0].replace("\n", " ") or "Done."


def _headers(operation: "Described") -> Schema:
    if not _has_etag(operation):
        return {}
    is_page = any(each["name"] == "cursor" for each in operation.said.get("parameters", []))
    return {"headers": {"ETag": about.ETAG, **({"Link": about.LINK} if is_page else {})}}


def _whole(value: Any) -> Any:
    return None if value is None else msgspec.to_builtins(value)
