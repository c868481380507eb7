"""The owner's file: read whole or not at all, and changed without losing a comment."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from potluck.model.error import BadSettings, InvalidInput
from potluck.model.terms import DeviceTerms, TaskKind, TermsChange
from potluck.provider.owner.file import (
    NodeLimits,
    OwnerValues,
    change_file,
    change_text,
    mark_of,
    read_file,
    read_text,
    terms_file,
)

WALLET = "0x3FCf4914fC89B984Ca671C48D27b2814B59E3CA0"
EVERYTHING = f"""\
# what I want
price = "0.20"              # credits an hour
paused = false
hours = "mon-fri 18:00-08:00, sat, sun"
idle_minutes = 10
memory_share = 0.8
power_watts = 220
fractions = 4
share_between_accounts = true
reclaim = true
grace = "30s"
kinds = ["script"]
allow = []
deny = ["{WALLET}"]
cores = 8
ram = "32GB"
disk = "10GB"
bandwidth = "50MB"
sandbox = "bwrap"

[device."GPU-1"]
# the fast one
price = 0.5
"""


def test_every_key_is_read_as_it_is_meant() -> None:
    parsed_terms = read_text(EVERYTHING)
    terms = parsed_terms.terms("GPU-2", DeviceTerms())
    assert terms == DeviceTerms(
        price_micro_per_hour=200_000,
        hours="mon-fri 18:00-08:00, sat, sun",
        idle_minutes=10,
        memory_share=0.8,
        power_watts=220,
        fractions=4,
        shares_accounts=True,
        is_reclaimable=True,
        grace_seconds=30,
        kinds=(TaskKind.SCRIPT,),
        deny=(WALLET,),
    )
    assert parsed_terms.terms("GPU-1", DeviceTerms()) == replace(
        terms, price_micro_per_hour=500_000
    )
    limits = NodeLimits(8, 32 * 10**9, 10 * 10**9, 50 * 10**6, "bwrap")
    assert parsed_terms.limits(NodeLimits(cores=2)) == limits


def test_options_apply_where_the_file_sets_nothing() -> None:
    beneath = DeviceTerms(price_micro_per_hour=7, shares_accounts=True)
    assert read_text("").terms("GPU-1", beneath) == beneath
    assert read_text("price = 1").terms("GPU-1", beneath).shares_accounts
    assert read_text("price = 0").terms("GPU-1", beneath).price_micro_per_hour == 0
    assert read_text("").limits(NodeLimits(cores=3)) == NodeLimits(cores=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prise = 1", ["'prise'", "price"]),
        ("price = -1", ["price", "-1"]),
        ("price = 1000001", ["price 1000001: expected at most 1000000."]),
        ('price = "much"', ["price", "much"]),
        ("price = 1979-05-27", ["price"]),
        ("price = {a = 1}", ["price"]),
        ("paused = 3", ["paused", "3"]),
        ('hours = "someday"', ["hours", "someday"]),
        ("memory_share = 2", ["memory_share", "2"]),
        ("fractions = 0", ["fractions", "0"]),
        ("fractions = 1.5", ["fractions", "1.5"]),
        ('kinds = ["poem"]', ["kinds", "poem", "script"]),
        ('deny = ["0x12"]', ["deny", "0x12"]),
        ("deny = [1]", ["deny"]),
        ('device = "GPU-1"', ["'device'"]),
        ("[device]\nGPU-1 = 1", ["'device'"]),
        ('[device."GPU-1"]\ncores = 1', ["cores", "GPU-1", "machine"]),
        ("\nprice = =", ["TOML", "line 2"]),
        ("price = 1\nprice = 2", ["TOML"]),
        (f"cores = {'9' * 5000}", ["TOML", "4300"]),
        (f"cores = 0x{'f' * 5000}", ["4300"]),
        (f"deny = {'[' * 5000}", ["TOML"]),
    ],
)
def test_mistakes_are_reported_with_an_example(tmp_path: Path, text: str, words: list[str]) -> None:
    path = terms_file(tmp_path)
    path.write_text(text)
    with pytest.raises(BadSettings) as error_info:
        read_file(path)
    message = f"{error_info.value.detail} {error_info.value.hint}"
    assert str(path) in message
    assert [word for word in words if word not in message] == []
    with pytest.raises(BadSettings):
        change_file(path, TermsChange(is_paused=True))
    assert path.read_text() == text, "what is wrong is the owner's to mend"


def test_a_missing_file_is_silent_and_an_unreadable_one_is_reported(tmp_path: Path) -> None:
    assert read_file(terms_file(tmp_path)) == OwnerValues()
    assert mark_of(terms_file(tmp_path)) is None
    terms_file(tmp_path).mkdir()
    with pytest.raises(BadSettings, match="is not a regular file"):
        read_file(terms_file(tmp_path))
    (tmp_path / "latin").write_bytes(b"price = 1\npaused = true # \xe9")
    with pytest.raises(BadSettings, match=r"not UTF-8 text \(line 2\)"):
        read_file(tmp_path / "latin")


def test_an_open_pipe_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(terms_file(tmp_path))
    with pytest.raises(BadSettings, match="is not a regular file"):
        read_file(terms_file(tmp_path))
    with pytest.raises(BadSettings, match="is not a regular file"):
        change_file(terms_file(tmp_path), TermsChange(is_paused=True))


def test_a_mark_at_the_beginning_says_nothing(tmp_path: Path) -> None:
    path = terms_file(tmp_path)
    path.write_bytes(b"\xef\xbb\xbfprice = 1\r\n")
    assert read_file(path).everywhere == TermsChange(price_micro_per_hour=1_000_000)
    change_file(path, TermsChange(is_paused=True))
    assert read_file(path).everywhere.is_paused is True


def test_a_change_keeps_comments_order_and_spelling(tmp_path: Path) -> None:
    path = terms_file(tmp_path)
    path.write_text(EVERYTHING)
    before = mark_of(path)
    change_file(path, TermsChange(is_paused=True, hours=None, price_micro_per_hour=250_000))
    expected = EVERYTHING.replace("paused = false", "paused = true").replace('"0.20"', '"0.25"')
    lines = [
        line for line in expected.splitlines() if not line.startswith(("hours", "price = 0.5"))
    ]
    assert path.read_text().splitlines() == lines
    assert mark_of(path) != before
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


def test_a_change_applies_to_all_devices_or_to_the_named_one(tmp_path: Path) -> None:
    path = terms_file(tmp_path)

    def paused(uuid: str) -> bool:
        return read_file(path).terms(uuid, DeviceTerms()).is_paused

    change_file(path, TermsChange(is_paused=True))
    change_file(path, TermsChange(devices=("GPU 1",), is_paused=False))
    assert (paused("GPU 1"), paused("GPU-2")) == (False, True)
    change_file(path, TermsChange(is_paused=True))
    assert (paused("GPU 1"), paused("GPU-2")) == (True, True)
    change_file(path, TermsChange(is_paused=None))
    assert (paused("GPU 1"), paused("GPU-2")) == (False, False)
    with pytest.raises(BadSettings, match="cores"):
        change_file(path, TermsChange(devices=("GPU 1",), cores=2))


def test_a_table_that_says_nothing_any_more_goes_unless_it_has_a_comment() -> None:
    pause_change, reset_change = (
        TermsChange(devices=("GPU-1",), is_paused=is_paused) for is_paused in (True, None)
    )
    assert change_text("price = 1\n", reset_change) == "price = 1\n"
    for original in ("price = 1\n", '[device."GPU-2"]\nprice = 1\n'):
        restored = change_text(change_text(original, pause_change), reset_change)
        assert read_text(restored) == read_text(original) and "GPU-1" not in restored
    commented = '[device."GPU-1"]\n# mine\npaused = true\n'
    assert "# mine" in change_text(commented, reset_change)


def test_a_dangling_link_removes_nothing(tmp_path: Path) -> None:
    terms_file(tmp_path).symlink_to(tmp_path / "unmounted" / "provider.toml")
    with pytest.raises(BadSettings, match="links to a file that does not exist"):
        change_file(terms_file(tmp_path), TermsChange(is_paused=True))
    assert not (tmp_path / "unmounted").exists(), "no place is made far away"
    with pytest.raises(BadSettings, match="links to a file that does not exist"):
        read_file(terms_file(tmp_path))


def test_a_linked_file_stays_linked(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("price = 1\n")
    terms_file(tmp_path).symlink_to(real)
    change_file(terms_file(tmp_path), TermsChange(is_paused=True))
    assert terms_file(tmp_path).is_symlink()
    assert read_file(real) == OwnerValues(
        TermsChange(price_micro_per_hour=1_000_000, is_paused=True)
    )


_uuids = st.sampled_from(["GPU-1", "GPU 2", "cpu-\u00e9.x"])
_values = st.fixed_dictionaries(
    {},
    optional={
        "price_micro_per_hour": st.none() | st.integers(0, 10**9),
        "is_paused": st.none() | st.booleans(),
        "hours": st.none() | st.sampled_from(["", "mon-fri 8-18", "sat"]),
        "idle_minutes": st.none() | st.floats(0, 100),
        "memory_share": st.none() | st.floats(0.01, 1),
        "grace_seconds": st.none() | st.integers(0, 3600).map(float),
        "kinds": st.none() | st.lists(st.sampled_from(TaskKind), max_size=2).map(tuple),
        "deny": st.none() | st.just((WALLET,)),
    },
)
_changes = st.builds(
    lambda devices, values: TermsChange(tuple(devices), **values),
    st.lists(_uuids, max_size=2, unique=True),
    _values,
)
_beginnings = st.sampled_from(
    [
        "",
        "# only a comment\n",
        EVERYTHING,
        '[device."GPU-1"]\nprice = 1\n\n# then\n[device."GPU 2"]\npaused = true\n',
        "[device]\n[device.GPU-1]\n",
    ]
)


@settings(deadline=None, max_examples=50)
@given(_beginnings, st.lists(_changes, max_size=3))
def test_a_change_alters_exactly_the_given_settings(
    beginning: str, changes: list[TermsChange]
) -> None:
    """Of every device afterwards: what the change says of it, and otherwise what was said."""
    text = beginning
    for change in changes:
        before = read_text(text)
        text = change_text(text, change)
        after = read_text(text)
        for uuid in ("GPU-1", "GPU 2", "cpu-\u00e9.x"):
            terms = before.changed(change).terms(uuid, DeviceTerms())
            assert after.terms(uuid, DeviceTerms()) == terms
            _as_it_says(change, uuid, terms)
    comments = [line for line in beginning.splitlines() if line.startswith("#")]
    assert [line for line in comments if line not in text] == []


def _as_it_says(change: TermsChange, uuid: str, terms: DeviceTerms) -> None:
    for name in DeviceTerms.__struct_fields__:
        value = getattr(change, name)
        is_said = value is not None and value is not UNSET
        if is_said and (not change.devices or uuid in change.devices):
            assert getattr(terms, name) == value


@pytest.mark.parametrize(
    "text", ['device."GPU-1".price = 1\nprice = 2\n', 'device = {"GPU-1" = {price = 1}}\n']
)
def test_a_file_that_cannot_be_edited_stays_unchanged(text: str) -> None:
    with pytest.raises(InvalidInput, match="a form that commands cannot edit") as error_info:
        change_text(text, TermsChange(devices=("GPU-2",), price_micro_per_hour=0))
    assert '[device."UUID"]' in error_info.value.hint
    assert read_text(change_text(text, TermsChange(is_paused=True))).everywhere.is_paused


def test_an_invalid_change_changes_nothing() -> None:
    with pytest.raises(InvalidInput, match="hours"):
        change_text("price = 1\n", TermsChange(hours="someday"))


def test_a_file_that_is_too_long_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "provider.toml"
    text = "#" * 1_000_000 + "\npaused = true\n"
    path.write_text(text)
    with pytest.raises(BadSettings, match="more than"):
        read_file(path)
    with pytest.raises(BadSettings, match="more than"):
        change_file(path, TermsChange(price_micro_per_hour=1))
    assert path.read_text() == text


def test_the_owner_and_mode_of_the_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "provider.toml"
    path.write_text("price = 1\n")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
        os.chown(tmp_path, 1234, 1235)
    before = path.stat()
    change_file(path, TermsChange(is_paused=True))
    after = path.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_mode == before.st_mode
    path.unlink()
    change_file(path, TermsChange(is_paused=True))
    assert path.stat().st_uid == tmp_path.stat().st_uid, "what root begins is the provider's too"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
