"""The first command at a pool signs in by itself, with a wallet that it makes."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.cli.pseudo_terminal import Terminal
from tests.processes import ServerProcess
from tests.wallets import Wallet

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("pool")) as server:
        yield server


@pytest.fixture(scope="module")
def invited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("invited")
    with ServerProcess(directory, POTLUCK_REGISTRATION="invite") as server:
        yield server


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "hello.py"
    path.write_text("print('hello')")
    return path


@pytest.fixture
def nobody(tmp_path: Path) -> CommandLine:
    """Has nothing yet: no profile, no wallet."""
    return InProcess(tmp_path / "config")


@pytest.fixture
def somebody(nobody: CommandLine) -> CommandLine:
    """Has a wallet, and no profile."""
    nobody.variables["POTLUCK_WALLET_KEY"] = Wallet(
        nobody.variables["POTLUCK_CONFIG_DIR"]
    ).key.hex()
    return nobody


def kept(user: CommandLine) -> set[str]:
    directory = Path(user.variables["POTLUCK_CONFIG_DIR"])
    return {path.name for path in directory.glob("*") if not path.name.endswith(".lock")}


def profile_url(user: CommandLine) -> str:
    path = Path(user.variables["POTLUCK_CONFIG_DIR"], "profile.toml")
    return str(tomllib.loads(path.read_text())["url"])


def test_a_wallet_is_made_on_the_way_and_the_server_remembered(
    pool: ServerProcess, nobody: CommandLine, script: Path
) -> None:
    nobody.variables["POTLUCK_WALLET_PASSWORD"] = PASSWORD
    first = nobody.run("run", "--server", pool.url, "--detach", script)
    assert first.status == 0, first.stderr
    assert first.stdout.startswith(b"task_")
    assert "Made the wallet 0x" in first.stderr and "wallet.json" in first.stderr
    assert f"Signed in to {pool.url}" in first.stderr
    assert kept(nobody) == {"wallet.json", "profile.toml"}
    del nobody.variables["POTLUCK_WALLET_PASSWORD"]
    second = nobody.run("run", "--detach", script)
    assert second.status == 0 and "wallet" not in second.stderr
    (document,) = nobody.run("ps", "--json").lines()
    assert len(document["tasks"]) == 2


def test_with_json_there_is_nothing_but_the_task(
    pool: ServerProcess, somebody: CommandLine, script: Path
) -> None:
    result = somebody.run("run", "--server", pool.url, "--detach", "--json", script)
    (task,) = result.lines()
    assert task["state"] == "queued" and result.stderr == ""


def test_a_person_is_asked_for_a_password(
    pool: ServerProcess, tmp_path: Path, script: Path
) -> None:
    user = CommandLine(tmp_path / "config")
    user.variables["POTLUCK_URL"] = pool.url
    with Terminal(user, "run", "--detach", script) as terminal:
        terminal.answer("or more): ", PASSWORD)
        terminal.answer("The same again: ", PASSWORD)
        screen = terminal.rest()
        assert terminal.status() == 0, screen
    assert "Made the wallet" in screen and "task_" in screen and PASSWORD not in screen
    assert profile_url(user) == pool.url


def test_without_a_terminal_no_prompt_waits(
    pool: ServerProcess, nobody: CommandLine, script: Path
) -> None:
    result = nobody.run("run", "--server", pool.url, script)
    assert result.status == 78
    assert "no terminal" in result.stderr and "POTLUCK_WALLET_PASSWORD" in result.stderr
    assert not kept(nobody)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("--server", "POOL", "nowhere.py"), 64), (("--server", "http://127.0.0.1:1", "SCRIPT"), 69)],
)
def test_no_wallet_is_made_for_an_invalid_command(
    pool: ServerProcess, nobody: CommandLine, script: Path, arguments: tuple[str, ...], status: int
) -> None:
    nobody.variables["POTLUCK_WALLET_PASSWORD"] = PASSWORD
    command_arguments = [
        {"POOL": pool.url, "SCRIPT": str(script)}.get(word, word) for word in arguments
    ]
    assert nobody.run("run", *command_arguments).status == status
    assert not kept(nobody)


def test_a_key_of_ci_makes_no_wallet(
    pool: ServerProcess, nobody: CommandLine, script: Path
) -> None:
    nobody.variables |= {"POTLUCK_TOKEN": pool.token, "POTLUCK_URL": pool.url}
    assert nobody.run("run", "--detach", script).status == 0
    assert not kept(nobody)


def test_signing_in_leaves_a_profile_for_another_server_unchanged(
    pool: ServerProcess, invited: ServerProcess, somebody: CommandLine, script: Path
) -> None:
    assert somebody.run("run", "--server", pool.url, "--detach", script).status == 0
    result = somebody.run("run", "--server", invited.url, "--detach", script)
    assert result.status == 77
    assert pool.url in result.stderr and f"potluck login {invited.url}" in result.stderr
    assert profile_url(somebody) == pool.url


@pytest.fixture
def cloned(pool: ServerProcess, script: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's project, which names a server; the script in it."""
    monkeypatch.chdir(script.parent)
    table = f'[tool.potluck]\nserver = "{pool.url}"\n'
    (script.parent / "pyproject.toml").write_text(table)
    (script.parent / "items.txt").write_text("one\n")
    return script


@pytest.mark.parametrize(
    "arguments", [("run", "--detach"), ("submit",), ("map", "-d", "items.txt")]
)
def test_no_sign_in_at_a_server_that_only_a_project_names(
    pool: ServerProcess, nobody: CommandLine, cloned: Path, arguments: tuple[str, ...]
) -> None:
    nobody.variables["POTLUCK_WALLET_PASSWORD"] = PASSWORD
    verb, *options = arguments
    result = nobody.run(verb, "--ca-fingerprint", f"sha256:{'0' * 64}", *options, cloned)
    assert result.status == 77 and f"`potluck login {pool.url}`" in result.stderr
    assert "pyproject.toml, line 2" in result.stderr
    assert not kept(nobody)


def test_a_projects_server_changes_no_profile_and_uses_an_existing_session(
    pool: ServerProcess, invited: ServerProcess, somebody: CommandLine, cloned: Path
) -> None:
    invite = invited.client().post("/v1/invites", {})
    entry = ("--server", invited.url, "--invite", invite["code"])
    assert somebody.run("run", *entry, "--detach", cloned).status == 0
    assert somebody.run("logout").status == 0
    assert somebody.run("run", "--detach", cloned).status == 77
    assert profile_url(somebody) == invited.url
    assert somebody.run("login", pool.url).status == 0
    assert somebody.run("run", "--detach", cloned).status == 0


def test_secrets_go_to_no_server_that_only_a_project_names(
    pool: ServerProcess, somebody: CommandLine, cloned: Path
) -> None:
    somebody.variables["API_TOKEN"] = "long enough"
    arguments = ("submit", "--secret", "API_TOKEN")
    result = somebody.run(*arguments, cloned)
    assert result.status == 64 and "the secrets would be sent there" in result.stderr
    assert "--server" in result.stderr and not kept(somebody)
    assert somebody.run(*arguments, "--server", pool.url, cloned).status == 0, "it is typed"
    assert somebody.run(*arguments, cloned).status == 0, "it is the profile's"


def test_a_user_who_logged_out_stays_logged_out(
    pool: ServerProcess, invited: ServerProcess, somebody: CommandLine, script: Path
) -> None:
    assert somebody.run("run", "--server", pool.url, "--detach", script).status == 0
    assert somebody.run("logout").status == 0
    result = somebody.run("run", "--detach", script)
    assert result.status == 77 and f"potluck login {pool.url}" in result.stderr
    other_result = somebody.run("run", "--server", invited.url, "--detach", script)
    assert "needs an invite" in other_result.stderr, "nothing kept them from trying"


def test_a_pool_that_requires_an_invite_says_so_and_accepts_it(
    invited: ServerProcess, somebody: CommandLine, script: Path
) -> None:
    arguments = ("run", "--server", invited.url, "--detach")
    result = somebody.run(*arguments, script)
    assert result.status == 77 and "--invite CODE" in result.stderr
    invite = invited.client().post("/v1/invites", {})
    assert somebody.run(*arguments, "--invite", invite["code"], script).status == 0
    assert somebody.run(*arguments, "--invite", invite["code"], script).status == 0, (
        "it does no harm"
    )
    (me,) = somebody.run("whoami", "--json").lines()
    accounts = invited.client().get("/v1/accounts")["accounts"]
    (account_id,) = [account["id"] for account in accounts if account["address"] == me["address"]]
    invited.client().call("POST", f"/v1/accounts/{account_id}/suspend", b'{"reason": "too loud"}')
    suspended = somebody.run(*arguments, script)
    assert suspended.status == 77 and "too loud" in suspended.stderr
