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
    result = user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint)
    assert result.status == 0, result.stderr
    assert pool.wallet.address in user.run("whoami").stdout.decode()
    assert user.run("login").status == 0  # the profile knows what to believe
    assert user.run("login", pool.url).status == 0


def test_the_doctor_shows_an_untrusted_certificate_and_the_fix(
    pool: PrivateServer, user: CommandLine
) -> None:
    def certificate(*arguments: str) -> dict[str, str]:
        (document,) = user.run("doctor", "consumer", *arguments, "--json").lines()
        (certificate_finding,) = (
            finding for finding in document["findings"] if finding["name"] == "certificate"
        )
        return dict(certificate_finding)

    refused_finding = certificate("--server", pool.url)
    assert (refused_finding["verdict"], "--ca-fingerprint" in refused_finding["fix"]) == (
        "fail",
        True,
    )
    assert user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint).status == 0
    assert certificate()["verdict"] == "ok"


def test_a_key_in_ci_names_the_authority_by_a_file(
    pool: PrivateServer, user: CommandLine, tmp_path: Path
) -> None:
    assert user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint).status == 0
    (created_key,) = user.run("keys", "add", "ci", "--json").lines()
    (authority,) = Path(user.variables["POTLUCK_CONFIG_DIR"]).glob("ca-*.pem")
    assert f"POTLUCK_CA_FILE={authority}" in user.run("keys", "add", "more").stderr
    script = InProcess(tmp_path / "ci", pool.url, created_key["secret"])
    result = script.run("ps")
    assert result.status == 69 and "--ca-fingerprint" in result.stderr
    script.variables["POTLUCK_CA_FILE"] = str(authority)
    assert script.run("ps").status == 0


def test_an_invite_prints_the_whole_command_to_join(pool: PrivateServer, user: CommandLine) -> None:
    assert user.run("login", pool.url, "--ca-fingerprint", pool.fingerprint).status == 0
    stderr = user.run("admin", "invite").stderr
    assert f"potluck login {pool.url} --ca-fingerprint {pool.fingerprint}" in stderr
    assert "export POTLUCK_INVITE=" in stderr and "--invite" not in stderr


def test_without_it_the_server_is_not_believed(pool: PrivateServer, user: CommandLine) -> None:
    result = user.run("login", pool.url)
    assert result.status == 69
    assert "is not trusted" in result.stderr and "--ca-fingerprint" in result.stderr


def test_the_wrong_one_is_refused_and_nothing_is_kept(
    pool: PrivateServer, user: CommandLine
) -> None:
    result = user.run("login", pool.url, "--ca-fingerprint", f"sha256:{'0' * 64}")
    assert result.status == 78 and "another fingerprint than" in result.stderr
    assert not list(Path(user.variables["POTLUCK_CONFIG_DIR"]).glob("*"))
