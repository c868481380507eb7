"""What a script says about its needs: the PEP 723 block in its source.

Consumer, server and provider all read it here, so a bad block is refused at once and everywhere
with the same sentence. Only plain requirements pass (a name, extras, a version specifier, a
marker): no addresses, paths or options. On a node `[tool]` tables are ignored, so a script can
bring no package sources or indexes of its own; `[tool.potluck]` is for who runs it. Reading takes
time linear in the source, which the regular expression in the PEP does not.
"""

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from potluck.model.error import InvalidInput

MAX_DEPENDENCIES = 200
# Some TOML is slow to read; a block this small is quick whatever it says.
MAX_BLOCK_CHARACTERS = 65_536
MAX_REQUIREMENT_CHARACTERS = 500

_OPENING = "# /// script"
_CLOSING = "# ///"
_HINT = "See https://peps.python.org/pep-0723/ for what the block may say."


class ScriptMetadata(Struct, frozen=True):
    """The needs of a script, in one normal form: equal needs give equal values."""

    requires_python: str | None = None
    dependencies: tuple[str, ...] = ()


def read_metadata(source: str) -> ScriptMetadata:
    """The block's content, or an empty one if there is no block; raises InvalidInput."""
    table = _block(source)
    return ScriptMetadata(_requires_python(table), _dependencies(table))


def tool_table(source: str) -> Any:
    """What `[tool.potluck]` of the block says, as it stands there: for whoever runs the script."""
    tools = _block(source).get("tool", {})
    return tools.get("potluck", {}) if isinstance(tools, dict) else {}


def _block(source: str) -> dict[str, Any]:
    blocks = list(_blocks(source.split("\n")))
    if len(blocks) > 1:
        _refuse(f"The script has {len(blocks)} `{_OPENING}` blocks; it may have one.")
    return _parse("\n".join(blocks[0])) if blocks else {}


def check_dependencies(wanted: Sequence[str]) -> tuple[str, ...]:
    """What a function says that it needs, in the same normal form; raises InvalidInput."""
    if len(wanted) > MAX_DEPENDENCIES:
        raise InvalidInput(
            f"It names {len(wanted)} dependencies; {MAX_DEPENDENCIES} are allowed.",
            "Leave out what others bring along.",
        )
    return tuple(sorted({_plain(each) for each in wanted}))


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    number = 0
    while number < len(lines):
        if lines[number].rstrip("\r") != _OPENING:
            number += 1
            continue
        comment = _comment_lines(lines, number + 1)
        if _CLOSING not in comment:
            _refuse(f"The block that opens in line {number + 1} is never closed with `{_CLOSING}`.")
        # The last closing line of the comment ends the block, as in the PEP.
        length = len(comment) - comment[::-1].index(_CLOSING) - 1
        yield [line[2:] for line in comment[:length]]
        number += length + 2


def _comment_lines(lines: list[str], first: int) -> list[str]:
    found = []
    for line in map(str.rstrip, lines[first:]):
        if line != "#" and not line.startswith("# "):
            break
        found.append(line)
    return found


def _parse(block: str) -> dict[str, Any]:
    if len(block) > MAX_BLOCK_CHARACTERS:
        _refuse(f"The script's block is longer than {MAX_BLOCK_CHARACTERS} characters.")
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
    try:
        return str(SpecifierSet(wanted))
    except InvalidSpecifier as error:
        sentence = (
            f"`requires-python` in the script's block is not a version specifier: {wanted!r}."
        )
        raise InvalidInput(sentence, 'Write for example `requires-python = ">=3.11"`.') from error


def _dependencies(table: dict[str, Any]) -> tuple[str, ...]:
    wanted = table.get("dependencies", [])
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        _refuse("`dependencies` in the script's block must be a list of texts.")
    return check_dependencies(wanted)


def _plain(text: str) -> str:
    """The requirement in its normal form; its name can then not be read as a file's either."""
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
