"""What an owner can say: each key is read as it is written, in the file and in a terminal."""

import pytest
from msgspec.structs import fields

from potluck.model.error import InvalidInput
from potluck.model.terms import TaskKind, TermsChange
from potluck.provider.owner.file import read_text
from potluck.provider.owner.settings_table import KEYS, OwnerSetting, Written, key_named
from tests.architecture.repository_files import DOCS, code_blocks

WALLET = "0x3FCf4914fC89B984Ca671C48D27b2814B59E3CA0"


def test_every_term_has_its_key() -> None:
    known_fields = {key.field for key in KEYS}
    assert known_fields == {field.name for field in fields(TermsChange)} - {"devices"}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_examples_are_good_and_survive_the_file(key: OwnerSetting) -> None:
    value = key.parse(key.example.replace("0x…", WALLET).strip('"'))
    assert key.parse(key.spell(value)) == value
    assert key.meaning.endswith(".")


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("price", "0.20", 200_000),
        ("price", 0.2, 200_000),
        ("price", 2, 2_000_000),
        ("paused", True, True),
        ("paused", "off", False),
        ("memory_share", "80%", 0.8),
        ("grace", 0, 0.0),
        ("grace", "1m30s", 90.0),
        ("kinds", "script, Function", (TaskKind.SCRIPT, TaskKind.FUNCTION)),
        ("kinds", ["script"], (TaskKind.SCRIPT,)),
        ("kinds", "", ()),
        ("ram", "32GiB", 32 * 2**30),
        ("ram", 2**30 + 1, 2**30 + 1),
        ("hours", "", ""),
    ],
)
def test_valid_texts(name: str, written: Written, value: object) -> None:
    key = key_named(name)
    assert key.parse(written) == value
    assert key.parse(key.spell(value)) == value


@pytest.mark.parametrize(
    ("name", "written", "sentence"),
    [
        ("price", "-1", "not a number of credits"),
        ("price", True, "not a number of credits"),
        ("paused", "maybe", "neither yes nor no"),
        ("paused", 1, "neither yes nor no"),
        ("hours", "mon-xyz", "hours"),
        ("hours", 8, "not a string"),
        ("memory_share", "1.5", "a number of 1 or less"),
        ("memory_share", "nan", "not a number"),
        ("fractions", "2.5", "not a whole number"),
        ("fractions", 0, "a whole number of 1 or more"),
        ("kinds", "virus", "there is no kind 'virus'"),
        ("kinds", 3, "not a list"),
        ("deny", "0x12", "not a wallet address"),
        ("deny", [WALLET.replace("3FC", "3fC")], "checksum"),
        ("allow", f"{WALLET},{WALLET.lower()[:-1]}", "not a wallet address"),
        ("cores", True, "not a number"),
        ("ram", "lots", "not a size"),
        ("sandbox", "a\x1b[2J", "There is no sandbox"),
    ],
)
def test_mistakes_are_reported(name: str, written: Written, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error_info:
        key_named(name).parse(written)
    assert name in error_info.value.detail
    assert error_info.value.hint


def test_the_guide_tells_every_key_and_its_example_is_good() -> None:
    page = (DOCS / "providing.md").read_text()
    table = [line for line in page.splitlines() if line.startswith("| `")]
    missing = [key.name for key in KEYS if not any(f"`{key.name}`" in row for row in table)]
    assert not missing, f"docs/providing.md says nothing about {missing}"
    (example,) = [body for fence, body in code_blocks(page) if fence == "toml"]
    terms_file = read_text(example)
    assert terms_file.everywhere.price_micro_per_hour == 200_000
    assert len(terms_file.devices) == 1


def test_an_unknown_key_is_reported_with_the_valid_ones() -> None:
    with pytest.raises(InvalidInput, match="prize") as error_info:
        key_named("prize")
    assert "price" in error_info.value.hint
