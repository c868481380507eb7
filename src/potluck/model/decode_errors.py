"""What the decoder says of a wrong value, in words for people.

It speaks in types of Python and in patterns. Whatever is not known here is left as it was said.
"""

import re

from potluck.model import (
    blob,
    bounded_types,
    ids,
    terms,
)

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
    bounded_types.PRINTABLE: "without control characters",
    bounded_types.ASCII_PATTERN: "of printable ASCII characters alone",
    bounded_types.VARIABLE_PATTERN: "that is the name of a variable: letters, digits and _",
    terms.WALLET_PATTERN: "that is the address of a wallet: 0x and 40 hexadecimal digits",
    blob.PATH_PATTERN: "that is a path below the working directory, such as data/train.csv",
    ids.NODE_PATTERN: "that is the id of a node",
    ids.TASK_PATTERN: "that is the id of a task",
    ids.ATTEMPT_PATTERN: "that is the id of an attempt",
}
_PHRASES = {
    "Input data was truncated": "it is cut short",
    "Object missing required field": "it lacks the field",
    "Object contains unknown field": "there is no field",
}
_TYPES = re.compile(r"(Expected|got) `([a-z]+(?: \| [a-z]+)*)`")
_PATTERN = re.compile(r"matching regex '.*?'(?= - at |$)")
_CHOICE = re.compile(r"Invalid enum value (['\"].*?['\"]|\S+)")
_BOUND = re.compile(r" ([<>]=) (-?[0-9]+)(?:\.0)?(?![0-9.])")
_LENGTH = re.compile(r"of length ([<>]=) (\d+)")


def plain(said: str) -> str:
    for form, words in _FORMS.items():
        said = said.replace(f"matching regex {form!r}", words)
    for phrase, words in _PHRASES.items():
        said = said.replace(phrase, words)
    said = _PATTERN.sub("of another form", said)
    said = _CHOICE.sub(r"\1 is not one of the choices", said)
    said = _LENGTH.sub(_length, said)
    said = _BOUND.sub(_bound, said)
    return _TYPES.sub(_types, said)


def _types(found: re.Match[str]) -> str:
    kinds = [_KINDS.get(each, each) for each in found[2].split(" | ")]
    return f"{found[1].lower()} {' or '.join(kinds)}"


def _bound(found: re.Match[str]) -> str:
    return f" of {found[2]} or {'more' if found[1] == '>=' else 'less'}"


def _length(found: re.Match[str]) -> str:
    bound = "at least" if found[1] == ">=" else "at most"
    return f"with a length of {bound} {found[2]}"
