"""Keys come from a file, a variable or a command; what is wrong there is told and never quoted."""

import stat
import sys
import threading
from pathlib import Path

import pytest

from potluck.model.error import BadSettings
from potluck.server.encryption.places import KeyCommand, KeyFile, key_place, parse
from potluck.server.settings import ServerSettings
from potluck.store.key_ring import key_id, new_key

KEY, OLDER = bytes(range(32)), bytes(range(32, 64))


def settings(directory: Path, **changes: object) -> ServerSettings:
    return ServerSettings(data_directory=directory, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY.hex()}\n{OLDER.hex()}\n",
        f"{KEY.hex()},{OLDER.hex()}",  # as a variable would have it
        f"  {KEY.hex().upper()} , {OLDER.hex()}  ",
        f"# the new one\n{KEY.hex()}  # made today\n\n{OLDER.hex()}",
    ],
)
def test_keys_are_read_in_their_order(text: str) -> None:
    assert parse(text, "the test").keys == (KEY, OLDER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a comment",
        KEY.hex()[:-2],  # too short
        KEY.hex() + "00",  # too long
        KEY.hex()[:-1] + "g",
        f"{KEY.hex()}\n{KEY.hex()}",  # twice
        f"{KEY.hex()} and {OLDER.hex()}",
    ],
)
def test_what_is_no_key_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(BadSettings) as caught:
        parse(text, "the test")
    told = caught.value.detail + caught.value.hint
    assert "the test" in told and KEY.hex()[:16] not in told


def test_a_file_is_the_default_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    place = key_place(settings(tmp_path))
    assert isinstance(place, KeyFile)
    assert place.path == tmp_path / "encryption-key" and not place.exists()
    place.make()
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
    assert len(place.read().keys) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["encryption-key"], "no draft is left"


def test_of_two_that_make_a_key_one_is_kept(tmp_path: Path) -> None:
    places = [KeyFile(tmp_path / "key") for _ in range(8)]
    together = threading.Barrier(len(places))

    def make(place: KeyFile) -> None:
        together.wait()
        place.make()

    threads = [threading.Thread(target=make, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = {place.read().current for place in places}
    KeyFile(tmp_path / "key").make()  # whoever comes later leaves it as it is
    assert {KeyFile(tmp_path / "key").read().current} == kept


def test_a_file_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    place = KeyFile(tmp_path / "key")
    place.make()
    place.path.chmod(0o644)
    with pytest.raises(BadSettings, match="Every user") as caught:
        place.read()
    assert caught.value.hint == f"chmod 600 {place.path}"


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    place, other = KeyFile(tmp_path / "key"), KeyFile(tmp_path / "key")
    place.make()
    (first,) = place.read().keys
    assert not place.has_changed()
    second = new_key()
    other.put([second, first])
    assert place.has_changed()
    assert place.read().keys == (second, first)
    assert not place.has_changed()
    place.path.unlink()
    assert not place.has_changed(), "what is held is better than nothing"


def test_a_variable_is_taken_as_it_is(tmp_path: Path) -> None:
    place = key_place(settings(tmp_path, encryption_key=f"{KEY.hex()},{OLDER.hex()}"))
    assert place.read().current == key_id(KEY)
    assert not place.has_changed()


def test_a_command_is_asked_without_a_shell(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    place = KeyCommand(f"{sys.executable} -c 'print(\"{KEY.hex()}\")' ; touch {marker}")
    assert place.read().keys == (KEY,)
    assert not marker.exists()


@pytest.mark.parametrize(
    "command", ["false", "true", "there-is-no-such-program", "echo nonsense", "'", " "]
)
def test_a_command_that_gives_no_key_is_told(command: str) -> None:
    with pytest.raises(BadSettings, match="--encryption-key-command"):
        KeyCommand(command).read()


def test_a_command_is_not_asked_again_and_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = f"import pathlib; pathlib.Path({str(count)!r}).open('a').write('x')"
    place = KeyCommand(f'{sys.executable} -c "{program}; print({KEY.hex()!r})"')
    for _ in range(5):
        place.read()
    assert count.read_text() == "x"


def test_a_key_is_given_in_one_way(tmp_path: Path) -> None:
    both = settings(tmp_path, encryption_key=KEY.hex(), encryption_key_command="true")
    with pytest.raises(BadSettings, match="given twice"):
        key_place(both)
