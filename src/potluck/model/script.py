"""The needs of a script, from the PEP 723 block in its source.

Consumer, server and provider all use this parser, so a bad block is refused early and everywhere
with the same sentence. Only plain requirements pass (a name, extras, a version specifier, a
marker): no addresses, paths or options. Nodes ignore `[tool]` tables, so a script cannot add
package sources or indexes; `[tool.potluck]` is for the consumer. Parsing takes linear time, unlike
the regular expression in the PEP.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from potluck.model.error import InvalidInput

MAX_DEPENDENCIES = 200
# Some TOML is slow to parse; a block of this size without deep keys is always quick.
MAX_BLOCK_CHARACTERS = 16_384
MAX_KEY_PARTS = 32
MAX_REQUIREMENT_CHARACTERS = 500
MAX_SPECIFIER_CHARACTERS = 100

OPENING = "# /// script"
_CLOSING = "# ///"
_OPENINGS = re.compile(f"^{OPENING}\\r*$", re.MULTILINE)
# The parser's time for a key grows with the square of its parts; the time of this with the block.
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*+(?:{_KEY_PART}\.[ \t]*+){{{MAX_KEY_PARTS}}}", re.MULTILINE
)
_HINT = "See https://peps.python.org/pep-0723/ for the format of the block."


class ScriptMetadata(Struct, frozen=True):
    """The needs of a script in a normal form: equal needs give equal values."""

    requires_python: str | None = None
    dependencies: tuple[str, ...] = ()


def read_metadata(source: str) -> ScriptMetadata:
    """Parses the block; without a block the result is empty. Raises InvalidInput."""
    table = _block(source)
    return ScriptMetadata(_requires_python(table), _dependencies(table))


def tool_table(source: str) -> Any:
    """The `[tool.potluck]` table of the block, unchecked: for the consumer."""
    tools = _block(source).get("tool", {})
    return tools.get("potluck", {}) if isinstance(tools, dict) else {}


def _block(source: str) -> dict[str, Any]:
    blocks = list(_blocks(source))
    if len(blocks) > 1:
        _refuse(f"The script has {len(blocks)} `{OPENING}` blocks; it may have one.")
    return _parse("\n".join(blocks[0])) if blocks else {}


def check_dependencies(wanted: Sequence[str]) -> tuple[str, ...]:
    """The dependencies of a function in the same normal form. Raises InvalidInput."""
    if len(wanted) > MAX_DEPENDENCIES:
        raise InvalidInput(
            f"It names {len(wanted)} dependencies; {MAX_DEPENDENCIES} are allowed.",
            "Leave out indirect dependencies.",
        )
    return tuple(sorted({_plain(text) for text in wanted}))


def _blocks(source: str) -> Iterator[list[str]]:
    """In time that grows with the source alone, however many blocks it has."""
    lines: list[str] = []
    number, place = 0, 0  # of the opening: its line, from 0, and its place in the source
    after = 0  # the line behind the last block
    for opening in _OPENINGS.finditer(source):
        number += source.count("\n", place, opening.start())
        place = opening.start()
        if number < after:
            continue
        lines = lines or source.split("\n")
        comment = _comment_lines(lines, number + 1)
        if _CLOSING not in comment:
            _refuse(
                f"The block that starts in line {number + 1} is never closed with `{_CLOSING}`."
            )
        # The last closing line of the comment ends the block, as in the PEP.
        length = len(comment) - comment[::-1].index(_CLOSING) - 1
        yield [line[2:] for line in comment[:length]]
        after = number + length + 2


def _comment_lines(lines: list[str], first: int) -> list[str]:
    comments = []
    for number in range(first, len(lines)):
        line = lines[number].rstrip()
        if line != "#" and not line.startswith("# "):
            break
        comments.append(line)
    return comments


def _parse(block: str) -> dict[str, Any]:
    if len(block) > MAX_BLOCK_CHARACTERS:
        _refuse(f"The script's block is longer than {MAX_BLOCK_CHARACTERS} characters.")
    if _DEEP_KEY.search(block) is not None:
        _refuse(f"A key in the script's block has more than {MAX_KEY_PARTS} parts.")
    try:
        return tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        problem = str(error).rstrip(".") or "nested too deeply"
        raise InvalidInput(f"The script's block is not valid TOML: {problem}.", _HINT) from error


def _requires_python(table: dict[str, Any]) -> str | None:
    wanted = table.get("requires-python")
    if wanted is None:
        return None
    if not isinstance(wanted, str):
        _refuse("`requires-python` in the script's block must be text.")
    return check_specifier(wanted, "`requires-python` in the script's block")


def check_specifier(text: str, where: str) -> str:
    """The Python versions in a normal form. Raises InvalidInput."""
    hint = "Write for example `>=3.11`."
    if len(text) > MAX_SPECIFIER_CHARACTERS or not (text.isascii() and text.isprintable()):
        limit = f"{MAX_SPECIFIER_CHARACTERS} plain characters"
        raise InvalidInput(f"{where} has more than {limit}, or others.", hint)
    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise InvalidInput(f"{where} is not a version specifier: {text!r}.", hint) from error


def _dependencies(table: dict[str, Any]) -> tuple[str, ...]:
    wanted = table.get("dependencies", [])
    if not isinstance(wanted, list) or not all(isinstance(text, str) for text in wanted):
        _refuse("`dependencies` in the script's block must be a list of texts.")
    return check_dependencies(wanted)


@lru_cache(maxsize=4_096)
def _plain(text: str) -> str:
    """The requirement in normal form, which cannot be mistaken for a file name.

    Each is parsed once: a submission asks several times, and its successors name the same.
    """
    requirement = _requirement(text)
    if requirement.url is not None:
        _refuse_requirement(text)
    requirement.name = canonicalize_name(requirement.name)
    return str(requirement)


def _requirement(text: str) -> Requirement:
    if len(text) > MAX_REQUIREMENT_CHARACTERS:
        _refuse_requirement(text[:40] + "…")
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):
        _refuse_requirement(text)


def _refuse_requirement(text: str) -> NoReturn:
    raise InvalidInput(
        f"The dependency {text!r} is not a plain requirement.",
        "Write a package's name with extras, versions and a marker if needed, such as"
        " `numpy>=2` ; addresses, paths and options are not allowed.",
    ) from None


def _refuse(sentence: str) -> NoReturn:
    raise InvalidInput(sentence, _HINT)


def is_minor_version(text: str) -> bool:
    return re.fullmatch(r"3\.[0-9]{1,3}", text) is not None


@lru_cache(maxsize=4_096)
def suits_python(required: str, version: str) -> bool:
    """Whether a full version, such as "3.11.2", is what a task requires: a range, or the minor
    version that pickled a function, such as "3.11". An unknown version does not suit.

    Each pair is compared once, however many tasks and nodes have it.
    """
    if is_minor_version(required):
        return version == required or version.startswith(f"{required}.")
    try:
        return SpecifierSet(required).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
