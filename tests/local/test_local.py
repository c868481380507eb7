"""Directories, files and settings of the machine that a part runs on."""

import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from potluck.local import settings
from potluck.local.data_directory import (
    config_directory,
    data_dir_of,
    data_directory,
    held,
    part_directory,
)
from potluck.local.durable_files import check_private, keep_private, write_atomically
from potluck.local.file_lock import try_lock
from potluck.model.account import Registration
from potluck.model.error import BadSettings, DataDirectoryInUse

IN_USE = DataDirectoryInUse("taken")


def test_a_directory_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    place = tmp_path / "new" / "place"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(place)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(DataDirectoryInUse), held(place, IN_USE):
            pass
        holder.kill()
    with held(place, IN_USE):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


_HOLD = """
import sys
from pathlib import Path
from potluck.local.data_directory import held
from potluck.model.error import DataDirectoryInUse
with held(Path(sys.argv[1]), DataDirectoryInUse("taken")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_an_uncreatable_directory_is_a_bad_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSettings, match="cannot be used"), held(tmp_path / "file", IN_USE):
        pass


def test_the_data_directory_comes_from_the_environment(tmp_path: Path) -> None:
    assert data_directory({"POTLUCK_DATA_DIR": str(tmp_path)}) == tmp_path
    assert data_directory({}).name == "potluck"


def test_a_file_is_private_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for content in (b"one", b"two"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_can_be_replaced_for_the_same_readers(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(b"one")
    path.chmod(0o640)
    write_atomically(path, b"two", like=path.stat())
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o640)


class Sample(Struct, frozen=True, kw_only=True):
    place: Path
    port: Annotated[int, Meta(ge=0, le=65_535)] = 1


class Choices(Struct, frozen=True, kw_only=True):
    choice: Registration | None = None


class Pairs(Struct, frozen=True, kw_only=True):
    pairs: Mapping[int, str] = {}


def sample(options: dict[str, object], variables: dict[str, str]) -> Sample:
    defaults = {"place": Path("/given")}
    return settings.read_values(Sample, "X_", options, variables, defaults, {"port": "--the-port"})


def test_options_win_over_variables_and_variables_over_defaults() -> None:
    assert sample({}, {}) == Sample(place=Path("/given"), port=1)
    assert sample({"port": None}, {"X_PORT": "2", "X_PLACE": "/v"}) == Sample(
        place=Path("/v"), port=2
    )
    assert sample({"port": 3}, {"X_PORT": "2"}).port == 3


@pytest.mark.parametrize(
    ("options", "variables", "name"),
    [
        ({"port": 70_000}, {}, "--the-port"),
        ({}, {"X_PORT": "many"}, "X_PORT"),
        ({}, {"X_PORT": "-1"}, "X_PORT"),
    ],
)
def test_nonsense_is_named(
    options: dict[str, object], variables: dict[str, str], name: str
) -> None:
    with pytest.raises(BadSettings, match=name):
        sample(options, variables)


def test_errors_do_not_quote_values() -> None:
    """It may be an address with a password in it, and errors go to logs."""
    for text in ("a-secret", "1=x,a-secret", "one=a-secret"):
        with pytest.raises(BadSettings) as raised:
            settings.read_values(Pairs, "X_", {}, {"X_PAIRS": text}, {}, {})
        assert "X_PAIRS" in raised.value.detail and "secret" not in raised.value.detail


def test_the_configuration_directory_is_where_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_directory({"POTLUCK_CONFIG_DIR": "~/here"}) == tmp_path / "here"
    assert config_directory({"POTLUCK_CONFIG_DIR": "here"}) == Path.cwd() / "here"


def test_only_another_holder_makes_us_wait(tmp_path: Path) -> None:
    place = tmp_path / "file"
    with place.open("wb") as first, place.open("wb") as second:
        assert try_lock(first.fileno())
        assert not try_lock(second.fileno())
    with pytest.raises(OSError, match="descriptor"):
        try_lock(second_closed(place))


def second_closed(place: Path) -> int:
    with place.open("wb") as file:
        return file.fileno()


def test_a_secret_of_ours_is_closed_to_others_and_one_of_theirs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    for mode, group_may in ((0o644, True), (0o644, False), (0o640, False)):
        path.chmod(mode)
        with pytest.raises(BadSettings, match="can read"):
            check_private(path, group_may)
    path.chmod(0o640)
    check_private(path, group_may=True)
    keep_private(path)
    assert path.stat().st_mode & 0o777 == 0o600
    keep_private(tmp_path / "none")


def test_an_enum_is_described_with_its_members() -> None:
    with pytest.raises(BadSettings) as raised:
        settings.read_values(Choices, "X_", {}, {"X_CHOICE": "maybe"}, {}, {})
    assert raised.value.hint == "Choose from: open, invite, closed."


@pytest.mark.parametrize(("part", "mark"), [("server", "encryption-key"), ("provider", "node-key")])
def test_each_part_has_a_folder_in_the_data_directory(
    tmp_path: Path, part: Literal["server", "provider"], mark: str
) -> None:
    assert part_directory(part, tmp_path) == tmp_path / part
    assert part_directory(part, None, {"POTLUCK_DATA_DIR": str(tmp_path)}) == tmp_path / part
    assert data_dir_of(tmp_path / part) == tmp_path
    (tmp_path / mark).touch()
    assert part_directory(part, tmp_path) == tmp_path, "data of an earlier version are used"
    (tmp_path / part).mkdir()
    assert part_directory(part, tmp_path) == tmp_path / part
