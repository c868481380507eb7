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
from tests.security.test_matrix import PAGES
from tests.server.api.described import application, document, operations

HOW = "declare a title, a request and a response where its handler is, in src/potluck/server/api/"


def test_an_example_of_a_request_is_one() -> None:
    """As it is shown, without its defaults, the server's strict decoder reads what it was."""
    for each in application():
        example = OPERATIONS[each.name].request
        if each.request is not None:
            assert example is not None, f"{each.name} takes a body; {HOW}"
            (shown,) = operations()[each.name]["requestBody"]["content"].values()
            decoded = codec.decode_json(codec.encode_json(shown["example"]), each.request)
            assert decoded == example, each.name


def test_an_example_of_an_answer_is_one() -> None:
    for each in application():
        example = OPERATIONS[each.name].response
        if each.answer is not None:
            assert isinstance(example, Struct), f"{each.name} answers with a value; {HOW}"
            decoded = codec.decode_json(codec.encode_json(example), each.answer)
            assert msgspec.to_builtins(decoded) == msgspec.to_builtins(example), each.name


def test_every_example_fits_its_schema() -> None:
    """Once for each schema: making a validator takes longer than asking it."""
    components, found = document()["components"], dict[str, list[Any]]()
    responses = list(components["responses"].values())
    for said in [*operations().values(), {"responses": dict(enumerate(responses))}]:
        for content in _contents(said):
            found.setdefault(json.dumps(content["schema"]), []).extend(_examples(content))
    for schema, examples in found.items():
        whole = {**json.loads(schema), "components": components}
        validator = jsonschema_rs.validator_for(whole, validate_formats=True)
        wrong = [error.message for each in examples for error in validator.iter_errors(each)]
        assert not wrong, (schema, wrong)
    assert sum(map(len, found.values())) > len(OPERATIONS)


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - PAGES))
def test_an_operation_is_documented_in_full(name: str) -> None:
    said = operations()[name]
    assert said["tags"][0] in {area.name for area in AREAS}, HOW
    assert 3 < len(said["summary"]) < 60 and said["summary"] != said["description"]
    assert len(said["description"].partition("\n\n")[0]) > 15, "say more in the handler's docstring"
    for parameter in said.get("parameters", []):
        told = "$ref" in parameter or len(parameter.get("description", "")) > 10
        assert told, f"give the parameter {parameter['name']} a `description`"
    assert (said.get("security") == []) == (not OPERATIONS[name].scopes)


def test_the_ids_in_examples_are_ids() -> None:
    for name, named in names.IN_PATHS.items():
        kind = name.removesuffix("_id").replace("_", "")
        assert not name.endswith("_id") or is_id(named.example, kind), named
    paths = {name for each in operations().values() for name in _path_names(each)}
    assert paths == names.IN_PATHS.keys(), "examples/names.py tells of each name in a path"


def test_the_tags_come_in_the_order_of_the_flow() -> None:
    assert [tag["name"] for tag in document()["tags"]] == [
        area.name for area in AREAS if area.is_documented
    ]
    assert all(len(tag["description"]) > 30 for tag in document()["tags"])
    shown = list(dict.fromkeys(each["tags"][0] for each in operations().values()))
    assert shown[0] == "sign in" and shown[-1] == "operate"


def test_every_error_has_a_documented_answer() -> None:
    for response in document()["components"]["responses"].values():
        (kind,) = response["content"]
        assert kind == "application/problem+json" and response["description"]
    assert len(operations()) == len(OPERATIONS) - len(PAGES)


def test_a_webhook_s_examples_show_what_was_asked_for() -> None:
    shown = {name: OPERATIONS[f"{name}_webhook"] for name in ("change", "pause", "rotate")}
    assert shown["change"].response.name == shown["change"].request.name
    assert shown["pause"].response.pause.reason == "owner"
    assert shown["rotate"].response.webhook.old_secret_until is not None


def test_no_number_in_a_request_is_without_bounds() -> None:
    """MessagePack has a NaN, and no bound lets it through."""
    for each in application():
        if each.request is not None:
            assert not list(_unbounded(shapes.type_info(each.request), set())), each.name


def _contents(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a request and of the answers that are its own."""
    bodies = [said["requestBody"]] if "requestBody" in said else []
    found = [*bodies, *said["responses"].values()]
    return [content for each in found for content in each.get("content", {}).values()]


def _examples(content: dict[str, Any]) -> list[Any]:
    several = [each["value"] for each in content.get("examples", {}).values()]
    return [*several, *([content["example"]] if "example" in content else [])]


def _path_names(said: dict[str, Any]) -> list[str]:
    return [each["name"] for each in said.get("parameters", []) if each.get("in") == "path"]


def _unbounded(shape: Any, seen: set[type]) -> list[Any]:
    if isinstance(shape, shapes.FloatType):
        low, high = (shape.ge, shape.gt), (shape.le, shape.lt)
        return [] if low != (None, None) and high != (None, None) else [shape]
    if isinstance(shape, shapes.StructType):
        if shape.cls in seen:
            return []
        seen.add(shape.cls)
        return [found for field in shape.fields for found in _unbounded(field.type, seen)]
    inner = [getattr(shape, name, None) for name in ("type", "item_type", "value_type")]
    inner += [*getattr(shape, "types", ()), *getattr(shape, "item_types", ())]
    return [found for each in inner if each is not None for found in _unbounded(each, seen)]
