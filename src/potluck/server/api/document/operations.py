"""One operation of the document."""

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from potluck.server.api.document import about, problems
from potluck.server.api.document.parameters import parameters
from potluck.server.api.document.schemas import Schema, Schemas
from potluck.wire import routes
from potluck.wire.problem import Problem

if TYPE_CHECKING:
    from potluck.server.api.document.build import Described

_JSON, _OCTETS, _STREAM = "application/json", "application/octet-stream", "text/event-stream"
_BYTES: Final[Schema] = {"type": "string", "format": "binary"}
_TEXT: Final[Schema] = {"type": "string"}


def described(operation: "Described", schemas: Schemas) -> Schema:
    declared = operation.declared
    found: Schema = {
        "tags": [declared.area.name],
        "summary": declared.title,
        "description": _description(operation),
        "operationId": declared.name,
    }
    if not declared.scopes:
        found["security"] = []
    listed = parameters(operation.said)
    if _has_etag(operation):
        listed.append(about.IF_NONE_MATCH)
    if listed:
        found["parameters"] = listed
    if body := _body(operation, schemas):
        found["requestBody"] = body
    return {**found, "responses": _responses(operation, schemas)}


def _description(operation: "Described") -> str:
    """The handler's own words, and what the caller needs to be let in."""
    said = str(operation.said.get("description", ""))
    scopes = " or ".join(f"`{scope}`" for scope in operation.declared.scopes)
    needs = f"Takes the scope {scopes}." if scopes else "Open to everybody."
    return f"{said}\n\n{needs}".strip()


def _has_etag(operation: "Described") -> bool:
    return operation.method == "get" and not operation.is_stream


def _body(operation: "Described", schemas: Schemas) -> Schema | None:
    if operation.request is not None:
        schema = schemas.of_request(operation.request)
        content = {_JSON: _media(schema, _as_typed(operation.declared.request))}
        # A handler that has a value for the case that nothing comes needs no body.
        field = operation.handler.parsed_data_field
        return {"content": content, "required": field is not None and not field.has_default}
    if "requestBody" in operation.said:
        return {"content": {_OCTETS: _media(_BYTES, None)}, "required": True}
    return None


def _media(schema: Schema, example: Any) -> Schema:
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _responses(operation: "Described", schemas: Schemas) -> Schema:
    found: dict[str, Schema] = {_status(operation): _success(operation, schemas)}
    if _has_etag(operation):
        found["304"] = {"description": "It is what you have.", "headers": {"ETag": about.ETAG}}
    names = operation.said.get("parameters", [])
    wanted = problems.expected(
        is_open=not operation.declared.scopes,
        has_body="requestBody" in operation.said,
        # Whatever is not known is refused, also where nothing is.
        takes_input=operation.path.startswith(routes.PREFIX),
        has_name=any(each["in"] == "path" for each in names),
    )
    problem, errors = schemas.of_answer(Problem), operation.declared.errors
    return found | {
        str(each): problems.response(each, errors, problem)
        for each in sorted({*wanted, *(kind.status for kind in errors)})
    }


def _status(operation: "Described") -> str:
    return str(operation.handler.status_code)


def _success(operation: "Described", schemas: Schemas) -> Schema:
    if operation.answer is not None:
        schema = schemas.of_answer(operation.answer)
        said = _words(schema, schemas)
        content = {_JSON: _media(schema, _whole(operation.declared.response))}
        return {"description": said, **_headers(operation), "content": content}
    if operation.is_stream:
        content = {_STREAM: _media(_TEXT, operation.declared.response)}
        return {"description": "Events as they come, until there is no more.", "content": content}
    kind = operation.handler.media_type
    if _status(operation) == "204":
        return {"description": "Done."}
    if kind == _OCTETS:
        content = {_OCTETS: _media(_BYTES, None)}
        return {"description": "The bytes.", **_headers(operation), "content": content}
    content = {str(kind): _media(_TEXT, operation.declared.response)}
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


def _as_typed(value: Any) -> Any:
    """A request as somebody writes it: what has a default is left out."""
    if not isinstance(value, Struct):
        return [_as_typed(each) for each in value] if isinstance(value, tuple) else _plain(value)
    config = value.__struct_config__
    said = {field.encode_name: getattr(value, field.name) for field in _said_of(value)}
    if config.array_like:
        return [_as_typed(each) for each in said.values()]
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    return tag | {name: _as_typed(each) for name, each in said.items()}


def _said_of(value: Struct) -> list[msgspec.structs.FieldInfo]:
    """Of an array all fields, since their places tell them apart."""
    fields = list(msgspec.structs.fields(type(value)))
    if value.__struct_config__.array_like:
        return fields
    return [field for field in fields if getattr(value, field.name) != _default(field)]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
