"""The node key: made once, for its owner's eyes only, and never shown."""

import errno
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.error import BadSettings
from potluck.provider.server.node_key import (
    Authorised,
    ensure_key,
    load_authorised,
    load_key,
    save_delegation,
)
from potluck.wire.signing.device_statement import statement_digest
from potluck.wire.signing.signature import recover, text_digest

ORIGIN = "https://pool.example"


def test_a_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "provider"
    address = ensure_key(directory)
    assert ensure_key(directory) == address
    assert stat.S_IMODE((directory / "node-key").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_concurrent_creations_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: ensure_key(tmp_path), range(16)))) == 1


def test_an_incomplete_key_belongs_to_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half_written(path: Path, data: bytes) -> None:
        path.write_bytes(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full, pytest.raises(BadSettings, match="No space"):
        full.setattr("potluck.provider.server.node_key.write_new", half_written)
        ensure_key(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert ensure_key(tmp_path)


def test_an_authorisation_that_cannot_be_saved_is_reported(tmp_path: Path) -> None:
    (tmp_path / "delegations").touch()
    word = Authorised(ORIGIN, ensure_key(tmp_path), 1, 2)
    with pytest.raises(BadSettings, match="cannot be used"):
        save_delegation(tmp_path, word)


def test_a_file_in_place_of_the_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSettings, match="is a file") as error_info:
        ensure_key(tmp_path / "file")
    assert "permissions" not in error_info.value.hint


def test_the_key_is_in_no_text_about_it(tmp_path: Path) -> None:
    key = load_key(tmp_path)
    secret = (tmp_path / "node-key").read_text()
    assert len(secret) == 64
    assert secret not in repr(key) + str(key)
    assert key.address in repr(key)


@pytest.mark.parametrize("content", ["", "12", "x" * 64, "0" * 64 + "\n0"])
def test_a_file_without_a_key_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "node-key").write_text(content)
    with pytest.raises(BadSettings, match="not contain a key"):
        load_key(tmp_path)


def test_a_node_key_signs_texts_and_devices(tmp_path: Path) -> None:
    key = load_key(tmp_path)
    signed = bytes.fromhex(key.sign_text("hello")[2:])
    assert recover(text_digest("hello"), signed) == key.address
    card = DeviceDescription(DeviceKind.GPU, "GPU-1", "V", "M", 1)
    now = datetime.now(UTC)
    (statement,) = key.state_devices([card], ORIGIN, now)
    assert (statement.uuid, statement.origin, statement.stated_at) == (
        "GPU-1",
        ORIGIN,
        int(now.timestamp()),
    )
    digest = statement_digest("GPU-1", key.address, ORIGIN, statement.stated_at)
    assert recover(digest, bytes.fromhex(statement.signature[2:])) == key.address


def test_authorisations_are_kept_per_server_and_key(tmp_path: Path) -> None:
    now = int(time.time())
    authorised = Authorised(ORIGIN, ensure_key(tmp_path), now, now + 60)
    assert load_authorised(tmp_path, ORIGIN) is None
    save_delegation(tmp_path, authorised)
    assert load_authorised(tmp_path, ORIGIN) == authorised
    assert load_authorised(tmp_path, "https://other.example") is None
    (tmp_path / "node-key").unlink()
    assert load_authorised(tmp_path, ORIGIN) is None, "that was for another key"
