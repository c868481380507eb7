"""Every operation of the document has an example, and every example is right."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import Struct
from msgspec import inspect as shapes

from potluck.model.ids import is_id
from potluck.server.api.examples import names
from potluck.server.api.operations import AREAS, OPERATIONS
from potluck.wire import codec
from tests.security.test_permission_matrix import PAGES
from tests.server.api.openapi_document import application, document, operations

HOW = "declare a title, a request and a response where its handler is, in src/potluck/server/api/"


def test_an_example_of_a_request_is_one() -> None:
    """As it is shown, without its defaults, the server's strict decoder reads what it was."""
    for operation in application():
        example = OPERATIONS[operation.name].request
        if operation.request is not None:
            assert example is not None, f"{operation.name} takes a body; {HOW}"
            (content,) = operations()[operation.name]["requestBody"]["content"].values()
            decoded = codec.decode_json(codec.encode_json(content["example"]), operation.request)
            assert decoded == example, operation.name


def test_an_example_of_an_answer_is_one() -> None:
    for operation in application():
        example = OPERATIONS[operation.name].response
        if operation.answer is not None:
            assert isinstance(example, Struct), f"{operation.name} answers with a value; {HOW}"
            decoded = codec.decode_json(codec.encode_json(example), operation.answer)
            assert msgspec.to_builtins(decoded) == msgspec.to_builtins(example), operation.name


def test_every_example_fits_its_schema() -> None:
    """Once for each schema: making a validator takes longer than asking it."""
    components, examples_by_schema = document()["components"], dict[str, list[Any]]()
    responses = list(components["responses"].values())
    for operation in [*operations().values(), {"responses": dict(enumerate(responses))}]:
        for content in _contents(operation):
            examples_by_schema.setdefault(json.dumps(content["schema"]), []).extend(
                _examples(content)
            )
    for schema, examples in examples_by_schema.items():
        full_schema = {**json.loads(schema), "components": components}
        validator = jsonschema_rs.validator_for(full_schema, validate_formats=True)
        wrong = [error.message for example in examples for error in validator.iter_errors(example)]
        assert not wrong, (schema, wrong)
    assert sum(map(len, examples_by_schema.values())) > len(OPERATIONS)


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - PAGES))
def test_an_operation_is_documented_in_full(name: str) -> None:
    operation = operations()[name]
    assert operation["tags"][0] in {area.name for area in AREAS}, HOW
    assert 3 < len(operation["summary"]) < 60 and operation["summary"] != operation["description"]
    assert len(operation["description"].partition("\n\n")[0]) > 15, (
        "say more in the handler's docstring"
    )
    for parameter in operation.get("parameters", []):
        is_described = "$ref" in parameter or len(parameter.get("description", "")) > 10
        assert is_described, f"give the parameter {parameter['name']} a `description`"
    assert (operation.get("security") == []) == (not OPERATIONS[name].scopes)


def test_the_ids_in_examples_are_ids() -> None:
    for name, parameter in names.IN_PATHS.items():
        kind = name.removesuffix("_id").replace("_", "")
        assert not name.endswith("_id") or is_id(parameter.example, kind), parameter
    paths = {name for operation in operations().values() for name in _path_names(operation)}
    assert paths == names.IN_PATHS.keys(), "examples/names.py tells of each name in a path"


def test_the_tags_come_in_the_order_of_the_flow() -> None:
    assert [tag["name"] for tag in document()["tags"]] == [
        area.name for area in AREAS if area.is_documented
    ]
    assert all(len(tag["description"]) > 30 for tag in document()["tags"])
    tags = list(dict.fromkeys(operation["tags"][0] for operation in operations().values()))
    assert tags[0] == "sign in" and tags[-1] == "operate"


def test_every_error_has_a_documented_answer() -> None:
    for response in document()["components"]["responses"].values():
        (kind,) = response["content"]
        assert kind == "application/problem+json" and response["description"]
    assert len(operations()) == len(OPERATIONS) - len(PAGES)


def test_examples_of_webhooks_agree_with_their_requests() -> None:
    examples = {name: OPERATIONS[f"{name}_webhook"] for name in ("change", "pause", "rotate")}
    assert examples["change"].response.name == examples["change"].request.name
    assert examples["pause"].response.pause.reason == "owner"
    assert examples["rotate"].response.webhook.old_secret_until is not None


def test_no_number_in_a_request_is_without_bounds() -> None:
    """MessagePack has a NaN, and no bound lets it through."""
    for operation in application():
        if operation.request is not None:
            assert not list(_unbounded(shapes.type_info(operation.request), set())), operation.name


def _contents(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a request and of the answers that are its own."""
    bodies = [operation["requestBody"]] if "requestBody" in operation else []
    parts = [*bodies, *operation["responses"].values()]
    return [content for part in parts for content in part.get("content", {}).values()]


def _examples(content: dict[str, Any]) -> list[Any]:
    examples = [example["value"] for example in content.get("examples", {}).values()]
    return [*examples, *([content["example"]] if "example" in content else [])]


def _path_names(operation: dict[str, Any]) -> list[str]:
    return [
        parameter["name"]
        for parameter in operation.get("parameters", [])
        if parameter.get("in") == "path"
    ]


def _unbounded(shape: Any, visited: set[type]) -> list[Any]:
    if isinstance(shape, shapes.FloatType):
        low, high = (shape.ge, shape.gt), (shape.le, shape.lt)
        return [] if low != (None, None) and high != (None, None) else [shape]
    if isinstance(shape, shapes.StructType):
        if shape.cls in visited:
            return []
        visited.add(shape.cls)
        return [
            bound_error for field in shape.fields for bound_error in _unbounded(field.type, visited)
        ]
    inner = [getattr(shape, name, None) for name in ("type", "item_type", "value_type")]
    inner += [*getattr(shape, "types", ()), *getattr(shape, "item_types", ())]
    return [
        bound_error
        for variant in inner
        if variant is not None
        for bound_error in _unbounded(variant, visited)
    ]
