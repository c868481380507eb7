"""Decoding errors of msgspec, in words for people.

msgspec speaks of Python types and regular expressions. Unknown messages stay as they are.
"""

import re
from collections.abc import Callable

from potluck.model import blob, bounded_types, ids, terms

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "an object",
    "bytes": "bytes",
}
_FORMS = {
    bounded_types.NO_NUL: "without NUL characters",
    bounded_types.PRINTABLE: "without control characters and invisible ones",
    bounded_types.ASCII_PATTERN: "of printable ASCII characters only",
    bounded_types.VARIABLE_PATTERN: "that is the name of a variable: letters, digits and _",
    terms.WALLET_PATTERN: "that is the address of a wallet: 0x and 40 hexadecimal digits",
    blob.PATH_PATTERN: (
        "that is a path below the working directory, such as data/train.csv,"
        " without invisible characters and without names that Windows reserves, such as NUL"
    ),
    ids.NODE_PATTERN: "that is the id of a node",
    ids.TASK_PATTERN: "that is the id of a task",
    ids.ATTEMPT_PATTERN: "that is the id of an attempt",
}
_PHRASES = {
    "Input data was truncated": "it is incomplete",
    "Object missing required field": "missing field",
    "Object contains unknown field": "unknown field",
}
_TYPES = re.compile(r"(Expected|got) `([a-z]+(?: \| [a-z]+)*)`")
_PATTERN = re.compile(r"matching regex '.*?'(?= - at |$)")
_CHOICE = re.compile(r"Invalid enum value (['\"].*?['\"]|\S+)")
_BOUND = re.compile(r" ([<>]=) (-?[0-9]+)(?:\.0)?(?![0-9.])")
_LENGTH = re.compile(r"of length ([<>]=) (\d+)")
# A message quotes names and values of the sender, which may be as long as the body.
_START_CHARACTERS, _END_CHARACTERS = 500, 300


def split_path(error: Exception) -> tuple[str, str]:
    """What a decoder says is wrong, and where: an empty path for the whole value."""
    sentence, _, path = str(error).partition(" - at ")
    return sentence, path.strip("`$.")


def describe_bound(sentence: str) -> str:
    """A text that is too long or too short, or what `plain_message` says."""
    bound = re.fullmatch(r"Expected `str` of length ([<>])= (\d+)", sentence)
    if bound is None:
        return plain_message(sentence)
    if bound[1] == ">":
        return "it is too short" if int(bound[2]) > 1 else "it is empty"
    return f"it is longer than {int(bound[2]):,} characters"


def plain_message(message: str) -> str:
    for form, words in _FORMS.items():
        message = message.replace(f"matching regex {form!r}", words)
    if len(message) > _START_CHARACTERS + _END_CHARACTERS:
        message = f"{message[:_START_CHARACTERS]}…{message[-_END_CHARACTERS:]}"
    for phrase, words in _PHRASES.items():
        message = message.replace(phrase, words)
    message = _PATTERN.sub("of a different form", message)
    message = _CHOICE.sub(r"\1 is not a valid choice", message)
    message = _LENGTH.sub(_length, message)
    message = _BOUND.sub(_bound, message)
    return _TYPES.sub(_types, message)


def _types(match: re.Match[str]) -> str:
    kinds = [_KINDS.get(kind, kind) for kind in match[2].split(" | ")]
    return f"{match[1].lower()} {' or '.join(kinds)}"


def _bound(match: re.Match[str]) -> str:
    return f" of {match[2]} or {'more' if match[1] == '>=' else 'less'}"


def _length(match: re.Match[str]) -> str:
    bound = "at least" if match[1] == ">=" else "at most"
    return f"with a length of {bound} {match[2]}"


def spell_bound(message: str, spell: Callable[[int], object]) -> str:
    """A plain message about a bound, with that number in the unit in which people write it."""
    bound = re.search(r"of (-?\d+)(?:\.0)? or (less|more)$", message)
    if bound is None or (spelled := spell(number := int(bound[1]))) == number:
        return message
    return f"expected at {'most' if bound[2] == 'less' else 'least'} {spelled}"
