"""Keys come from a file, a variable or a command; what is wrong there is told and never quoted."""

import os
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from potluck.model.error import BadSettings, Unavailable
from potluck.server.encryption.key_sources import KeyCommand, KeyFile, key_place, parse
from potluck.server.settings import ServerSettings
from potluck.store.sealing.vault import key_id, new_key
from tests.processes import await_true
from tests.processor_time import OwnTime

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
def test_an_invalid_key_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(BadSettings) as error_info:
        parse(text, "the test")
    message = error_info.value.detail + error_info.value.hint
    assert "the test" in message and KEY.hex()[:16] not in message


def test_a_file_is_the_default_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    place = key_place(settings(tmp_path))
    assert isinstance(place, KeyFile)
    assert place.path == tmp_path / "encryption-key" and not place.exists()
    place.make()
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
    assert len(place.read().keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["encryption-key"], "no draft is left"


def test_concurrent_key_creation_keeps_one_key(tmp_path: Path) -> None:
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
    keys = {place.read().current for place in places}
    KeyFile(tmp_path / "key").make()  # whoever comes later leaves it as it is
    assert {KeyFile(tmp_path / "key").read().current} == keys


def test_a_file_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    place = KeyFile(tmp_path / "key")
    place.make()
    place.path.chmod(0o644)
    with pytest.raises(BadSettings, match="can read") as error_info:
        place.read()
    assert error_info.value.hint == f"First: chmod 600 {place.path}"


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


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    """As instances do that run as different users of one group."""
    group = next((group_id for group_id in os.getgroups() if group_id != os.getgid()), os.getgid())
    if os.getuid() == 0:
        group = 4321  # root may give it to anybody
    place = KeyFile(tmp_path / "key")
    place.make()
    os.chown(place.path, -1, group)
    place.path.chmod(0o640)
    place.put([new_key(), *place.read().keys])
    file_status = place.path.stat()
    assert (stat.S_IMODE(file_status.st_mode), file_status.st_gid) == (0o640, group)
    assert len(place.read().keys) == 2


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    link = tmp_path / "key"
    link.symlink_to(tmp_path / "shared" / "key")
    place, other = KeyFile(link), KeyFile(tmp_path / "shared" / "key")
    place.make()
    place.put([KEY, *place.read().keys])
    assert link.is_symlink() and other.read().keys[0] == KEY, "both see the new key"


def test_only_incomplete_writes_are_removed(tmp_path: Path) -> None:
    place = KeyFile(tmp_path / "key")
    place.make()
    (tmp_path / ".key.0a1b2c3d").write_text(KEY.hex())
    others = {".key.swp", ".key.backup00", ".other.0a1b2c3d", "key.0a1b2c3d"}
    for name in others:
        (tmp_path / name).write_text("kept")
    place.remove_drafts()
    assert {path.name for path in tmp_path.iterdir()} == others | {"key"}


def test_keys_in_a_variable_are_used_and_never_change(tmp_path: Path) -> None:
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
def test_a_command_without_a_key_is_reported(command: str) -> None:
    with pytest.raises(BadSettings, match="--encryption-key-command"):
        KeyCommand(command).read()


def test_a_command_is_not_asked_again_and_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = f"import pathlib; pathlib.Path({str(count)!r}).open('a').write('x')"
    place = KeyCommand(f'{sys.executable} -c "{program}; print({KEY.hex()!r})"')
    for _ in range(5):
        place.read()
    assert count.read_text() == "x"


class Program:
    """A program that tells keys, counts how often it is asked, and can be made to fail or wait."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._script = directory / "tell.sh"
        self.does(f"echo {KEY.hex()}")

    @property
    def command(self) -> str:
        return f"sh {self._script} --password=sesame"

    @property
    def times_asked(self) -> int:
        return len((self._directory / "asked").read_text())

    def does(self, line: str) -> None:
        self._script.write_text(f"printf x >> {self._directory}/asked\n{line}\n")


def test_a_command_that_fails_is_not_asked_again_and_again(tmp_path: Path) -> None:
    program = Program(tmp_path)
    place = KeyCommand(program.command, ask_again_seconds=0.2)
    place.read()
    program.does("exit 3")
    time.sleep(0.3)
    for _ in range(5):
        with pytest.raises(BadSettings, match="status 3") as error_info:
            place.read()
        assert "sesame" not in error_info.value.detail + error_info.value.hint
    assert program.times_asked == 2

    program.does(f"echo {OLDER.hex()}")
    time.sleep(0.3)
    assert place.read().keys == (OLDER,), "it is asked again, later"


def test_only_the_start_waits_for_a_slow_command(tmp_path: Path) -> None:
    program = Program(tmp_path)
    place = KeyCommand(program.command, ask_again_seconds=0.2)
    place.read()
    program.does(f"sleep 1.5; echo {OLDER.hex()}")
    time.sleep(0.3)
    for longest in (1.0, 0.1):
        with OwnTime() as cpu_time, pytest.raises(Unavailable):
            place.read()
        assert cpu_time.seconds < longest

    def answered() -> bool:
        try:
            return place.read().keys == (OLDER,)
        except Unavailable:
            return False

    await_true(answered, "the program answers", 10)


def test_a_key_is_given_in_one_way(tmp_path: Path) -> None:
    both = settings(tmp_path, encryption_key=KEY.hex(), encryption_key_command="true")
    with pytest.raises(BadSettings, match="given twice"):
        key_place(both)
