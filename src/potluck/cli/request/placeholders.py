"""What stands for an item in the words of a command: `{}` is all of it, `{lr}` one of its fields.

`{item}` is its number, and `{{lr}}` is `{lr}` itself. What is no name between braces is left as it
is, and so are a shell's variables, so that JSON, however deep, and `${HOME}` may be written without
thinking of it.
"""

import difflib
import re
from collections.abc import Container, Iterable, Sequence

from potluck.cli.request.items import Item, field_names, variable_name
from potluck.cli.terminal.screen import printable
from potluck.model.error import InvalidInput, TooLarge
from potluck.model.item_input import MOST_ITEM_BYTES, ItemInputs
from potluck.wire.codec import decode_json, encode_json

_NUMBER = "item"
_NAME = r"[^\W\d][\w -]*|"
# A place that is meant as it stands, or one to fill in.
_PLACE = re.compile(rf"\{{\{{(?:{_NAME})\}}\}}|(?<!\$)\{{({_NAME})\}}")


def given(words: Sequence[str], items: Sequence[Item]) -> list[ItemInputs]:
    """What each item is told, by words that have places for it.

    Where there are no words at all, the item is the one word; words without a place are the same
    for all.
    """
    fields = field_names(items)
    _check(words, {*fields, _NUMBER}, fields)
    _check_variables(fields)
    template = tuple(words) or ("{}",)
    is_alike = not any(map(_PLACE.search, template))
    found = []
    for number, item in enumerate(items):
        own = None if is_alike else tuple(_filled(word, item, number) for word in template)
        found.append(_checked(ItemInputs(_variables(item), own), number))
    return found


def _check(words: Sequence[str], known: Container[str], fields: Iterable[str]) -> None:
    for word in words:
        for match in _PLACE.finditer(word):
            name = match[1]
            if name and name not in known:
                raise _unknown(name, [*fields, _NUMBER])


def _check_variables(fields: Iterable[str]) -> None:
    """Of two fields in one variable the script would see only one."""
    taken: dict[str, str] = {}
    for field in fields:
        name = variable_name(field)
        if name in taken:
            raise InvalidInput(
                f"The fields {printable(taken[name])!r} and {printable(field)!r} would both be in"
                f" POTLUCK_FIELD_{name}.",
                "Give one of them another name.",
            )
        taken[name] = field


def _unknown(name: str, known: list[str]) -> InvalidInput:
    near = difflib.get_close_matches(name, known, 1)
    meant = f"Did you mean {{{printable(near[0])}}}? " if near else ""
    listed = ", ".join(f"{{{printable(each)}}}" for each in ("", *known[:20]))
    return InvalidInput(
        f"No item has a field {printable(name)!r}.",
        f"{meant}There are {listed}; for the braces themselves write {{{{{printable(name)}}}}}.",
    )


def _filled(word: str, item: Item, number: int) -> str:
    """An item that lacks a field which others have gives nothing there."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][1:-1]
        if not name:
            return item.value
        return item.fields.get(name, str(number) if name == _NUMBER else "")

    return _PLACE.sub(fill, word)


def _variables(item: Item) -> dict[str, str]:
    found = {f"POTLUCK_FIELD_{variable_name(name)}": each for name, each in item.fields.items()}
    return {"POTLUCK_ITEM_VALUE": item.value, **found}


def _checked(inputs: ItemInputs, number: int) -> ItemInputs:
    if any("\0" in text for text in (*inputs.environment.values(), *(inputs.arguments or ()))):
        raise InvalidInput(
            f"Item {number} has a NUL in it, which no variable can have.", "Take it out."
        )
    encoded = encode_json(inputs)
    if len(encoded) > MOST_ITEM_BYTES:
        raise TooLarge(
            f"Item {number} has more than {MOST_ITEM_BYTES >> 10} KiB.",
            "Put it into a file of its own, and name the files by a pattern.",
        )
    try:
        return decode_json(encoded, ItemInputs)
    except InvalidInput as error:
        raise InvalidInput(
            f"Item {number} can not be given to a task: {error.detail}",
            "It may have 250 fields, with names of up to 100 characters.",
        ) from error
