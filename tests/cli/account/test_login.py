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
    told = user.run("login", pool.url)
    assert told.status == 77
    assert "needs an invite" in told.stderr and "--invite CODE" in told.stderr
    keystore = (config(user) / "wallet.json").read_bytes()
    user.variables["POTLUCK_INVITE"] = invite
    (signed_in,) = user.run("login", pool.url, "--json").lines()
    assert (config(user) / "wallet.json").read_bytes() == keystore
    assert signed_in["address"].lower().endswith(json.loads(keystore)["address"].lower())
    assert b"2 credits available" in user.run("whoami").stdout
    again = InProcess(tmp_path / "second")
    again.variables |= {"POTLUCK_WALLET_PASSWORD": "some words", "POTLUCK_INVITE": invite}
    assert "not valid" in again.run("login", pool.url).stderr  # it was good for one


def test_secrets_are_in_private_files_and_never_in_the_output(
    pool: ServerProcess, ann: CommandLine
) -> None:
    ann.variables["POTLUCK_DEBUG"] = "1"
    shown = ann.run("login", "--json")
    profile = tomllib.loads((config(ann) / "profile.toml").read_text())
    for secret in (profile["access_token"], profile["refresh_token"], "ann's own words"):
        assert secret not in shown.stdout.decode() + shown.stderr
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
        shown = terminal.rest()
        assert terminal.status() == 0, shown
    assert "Made the wallet 0x" in shown and "Signed in to" in shown
    assert "correct horse" not in shown
    with Terminal(user, "login") as terminal:
        terminal.answer(f"Password of the wallet {config(user) / 'wallet.json'}: ", "wrong horse")
        assert "is wrong" in terminal.rest()
        assert terminal.status() == 77
    with Terminal(user, "login") as terminal:
        terminal.answer("Password of the wallet", "correct horse")
        assert "Signed in to" in terminal.rest()


@pytest.mark.parametrize(
    ("typed", "words"),
    [(("short",), "less than 8 characters"), (("long enough", "but another"), "differ")],
)
def test_a_poor_password_makes_no_wallet_and_is_asked_for_again(
    tmp_path: Path, pool: ServerProcess, typed: tuple[str, ...], words: str
) -> None:
    user = CommandLine(tmp_path / "person")
    with Terminal(user, "login", pool.url) as terminal:
        for text in typed:
            terminal.answer(": ", text)
        assert words in terminal.until("or more): ")
        terminal.press("\x04")
        terminal.rest()
        assert terminal.status() == 130
    assert not (config(user) / "wallet.json").exists()


def test_without_a_terminal_the_variable_is_named(tmp_path: Path, pool: ServerProcess) -> None:
    told = CommandLine(tmp_path / "ci").run("login", pool.url)
    assert told.status == 78
    assert "no terminal" in told.stderr and "POTLUCK_WALLET_PASSWORD" in told.stderr


@pytest.mark.parametrize("kind", ["keystore", "raw"])
def test_a_key_file_is_used_and_remembered(
    tmp_path: Path, pool: ServerProcess, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = pool.wallet
    path = tmp_path / "key"
    content = json.dumps(Account.encrypt(mine.key, "theirs", iterations=1024))
    path.write_text(content if kind == "keystore" else mine.key.hex())
    path.chmod(0o600)
    user = InProcess(tmp_path / "user")
    user.variables["POTLUCK_WALLET_PASSWORD"] = "theirs"
    monkeypatch.chdir(tmp_path)
    assert user.run("login", pool.url, "--key-file", "key").status == 0
    assert address_of(user) == mine.address
    assert tomllib.loads((config(user) / "profile.toml").read_text())["key_file"] == str(path)
    assert user.run("login", pool.url).status == 0
    assert address_of(user) == mine.address, "the wallet of the last time"
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
    (listed,) = ann.run("sessions", "list", "--json").lines()
    assert [each["is_current"] for each in listed["sessions"]] == [True]
    assert pool.client(before).call("GET", "/v1/me").status == 401


def test_an_invite_is_not_left_in_the_command_line_of_a_provider(
    tmp_path: Path, pool: ServerProcess, invite: str
) -> None:
    wallet = {"POTLUCK_WALLET_KEY": Wallet("with a machine").key.hex()}
    place = ["--data-dir", str(tmp_path), "--unsafe-no-sandbox"]
    for option in (["--invite", invite], [f"--invite={invite}"]):
        asked = ["provide", pool.url, *option, *place]
        environment = {**FAST_PROVIDER, **wallet, "POTLUCK_CONFIG_DIR": str(tmp_path / "config")}
        with PotluckProcess(asked, environment, tmp_path / "log") as provider:
            words = psutil.Process(provider.process.pid).cmdline()
        assert invite not in " ".join(words) and "--data-dir" in words


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, pool: ServerProcess) -> None:
    path = tmp_path / "key"
    path.write_text(pool.wallet.key.hex())
    path.chmod(0o644)
    told = InProcess(tmp_path / "user").run("login", pool.url, "--key-file", path)
    assert told.status == 78
    assert "can read" in told.stderr and pool.wallet.key.hex() not in told.stderr


def test_logout_ends_the_session_at_the_server(pool: ServerProcess, ann: CommandLine) -> None:
    before = tomllib.loads((config(ann) / "profile.toml").read_text())
    assert b"Signed out of" in ann.run("logout").stdout
    after = (config(ann) / "profile.toml").read_text()
    assert before["refresh_token"] not in after and before["access_token"] not in after
    assert pool.client(before["access_token"]).call("GET", "/v1/me").status == 401
    told = ann.run("whoami")
    assert told.status == 77 and f"potluck login {pool.url}" in told.stderr
    assert ann.run("logout").status == 0  # once more is fine
    assert ann.run("login").status == 0  # the address was kept, and the wallet


def test_logout_without_a_server_still_deletes_the_session(
    tmp_path: Path, pool: ServerProcess, ann: CommandLine
) -> None:
    path = config(ann) / "profile.toml"
    path.write_text(path.read_text().replace(pool.url, "http://127.0.0.1:1"))
    told = ann.run("logout")
    assert told.status == 0 and "was not reached" in told.stderr
    assert "token" not in path.read_text()


def test_keys(pool: ServerProcess, ann: CommandLine, tmp_path: Path) -> None:
    made = ann.run("keys", "add", "ci", "--scope", "tasks:read", "--expires", "30d")
    secret = made.stdout.decode().strip()
    assert secret.startswith("potluck_key_") and secret not in made.stderr
    script = InProcess(tmp_path / "script", pool.url, secret)
    assert script.run("ps").status == 0
    told = script.run("nodes")
    assert told.status == 77 and "pool:read" in told.stderr
    assert script.run("keys", "list").status == 77
    (listed,) = ann.run("keys", "list", "--json").lines()
    (key,) = listed["keys"]
    assert (key["name"], key["scopes"]) == ("ci", ["tasks:read"])
    assert secret not in ann.run("keys", "list").stdout.decode()
    assert ann.run("keys", "revoke", key["id"]).status == 0
    assert script.run("ps").status == 77
    assert ann.run("keys", "revoke", key["id"]).status == 66


def test_all_keys_are_revoked_at_once(ann: CommandLine) -> None:
    for name in ("one", "two"):
        assert ann.run("keys", "add", name).status == 0
    neither = ann.run("keys", "revoke")
    assert neither.status == 64 and "--all" in neither.stderr
    assert ann.run("keys", "revoke", "key_x", "--all").status == 64
    assert ann.run("keys", "revoke", "--all").stdout == b"Revoked 2 keys.\n"
    (listed,) = ann.run("keys", "list", "--json").lines()
    assert listed["keys"] == []
    assert ann.run("keys", "revoke", "--all", "--json").lines() == [{"revoked": []}]


def test_a_key_cannot_have_more_than_its_scopes(ann: CommandLine) -> None:
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
        shown = ann.run(group)
        assert shown.status == 0 and command in shown.stdout.decode()


def test_roles_are_shown_and_chosen(ann: CommandLine) -> None:
    assert ann.run("roles").stdout == b"consumer\n"
    assert ann.run("roles", "provider", "consumer").stdout == b"consumer, provider\n"
    assert ann.run("roles", "none").stdout == b"none\n"
    assert ann.run("roles", "both").stdout == b"consumer, provider\n"
    assert ann.run("roles", "none").stdout == b"none\n"
    refused = ann.run("ps")
    assert refused.status == 77 and "potluck roles consumer" in refused.stderr
    told = ann.run("roles", "admin")
    assert told.status == 64 and "only an admin can make an admin" in told.stderr


def test_sessions_are_listed_and_ended(
    tmp_path: Path, pool: ServerProcess, ann: CommandLine
) -> None:
    elsewhere = InProcess(tmp_path / "her other machine")
    elsewhere.variables["POTLUCK_WALLET_PASSWORD"] = ann.variables["POTLUCK_WALLET_PASSWORD"]
    keystore = config(ann) / "wallet.json"
    assert elsewhere.run("login", pool.url, "--key-file", keystore).status == 0
    first = tomllib.loads((config(elsewhere) / "profile.toml").read_text())["access_token"]
    (listed,) = ann.run("sessions", "list", "--json").lines()
    (old,) = [each for each in listed["sessions"] if not each["is_current"]]
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
    listed = admin.run("admin", "accounts").stdout.decode()
    assert wallet in listed
    assert admin.run("admin", "grant", wallet.lower(), "1.5").status == 0
    assert b"3.5 credits" in ann.run("whoami").stdout
    assert admin.run("admin", "roles", wallet, "consumer", "provider").status == 0
    assert ann.run("roles").stdout == b"consumer, provider\n"
    assert admin.run("admin", "roles", wallet, "king").status == 64
    assert admin.run("admin", "suspend", wallet, "--reason", "too loud").status == 0
    told = ann.run("ps")
    assert told.status == 77 and "suspended: too loud" in told.stderr
    assert "too loud" in admin.run("admin", "accounts").stdout.decode()
    assert admin.run("admin", "resume", wallet).status == 0
    assert ann.run("ps").status == 0
    assert admin.run("admin", "grant", Wallet("nobody").address, "1").status == 66
    assert ann.run("admin", "accounts").status == 77


def test_invites_are_listed_and_revoked(
    admin: CommandLine, pool: ServerProcess, tmp_path: Path
) -> None:
    (made,) = admin.run("admin", "invite", "--role", "provider", "--uses", "3", "--json").lines()
    assert made["invite"]["id"] in admin.run("admin", "invites").stdout.decode()
    assert made["code"] not in admin.run("admin", "invites", "--json").stdout.decode()
    shown = admin.run("admin", "invites", "--revoke", made["invite"]["id"])
    assert made["invite"]["id"] not in shown.stdout.decode()
    late = InProcess(tmp_path / "late")
    late.variables["POTLUCK_WALLET_PASSWORD"] = "some words"
    assert late.run("login", pool.url, "--invite", made["code"]).status == 77


def test_the_audit_tells_it_all_and_holds(admin: CommandLine, ann: CommandLine) -> None:
    (page,) = admin.run("admin", "audit", "--limit", "1000", "--json").lines()
    kinds = {entry["kind"] for entry in page["entries"]}
    assert {"account_created", "signed_in", "invite_made"} <= kinds
    shown = admin.run("admin", "audit", "--limit", "1")
    assert len(shown.stdout.decode().splitlines()) == 2 and "--before" in shown.stderr
    verdict = admin.run("admin", "audit", "--verify")
    assert verdict.status == 0 and b"The audit log is intact" in verdict.stdout
    (told,) = admin.run("admin", "audit", "--verify", "--json").lines()
    assert told["holds"] is True and len(told["head"]) == 64


def test_many_processes_share_a_session_that_ends_all_the_time(
    pool: ServerProcess, tmp_path: Path
) -> None:
    """Each of them has to refresh; a refresh token used twice would end the session for all."""
    directory = tmp_path / "hasty"
    with ServerProcess(directory, POTLUCK_ACCESS_SECONDS="1") as hasty:
        user = CommandLine(tmp_path / "user")
        user.variables["POTLUCK_WALLET_PASSWORD"] = "only for the login"
        assert user.run("login", hasty.url).status == 0
        del user.variables["POTLUCK_WALLET_PASSWORD"]
        running = [user.start("sessions", "list", "--json") for _ in range(8)]
        ended = [(process.communicate(), process.returncode) for process in running]
        assert [status for _, status in ended] == [0] * 8, ended
        for (stdout, _), _ in ended:
            assert [each["is_current"] for each in json.loads(stdout)["sessions"]] == [True]
        page = hasty.client(hasty.sign_in(hasty.wallet)).get("/v1/audit")
        kinds = [entry["kind"] for entry in page["entries"]]
        assert "refresh_reused" not in kinds
        assert kinds.count("signed_in") == 2  # the login above, and the operator just now
