"""One operation of the document."""

from enum import Enum
from typing import Any, Final

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import ServerSentEvent
from litestar.typing import FieldDefinition
from msgspec import Struct

from potluck.server.api.area import Operation
from potluck.server.api.document import about, problems
from potluck.server.api.document.parameters import parameters
from potluck.server.api.document.schemas import Schema, Schemas
from potluck.wire import routes
from potluck.wire.problem import Problem

_JSON, _OCTETS, _STREAM = "application/json", "application/octet-stream", "text/event-stream"
_BYTES: Final[Schema] = {"type": "string", "format": "binary"}
_TEXT: Final[Schema] = {"type": "string"}


class Described(Struct, frozen=True):
    """An operation as declared, and as the framework describes it."""

    declared: Operation
    handler: HTTPRouteHandler
    described: dict[str, Any]  # the framework's description, for its parameters

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def path(self) -> str:
        return self.declared.route.path

    @property
    def method(self) -> str:
        return self.declared.route.method.lower()

    @property
    def request(self) -> Any:
        """The type of its body, if that is a value."""
        field = self.handler.parsed_data_field
        return None if field is None else field.annotation

    @property
    def answer(self) -> Any:
        """The type of its response, if that is a value."""
        field = self.handler.parsed_return_field
        if field.is_subclass_of(Response):
            inner = field.inner_types[0].annotation if field.inner_types else None
            return inner if isinstance(inner, type) and issubclass(inner, Struct) else None
        return None if field.annotation in (None, type(None), bytes, str) else field.annotation

    @property
    def choices(self) -> list[type[Enum]]:
        """The enums among its parameters, which may be in no body."""
        fields = list(self.handler.parsed_fn_signature.parameters.values())
        kinds = [kind for field in fields for kind in _kinds(field)]
        return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)]

    @property
    def is_stream(self) -> bool:
        return self.handler.parsed_return_field.is_subclass_of(ServerSentEvent)


def described(operation: Described, schemas: Schemas) -> Schema:
    declared = operation.declared
    described: Schema = {
        "tags": [declared.area.name],
        "summary": declared.title,
        "description": _description(operation),
        "operationId": declared.name,
    }
    if not declared.scopes:
        described["security"] = []
    listed = parameters(operation.described)
    if _has_etag(operation):
        listed.append(about.IF_NONE_MATCH)
    if listed:
        described["parameters"] = listed
    if body := _body(operation, schemas):
        described["requestBody"] = body
    return {**described, "responses": _responses(operation, schemas)}


def _description(operation: Described) -> str:
    """The handler's docstring, and the required scope."""
    description = str(operation.described.get("description", ""))
    scopes = " or ".join(f"`{scope}`" for scope in operation.declared.scopes)
    needs = f"Requires the scope {scopes}." if scopes else "Requires no credential."
    return f"{description}\n\n{needs}".strip()


def _kinds(field: FieldDefinition) -> list[Any]:
    return [field.annotation, *(kind for inner in field.inner_types for kind in _kinds(inner))]


def _has_etag(operation: Described) -> bool:
    return operation.method == "get" and not operation.is_stream


def _body(operation: Described, schemas: Schemas) -> Schema | None:
    if operation.request is not None:
        schema = schemas.of_request(operation.request)
        content = {_JSON: _media(schema, _as_typed(operation.declared.request))}
        # A handler with a default for `data` needs no body.
        field = operation.handler.parsed_data_field
        return {"content": content, "required": field is not None and not field.has_default}
    if "requestBody" in operation.described:
        return {"content": {_OCTETS: _media(_BYTES, None)}, "required": True}
    return None


def _media(schema: Schema, example: Any) -> Schema:
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _responses(operation: Described, schemas: Schemas) -> Schema:
    responses: dict[str, Schema] = {_status(operation): _success(operation, schemas)}
    if _has_etag(operation):
        responses["304"] = {"description": "Not modified.", "headers": {"ETag": about.ETAG}}
    names = operation.described.get("parameters", [])
    wanted = problems.expected(
        is_open=not operation.declared.scopes,
        is_read=operation.method == "get",
        has_body="requestBody" in operation.described,
        # Unknown names are refused, also where an operation takes none.
        takes_input=operation.path.startswith(routes.PREFIX),
        has_name=any(parameter["in"] == "path" for parameter in names),
    )
    problem, errors = schemas.of_answer(Problem), operation.declared.errors
    return responses | {
        str(status): problems.response(status, errors, problem)
        for status in sorted({*wanted, *(kind.status for kind in errors)})
    }


def _status(operation: Described) -> str:
    return str(operation.handler.status_code)


def _success(operation: Described, schemas: Schemas) -> Schema:
    if operation.answer is not None:
        schema = schemas.of_answer(operation.answer)
        description = _words(schema, schemas)
        content = {_JSON: _media(schema, _whole(operation.declared.response))}
        return {"description": description, **_headers(operation), "content": content}
    if operation.is_stream:
        content = {_STREAM: _media(_TEXT, operation.declared.response)}
        return {"description": "A stream of events.", "content": content}
    kind = operation.handler.media_type
    if _status(operation) == "204":
        return {"description": "Done."}
    if kind == _OCTETS:
        content = {_OCTETS: _media(_BYTES, None)}
        return {"description": "The bytes.", **_headers(operation), "content": content}
    content = {str(kind): _media(_TEXT, operation.declared.response)}
    return {"description": "The text.", **_headers(operation), "content": content}


def _words(schema: Schema, schemas: Schemas) -> str:
    """The first paragraph of the response type's description."""
    name = schema.get("$ref", "").rpartition("/")[2]
    description = str(schemas.components.get(name, {}).get("description", ""))
    return description.partition("\n\n")[0].replace("\n", " ") or "Done."


def _headers(operation: Described) -> Schema:
    if not _has_etag(operation):
        return {}
    is_page = any(
        parameter["name"] == "cursor" for parameter in operation.described.get("parameters", [])
    )
    return {"headers": {"ETag": about.ETAG, **({"Link": about.LINK} if is_page else {})}}


def _whole(value: Any) -> Any:
    return None if value is None else msgspec.to_builtins(value)


def _as_typed(value: Any) -> Any:
    """A request as a client would write it: without fields that have their default."""
    if not isinstance(value, Struct):
        return [_as_typed(item) for item in value] if isinstance(value, tuple) else _plain(value)
    config = value.__struct_config__
    values = {field.encode_name: getattr(value, field.name) for field in _fields_with_values(value)}
    if config.array_like:
        return [_as_typed(item) for item in values.values()]
    tag = {} if config.tag_field is None else {config.tag_field: config.tag}
    return tag | {name: _as_typed(item) for name, item in values.items()}


def _fields_with_values(value: Struct) -> list[msgspec.structs.FieldInfo]:
    """Fields that differ from their default; of an array all, since it is positional."""
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
