"""Signing in by the commands, at a real server: with every kind of wallet, and out again."""

import json
import secrets
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from eth_account import Account

from potluck.local.durable_files import write_new
from tests.cli.command_line import CommandLine, InProcess
from tests.cli.pseudo_terminal import Terminal
from tests.processes import FAST_PROVIDER, PotluckProcess, ServerProcess
from tests.wallets import Wallet


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Takes invited accounts, as it would anywhere but on loopback."""
    directory = tmp_path_factory.mktemp("pool")
    with ServerProcess(directory, POTLUCK_REGISTRATION="invite") as server:
        yield server


@pytest.fixture
def admin(tmp_path: Path, pool: ServerProcess) -> CommandLine:
    user = InProcess(tmp_path / "admin")
    user.variables["POTLUCK_WALLET_KEY"] = pool.wallet.key.hex()
    assert user.run("login", pool.url).status == 0
    return user


@pytest.fixture
def invite(admin: CommandLine) -> str:
    return admin.run("admin", "invite", "--credits", "2").stdout.decode().strip()


@pytest.fixture
def ann(tmp_path: Path, pool: ServerProcess, invite: str) -> CommandLine:
    """Has a wallet, of less strength than ours so that it opens at once, and signed in with it."""
    user = InProcess(tmp_path / "ann")
    user.variables["POTLUCK_WALLET_PASSWORD"] = "ann's own words"
    keystore = json.dumps(Account.encrypt(secrets.token_bytes(32), "ann's own words", None, 1024))
    config(user).mkdir(mode=0o700)
    write_new(config(user) / "wallet.json", keystore.encode())
    assert user.run("login", pool.url, "--invite", invite).status == 0
    return user


def address_of(user: CommandLine) -> str:
    (me,) = user.run("whoami", "--json").lines()
    return str(me["address"])


def config(user: CommandLine) -> Path:
    return Path(user.variables["POTLUCK_CONFIG_DIR"])


def test_a_stranger_needs_an_invite_and_keeps_the_wallet(
    tmp_path: Path, pool: ServerProcess, invite: str
) -> None:
    user = InProcess(tmp_path / "stranger")
    user.variables["POTLUCK_WALLET_PASSWORD"] = "some words"
    result = user.run("login", pool.url)
    assert result.status == 77
    assert "needs an invite" in result.stderr and "--invite CODE" in result.stderr
    keystore = (config(user) / "wallet.json").read_bytes()
    user.variables["POTLUCK_INVITE"] = invite
    (signed_in,) = user.run("login", pool.url, "--json").lines()
    assert (config(user) / "wallet.json").read_bytes() == keystore
    assert signed_in["address"].lower().endswith(json.loads(keystore)["address"].lower())
    assert b"2 credits available" in user.run("whoami").stdout
    second_user = InProcess(tmp_path / "second")
    second_user.variables |= {"POTLUCK_WALLET_PASSWORD": "some words", "POTLUCK_INVITE": invite}
    assert "not valid" in second_user.run("login", pool.url).stderr  # it was good for one


def test_secrets_are_in_private_files_and_never_in_the_output(
    pool: ServerProcess, ann: CommandLine
) -> None:
    ann.variables["POTLUCK_DEBUG"] = "1"
    result = ann.run("login", "--json")
    profile = tomllib.loads((config(ann) / "profile.toml").read_text())
    for secret in (profile["access_token"], profile["refresh_token"], "ann's own words"):
        assert secret not in result.stdout.decode() + result.stderr
    assert stat.S_IMODE(config(ann).stat().st_mode) == 0o700
    for path in config(ann).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_person_types_the_password_twice_and_later_once(
    tmp_path: Path, pool: ServerProcess, invite: str
) -> None:
    user = CommandLine(tmp_path / "person")
    user.variables["POTLUCK_INVITE"] = invite
    with Terminal(user, "login", pool.url) as terminal:
        terminal.answer("Password for your new wallet (8 characters or more): ", "correct horse")
        terminal.answer("The same again: ", "correct horse")
        screen = terminal.rest()
        assert terminal.status() == 0, screen
    assert "Made the wallet 0x" in screen and "Signed in to" in screen
    assert "correct horse" not in screen
    with Terminal(user, "login") as terminal:
        terminal.answer(f"Password of the wallet {config(user) / 'wallet.json'}: ", "wrong horse")
        assert "is wrong" in terminal.rest()
        assert terminal.status() == 77
    with Terminal(user, "login") as terminal:
        terminal.answer("Password of the wallet", "correct horse")
        assert "Signed in to" in terminal.rest()


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [(("short",), "less than 8 characters"), (("long enough", "but another"), "differ")],
)
def test_a_poor_password_makes_no_wallet_and_is_asked_for_again(
    tmp_path: Path, pool: ServerProcess, entries: tuple[str, ...], sentence: str
) -> None:
    user = CommandLine(tmp_path / "person")
    with Terminal(user, "login", pool.url) as terminal:
        for text in entries:
            terminal.answer(": ", text)
        assert sentence in terminal.until("or more): ")
        terminal.press("\x04")
        terminal.rest()
        assert terminal.status() == 130
    assert not (config(user) / "wallet.json").exists()


def test_without_a_terminal_the_variable_is_named(tmp_path: Path, pool: ServerProcess) -> None:
    result = CommandLine(tmp_path / "ci").run("login", pool.url)
    assert result.status == 78
    assert "no terminal" in result.stderr and "POTLUCK_WALLET_PASSWORD" in result.stderr


@pytest.mark.parametrize("kind", ["keystore", "raw"])
def test_a_key_file_is_used_and_remembered(
    tmp_path: Path, pool: ServerProcess, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_wallet = pool.wallet
    path = tmp_path / "key"
    content = json.dumps(Account.encrypt(own_wallet.key, "theirs", iterations=1024))
    path.write_text(content if kind == "keystore" else own_wallet.key.hex())
    path.chmod(0o600)
    user = InProcess(tmp_path / "user")
    user.variables["POTLUCK_WALLET_PASSWORD"] = "theirs"
    monkeypatch.chdir(tmp_path)
    assert user.run("login", pool.url, "--key-file", "key").status == 0
    assert address_of(user) == own_wallet.address
    assert tomllib.loads((config(user) / "profile.toml").read_text())["key_file"] == str(path)
    assert user.run("login", pool.url).status == 0
    assert address_of(user) == own_wallet.address, "the wallet of the last time"
    assert not (config(user) / "wallet.json").exists()
    assert tomllib.loads((config(user) / "profile.toml").read_text())["key_file"] == str(path)


def test_no_wallet_is_made_for_a_server_that_is_not_there(tmp_path: Path) -> None:
    user = InProcess(tmp_path / "user")
    user.variables["POTLUCK_WALLET_PASSWORD"] = "some words"
    assert user.run("login", "http://127.0.0.1:1").status == 69
    assert not (config(user) / "wallet.json").exists()


def test_ctrl_d_at_the_password_ends_it_quietly(tmp_path: Path, pool: ServerProcess) -> None:
    user = CommandLine(tmp_path / "person")
    with Terminal(user, "login", pool.url) as terminal:
        terminal.until("Password for your new wallet")
        terminal.press("\x04")
        assert "unexpected" not in terminal.rest()
        assert terminal.status() == 130


def test_signing_in_again_ends_the_session_before(pool: ServerProcess, ann: CommandLine) -> None:
    before = tomllib.loads((config(ann) / "profile.toml").read_text())["access_token"]
    assert ann.run("login").status == 0
    (document,) = ann.run("sessions", "list", "--json").lines()
    assert [session["is_current"] for session in document["sessions"]] == [True]
    assert pool.client(before).call("GET", "/v1/me").status == 401


def test_an_invite_is_not_left_in_the_command_line_of_a_provider(
    tmp_path: Path, pool: ServerProcess, invite: str
) -> None:
    wallet = {"POTLUCK_WALLET_KEY": Wallet("with a machine").key.hex()}
    place = ["--data-dir", str(tmp_path), "--unsafe-no-sandbox"]
    for option in (["--invite", invite], [f"--invite={invite}"]):
        arguments = ["provide", pool.url, *option, *place]
        environment = {**FAST_PROVIDER, **wallet, "POTLUCK_CONFIG_DIR": str(tmp_path / "config")}
        with PotluckProcess(arguments, environment, tmp_path / "log") as provider:
            command_line = psutil.Process(provider.process.pid).cmdline()
        assert invite not in " ".join(command_line) and "--data-dir" in command_line


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, pool: ServerProcess) -> None:
    path = tmp_path / "key"
    path.write_text(pool.wallet.key.hex())
    path.chmod(0o644)
    result = InProcess(tmp_path / "user").run("login", pool.url, "--key-file", path)
    assert result.status == 78
    assert "can read" in result.stderr and pool.wallet.key.hex() not in result.stderr


def test_logout_ends_the_session_at_the_server(pool: ServerProcess, ann: CommandLine) -> None:
    before = tomllib.loads((config(ann) / "profile.toml").read_text())
    assert b"Signed out of" in ann.run("logout").stdout
    after = (config(ann) / "profile.toml").read_text()
    assert before["refresh_token"] not in after and before["access_token"] not in after
    assert pool.client(before["access_token"]).call("GET", "/v1/me").status == 401
    result = ann.run("whoami")
    assert result.status == 77 and f"potluck login {pool.url}" in result.stderr
    assert ann.run("logout").status == 0  # once more is fine
    assert ann.run("login").status == 0  # the address was kept, and the wallet


def test_logout_without_a_server_still_deletes_the_session(
    tmp_path: Path, pool: ServerProcess, ann: CommandLine
) -> None:
    path = config(ann) / "profile.toml"
    path.write_text(path.read_text().replace(pool.url, "http://127.0.0.1:1"))
    result = ann.run("logout")
    assert result.status == 0 and "was not reached" in result.stderr
    assert "token" not in path.read_text()


def test_keys(pool: ServerProcess, ann: CommandLine, tmp_path: Path) -> None:
    add_command = ann.run("keys", "add", "ci", "--scope", "tasks:read", "--expires", "30d")
    secret = add_command.stdout.decode().strip()
    assert secret.startswith("potluck_key_") and secret not in add_command.stderr
    script = InProcess(tmp_path / "script", pool.url, secret)
    assert script.run("ps").status == 0
    result = script.run("nodes")
    assert result.status == 77 and "pool:read" in result.stderr
    assert script.run("keys", "list").status == 77
    (document,) = ann.run("keys", "list", "--json").lines()
    (key,) = document["keys"]
    assert (key["name"], key["scopes"]) == ("ci", ["tasks:read"])
    assert secret not in ann.run("keys", "list").stdout.decode()
    assert ann.run("keys", "revoke", key["id"]).status == 0
    assert script.run("ps").status == 77
    assert ann.run("keys", "revoke", key["id"]).status == 66


def test_all_keys_are_revoked_at_once(ann: CommandLine) -> None:
    for name in ("one", "two"):
        assert ann.run("keys", "add", name).status == 0
    result = ann.run("keys", "revoke")
    assert result.status == 64 and "--all" in result.stderr
    assert ann.run("keys", "revoke", "key_x", "--all").status == 64
    assert ann.run("keys", "revoke", "--all").stdout == b"Revoked 2 keys.\n"
    (document,) = ann.run("keys", "list", "--json").lines()
    assert document["keys"] == []
    assert ann.run("keys", "revoke", "--all", "--json").lines() == [{"revoked": []}]


def test_a_key_is_revoked_by_its_name(ann: CommandLine) -> None:
    for name in ("laptop", "twin", "twin"):
        assert ann.run("keys", "add", name).status == 0
    (document,) = ann.run("keys", "list", "--json").lines()
    ids = {key["name"]: key["id"] for key in document["keys"]}
    assert ann.run("keys", "revoke", "laptop").stdout.decode() == f"Revoked {ids['laptop']}.\n"
    assert ann.run("keys", "revoke", "laptop").status == 66
    result = ann.run("keys", "revoke", "twin")
    assert result.status == 64 and ids["twin"] in result.stderr
    assert ann.run("keys", "revoke", "--all").stdout == b"Revoked 2 keys.\n"


def test_a_key_cannot_have_more_than_its_scopes(ann: CommandLine) -> None:
    long = ann.run("keys", "add", "x" * 101)
    assert "The name is not valid: it is longer than 100 characters." in long.stderr
    assert (long.status, "schema" in long.stderr, "body" in long.stderr) == (64, False, False)
    assert ann.run("keys", "add", "x", "--scope", "admin").status == 64
    assert ann.run("keys", "add", "x", "--scope", "nonsense").status == 64
    assert ann.run("keys", "add", "x", "--expires", "soon").status == 64
    short = ann.run("keys", "add", "x", "--expires", "1s")
    assert short.status == 64 and "--expires 1s is out of range" in short.stderr


def test_a_group_without_a_command_lists_or_helps(ann: CommandLine) -> None:
    for group in ("keys", "sessions"):
        assert ann.run(group, "--json").lines() == ann.run(group, "list", "--json").lines()
        assert ann.run(group).status == 0
        assert "revoke" in ann.run("keys", "--help").stdout.decode()
    for group, command in (("provider", "revoke"), ("admin", "invites")):
        result = ann.run(group)
        assert result.status == 0 and command in result.stdout.decode()


def test_roles_are_shown_and_chosen(ann: CommandLine) -> None:
    assert ann.run("roles").stdout == b"consumer\n"
    assert ann.run("roles", "provider", "consumer").stdout == b"consumer, provider\n"
    assert ann.run("roles", "none").stdout == b"none\n"
    assert ann.run("roles", "both").stdout == b"consumer, provider\n"
    assert ann.run("roles", "none").stdout == b"none\n"
    refused_result = ann.run("ps")
    assert refused_result.status == 77 and "potluck roles consumer" in refused_result.stderr
    result = ann.run("roles", "admin")
    assert result.status == 64 and "only an admin can make an admin" in result.stderr


def test_sessions_are_listed_and_ended(
    tmp_path: Path, pool: ServerProcess, ann: CommandLine
) -> None:
    other_machine = InProcess(tmp_path / "her other machine")
    other_machine.variables["POTLUCK_WALLET_PASSWORD"] = ann.variables["POTLUCK_WALLET_PASSWORD"]
    keystore = config(ann) / "wallet.json"
    assert other_machine.run("login", pool.url, "--key-file", keystore).status == 0
    first = tomllib.loads((config(other_machine) / "profile.toml").read_text())["access_token"]
    (document,) = ann.run("sessions", "list", "--json").lines()
    (old,) = [session for session in document["sessions"] if not session["is_current"]]
    (current,) = [
        line
        for line in ann.run("sessions", "list").stdout.decode().splitlines()
        if "(this one)" in line
    ]
    assert "in use" in current and "ago" not in current
    assert ann.run("sessions", "end", old["id"]).status == 0
    assert pool.client(first).call("GET", "/v1/me").status == 401
    assert ann.run("whoami").status == 0
    assert ann.run("sessions", "end", old["id"]).status == 66


def test_admins_have_their_commands(admin: CommandLine, ann: CommandLine) -> None:
    wallet = address_of(ann)
    output = admin.run("admin", "accounts").stdout.decode()
    assert wallet in output
    assert admin.run("admin", "grant", wallet.lower(), "1.5").status == 0
    assert b"3.5 credits" in ann.run("whoami").stdout
    assert admin.run("admin", "roles", wallet, "consumer", "provider").status == 0
    assert ann.run("roles").stdout == b"consumer, provider\n"
    assert admin.run("admin", "roles", wallet, "king").status == 64
    assert admin.run("admin", "suspend", wallet, "--reason", "too loud").status == 0
    result = ann.run("ps")
    assert result.status == 77 and "suspended: too loud" in result.stderr
    assert "too loud" in admin.run("admin", "accounts").stdout.decode()
    assert admin.run("admin", "resume", wallet).status == 0
    assert ann.run("ps").status == 0
    assert admin.run("admin", "grant", Wallet("nobody").address, "1").status == 66
    assert ann.run("admin", "accounts").status == 77


def test_invites_are_listed_and_revoked(
    admin: CommandLine, pool: ServerProcess, tmp_path: Path
) -> None:
    (created_invite,) = admin.run(
        "admin", "invite", "--role", "provider", "--uses", "3", "--json"
    ).lines()
    assert created_invite["invite"]["id"] in admin.run("admin", "invites").stdout.decode()
    assert created_invite["code"] not in admin.run("admin", "invites", "--json").stdout.decode()
    result = admin.run("admin", "invites", "--revoke", created_invite["invite"]["id"])
    assert created_invite["invite"]["id"] not in result.stdout.decode()
    late_user = InProcess(tmp_path / "late")
    late_user.variables["POTLUCK_WALLET_PASSWORD"] = "some words"
    assert late_user.run("login", pool.url, "--invite", created_invite["code"]).status == 77


def test_the_audit_log_has_all_of_it_and_verifies(admin: CommandLine, ann: CommandLine) -> None:
    (page,) = admin.run("admin", "audit", "--limit", "1000", "--json").lines()
    kinds = {entry["kind"] for entry in page["entries"]}
    assert {"account_created", "signed_in", "invite_made"} <= kinds
    result = admin.run("admin", "audit", "--limit", "1")
    assert len(result.stdout.decode().splitlines()) == 2 and "--before" in result.stderr
    verdict = admin.run("admin", "audit", "--verify")
    assert verdict.status == 0 and b"The audit log is intact" in verdict.stdout
    (document,) = admin.run("admin", "audit", "--verify", "--json").lines()
    assert document["holds"] is True and len(document["head"]) == 64


def test_many_processes_share_a_session_that_ends_all_the_time(
    pool: ServerProcess, tmp_path: Path
) -> None:
    """Each of them has to refresh; a refresh token used twice would end the session for all."""
    directory = tmp_path / "hasty"
    with ServerProcess(directory, POTLUCK_ACCESS_SECONDS="1") as server:
        user = CommandLine(tmp_path / "user")
        user.variables["POTLUCK_WALLET_PASSWORD"] = "only for the login"
        assert user.run("login", server.url).status == 0
        del user.variables["POTLUCK_WALLET_PASSWORD"]
        running = [user.start("sessions", "list", "--json") for _ in range(8)]
        outcomes = [(process.communicate(), process.returncode) for process in running]
        assert [status for _, status in outcomes] == [0] * 8, outcomes
        for (stdout, _), _ in outcomes:
            assert [session["is_current"] for session in json.loads(stdout)["sessions"]] == [True]
        page = server.client(server.sign_in(server.wallet)).get("/v1/audit")
        kinds = [entry["kind"] for entry in page["entries"]]
        assert "refresh_reused" not in kinds
        assert kinds.count("signed_in") == 2  # the login above, and the operator just now
