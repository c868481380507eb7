"""Placeholders for items in arguments: `{}` is the item, `{lr}` one of its fields.

`{item}` is the item's number, and `{{lr}}` is a literal `{lr}`. Braces around anything but a name,
and shell variables, are left alone, so that nested JSON and `${HOME}` need no escaping.
"""

import difflib
import re
from collections.abc import Container, Iterable, Sequence

from potluck.cli.request.items import Item, field_names, variable_name
from potluck.cli.terminal.screen import printable
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.task_spec import MOST_ITEM_BYTES, ItemInputs
from potluck.wire.codec import decode_json, encode_json

_NUMBER = "item"
_NAME = r"[^\W\d][\w -]*|"
# An escaped placeholder, or one to fill in.
_PLACEHOLDER = re.compile(rf"\{{\{{(?:{_NAME})\}}\}}|(?<!\$)\{{({_NAME})\}}")


def build_item_inputs(words: Sequence[str], items: Sequence[Item]) -> list[ItemInputs]:
    """The arguments and variables of each item.

    Without words the item is the only argument; words without placeholders are the same for all.
    """
    fields = field_names(items)
    _check(words, {*fields, _NUMBER}, fields)
    _check_variables(fields)
    template = tuple(words) or ("{}",)
    has_placeholders = any(map(_PLACEHOLDER.search, template))
    inputs = []
    for number, item in enumerate(items):
        own = tuple(_fill(word, item, number) for word in template) if has_placeholders else None
        inputs.append(_check_item(ItemInputs(_variables(item), own), number))
    return inputs


def _check(words: Sequence[str], names: Container[str], fields: Iterable[str]) -> None:
    for word in words:
        for match in _PLACEHOLDER.finditer(word):
            name = match[1]
            if name and name not in names:
                raise _unknown(name, [*fields, _NUMBER])


def _check_variables(fields: Iterable[str]) -> None:
    """Refuses two fields that share a variable."""
    taken: dict[str, str] = {}
    for field in fields:
        name = variable_name(field)
        if name in taken:
            raise InvalidInput(
                f"The fields {printable(taken[name])!r} and {printable(field)!r} would share the"
                f" variable POTLUCK_FIELD_{name}.",
                "Give one of them another name.",
            )
        taken[name] = field


def _unknown(name: str, names: list[str]) -> InvalidInput:
    near = difflib.get_close_matches(name, names, 1)
    question = f"Did you mean {{{printable(near[0])}}}? " if near else ""
    listed = ", ".join(f"{{{printable(valid)}}}" for valid in ("", *names[:20]))
    return InvalidInput(
        f"No item has a field {printable(name)!r}.",
        f"{question}Valid names: {listed}; write {{{{{printable(name)}}}}} for literal braces.",
    )


def _fill(word: str, item: Item, number: int) -> str:
    """A field that this item lacks but others have is empty."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][1:-1]
        if not name:
            return item.value
        return item.fields.get(name, str(number) if name == _NUMBER else "")

    return _PLACEHOLDER.sub(fill, word)


def _variables(item: Item) -> dict[str, str]:
    fields = {f"POTLUCK_FIELD_{variable_name(name)}": text for name, text in item.fields.items()}
    return {"POTLUCK_ITEM_VALUE": item.value, **fields}


def _check_item(inputs: ItemInputs, number: int) -> ItemInputs:
    if any("\0" in text for text in (*inputs.environment.values(), *(inputs.arguments or ()))):
        raise InvalidInput(
            f"Item {number} contains a NUL, which is invalid in variables.", "Remove it."
        )
    encoded = encode_json(inputs)
    if len(encoded) > MOST_ITEM_BYTES:
        raise TooLarge(
            f"Item {number} has more than {MOST_ITEM_BYTES >> 10} KiB.",
            "Put each item into its own file, and name the files with a pattern.",
        )
    try:
        return decode_json(encoded, ItemInputs)
    except InvalidInput as error:
        raise InvalidInput(
            f"Item {number} cannot be passed to a task: {error.detail}",
            "An item may have 250 fields, with names of up to 100 characters.",
        ) from error
