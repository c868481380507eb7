"""The document says what every operation may refuse, and which texts it takes."""

from typing import Any

import pytest

from potluck.model.bounded_types import PRINTABLE, portable_pattern
from tests.server.api.openapi_document import document, operations


@pytest.mark.parametrize("name", sorted(operations()))
def test_every_operation_may_refuse_large_headers(name: str) -> None:
    assert {"406", "429", "431", "503"} <= operations()[name]["responses"].keys()


def test_every_change_may_refuse_a_condition() -> None:
    for methods in document()["paths"].values():
        for method, operation in methods.items():
            assert ("412" in operation["responses"]) is (method != "get"), operation["operationId"]


# Texts without a pattern of visible characters, and why nobody is deceived by them.
EXEMPT = {
    "source": "content of the account's own task",
    "message": "must equal a text that the server can make itself",
    "origin": "must equal one of the server's own",
    "scopes": "must equal the one scope of node keys",
    "last_lines": "the end of its task's log; clients make it printable, like the log",
    "since": "a time, with a format instead of a pattern",
    "until": "the same",
    "ItemOutcome": "the same, of an item; its fields have no names",
    "CallPosition": "the id of an attempt; its fields have no names",
}


def _texts(schema: Any, field: str) -> list[tuple[str, str]]:
    """The patterns of all texts in a schema, by the field that they are in."""
    if isinstance(schema, list):
        return [text for item in schema for text in _texts(item, field)]
    if not isinstance(schema, dict):
        return []
    if schema.get("type") == "string" and not schema.keys() & {"enum", "const", "contentEncoding"}:
        return [(field, schema.get("pattern", ""))]
    inner = [
        text
        for name, property_schema in schema.get("properties", {}).items()
        for text in _texts(property_schema, name)
    ]
    return inner + [
        text
        for key in ("items", "prefixItems", "anyOf", "additionalProperties")
        for text in _texts(schema.get(key), field)
    ]


def test_every_text_that_others_see_has_visible_characters_only() -> None:
    """A text of a request has a pattern that excludes invisible characters, or is nobody else's."""
    references = {
        content["schema"].get("$ref", "").rpartition("/")[2]
        for operation in operations().values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
    }
    schemas = document()["components"]["schemas"]
    pending, seen_names = [name for name in references if name], set()
    while pending:
        name = pending.pop()
        if name not in seen_names:
            seen_names.add(name)
            pending += [schema for schema in schemas if f"'{_place(schema)}'" in str(schemas[name])]
    texts = {text for name in seen_names for text in _texts(schemas[name], name)}
    assert len(seen_names) > 30 and portable_pattern(PRINTABLE) in {pattern for _, pattern in texts}
    open_to_all = {field for field, pattern in texts if pattern in ("", "^[^\\x00]*$")}
    assert open_to_all <= EXEMPT.keys() | {"arguments", "command", "environment", "secrets"}


def _place(name: str) -> str:
    return f"#/components/schemas/{name}"
