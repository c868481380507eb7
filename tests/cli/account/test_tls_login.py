"""A pool with an authority of its own: pinned by its fingerprint at the login, believed after."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.processes import ServerProcess


class PrivateServer(ServerProcess):
    """The tests' own plain HTTP does not get in; the commands do."""

    @property
    def fingerprint(self) -> str:
        return str(self.first["ca_fingerprint"])


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServer]:
    with PrivateServer(tmp_path_factory.mktemp("pool"), POTLUCK_TLS="auto") as server:
        assert server.url.startswith("https://")
        yield server


@pytest.fixture
def user(tmp_path: Path, pool: PrivateServer) -> CommandLine:
    person = InProcess(tmp_path / "config")
    person.variables["POTLUCK_WALLET_KEY"] = pool.wallet.key.hex()
    return person


def test_the_fingerprint_is_enough_and_needed_once(pool: PrivateServer, user: CommandLine) -> None:
    shown = user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint)
    assert shown.status == 0, shown.stderr
    assert pool.wallet.address in user.run("whoami").stdout.decode()
    assert user.run("login").status == 0  # the profile knows what to believe
    assert user.run("login", pool.url).status == 0


def test_the_doctor_says_what_is_not_believed_and_how_to(
    pool: PrivateServer, user: CommandLine
) -> None:
    def certificate(*words: str) -> dict[str, str]:
        (said,) = user.run("doctor", "consumer", *words, "--json").lines()
        (found,) = (each for each in said["findings"] if each["name"] == "certificate")
        return dict(found)

    refused = certificate("--server", pool.url)
    assert (refused["verdict"], "--ca-fingerprint" in refused["fix"]) == ("fail", True)
    assert user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint).status == 0
    assert certificate()["verdict"] == "ok"


def test_a_key_in_ci_names_the_authority_by_a_file(
    pool: PrivateServer, user: CommandLine, tmp_path: Path
) -> None:
    assert user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint).status == 0
    (made,) = user.run("keys", "add", "ci", "--json").lines()
    (authority,) = Path(user.variables["POTLUCK_CONFIG_DIR"]).glob("ca-*.pem")
    assert f"POTLUCK_CA_FILE={authority}" in user.run("keys", "add", "more").stderr
    script = InProcess(tmp_path / "ci", pool.url, made["secret"])
    told = script.run("ps")
    assert told.status == 69 and "--ca-fingerprint" in told.stderr
    script.variables["POTLUCK_CA_FILE"] = str(authority)
    assert script.run("ps").status == 0


def test_an_invite_prints_the_whole_command_to_join(pool: PrivateServer, user: CommandLine) -> None:
    assert user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint).status == 0
    told = user.run("admin", "invite").stderr
    assert f"potluck login {pool.url} --ca-fingerprint {pool.fingerprint}" in told
    assert "export POTLUCK_INVITE=" in told and "--invite" not in told


def test_without_it_the_server_is_not_believed(pool: PrivateServer, user: CommandLine) -> None:
    told = user.run("login", pool.url)
    assert told.status == 69
    assert "is not trusted" in told.stderr and "--ca-fingerprint" in told.stderr


def test_the_wrong_one_is_refused_and_nothing_is_kept(
    pool: PrivateServer, user: CommandLine
) -> None:
    told = user.run("login", pool.url, "--ca-fingerprint", f"sha256:{'0' * 64}")
    assert told.status == 78 and "is not --ca-fingerprint" in told.stderr
    assert not list(Path(user.variables["POTLUCK_CONFIG_DIR"]).glob("*"))
