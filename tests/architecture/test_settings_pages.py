"""docs/operations.md names every setting, its variable and its default."""

import re
from typing import Any

import msgspec
import pytest

from potluck.local.child_process import SECRET_VARIABLES
from potluck.provider.settings import ProviderSettings
from potluck.server.settings import ServerSettings
from tests.architecture.repository_files import DOCS

# Given by the command itself, not by a variable of this pattern.
GIVEN_OTHERWISE = {"url", "ca_file", "data_directory", "name"}
Kind = type[ServerSettings] | type[ProviderSettings]
CASES: list[tuple[str, Kind]] = [
    ("POTLUCK_", ServerSettings),
    ("POTLUCK_PROVIDER_", ProviderSettings),
]


def told() -> dict[str, str]:
    """Variables and their defaults, from the tables of the page."""
    row = re.compile(r"^\| `(POTLUCK_\w+)` \| ([^|]+?) \|", re.MULTILINE)
    return dict(row.findall((DOCS / "operations.md").read_text()))


def variables(prefix: str, kind: Kind) -> dict[str, Any]:
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in GIVEN_OTHERWISE]
    return {f"{prefix}{field.name.upper()}": field.default for field in fields}


@pytest.mark.parametrize(("prefix", "kind"), CASES)
def test_every_setting_is_documented_with_its_default(prefix: str, kind: Kind) -> None:
    page = told()
    for variable, default in variables(prefix, kind).items():
        assert variable in page, f"docs/operations.md says nothing about {variable}"
        if isinstance(default, bool):
            assert page[variable] == ("yes" if default else "no"), variable
        elif isinstance(default, int | float):
            assert float(page[variable].replace(",", "")) == default, variable


def test_only_existing_variables_are_documented() -> None:
    known_variables = {name for prefix, kind in CASES for name in variables(prefix, kind)}
    general = {"POTLUCK_DATA_DIR", "POTLUCK_CONFIG_DIR", "POTLUCK_URL", "POTLUCK_CA_FILE"}
    given_variables = {"POTLUCK_PROVIDER_DATA_DIRECTORY", "POTLUCK_PROVIDER_NAME", "POTLUCK_DEBUG"}
    given_variables |= {"POTLUCK_PROGRESS"}  # read by the client, when it has something to show
    assert set(told()) <= known_variables | general | given_variables | SECRET_VARIABLES
