"""From nothing to a first result with two commands, at a pool that makes it hard: a certificate
authority of its own, and invites.

What the join line installs is exactly what the server runs; dependencies are lent by the tests.
"""

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.cli.command_line import InProcess
from tests.cli.operate.test_join import bare_environment, lines, run_line
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess


def invite(server: ServerProcess, directory: Path) -> str:
    admin = InProcess(directory)
    admin.variables["POTLUCK_WALLET_KEY"] = server.wallet.key.hex()
    pin = ("--ca-fingerprint", server.first["ca_fingerprint"])
    assert admin.run("login", server.url, *pin).status == 0
    return admin.run("admin", "invite").stdout.decode().strip()


def test_two_commands_from_nothing_to_a_first_result(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(
            ServerProcess(tmp_path, POTLUCK_TLS="auto", POTLUCK_REGISTRATION="invite")
        )
        authority = {"POTLUCK_CA_FILE": str(tmp_path / "server" / "tls" / "ca.pem")}
        node = {**FAST_PROVIDER, **authority}
        stack.enter_context(ProviderProcess(tmp_path / "node", server, **node))
        python = bare_environment(tmp_path / "venv")
        home = tmp_path / "home"
        home.mkdir()
        installed = run_line(lines(server)["uv"], python)
        assert installed.returncode == 0, installed.stderr
        command = [python.with_name("potluck"), "run", "--server", server.url]
        command += ["--ca-fingerprint", server.first["ca_fingerprint"], "--template", "hello"]
        process = subprocess.run(
            command,
            env={
                "HOME": str(home),
                "PATH": "/usr/bin:/bin",
                "POTLUCK_WALLET_PASSWORD": "some words",
                "POTLUCK_INVITE": invite(server, tmp_path / "admin"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("Hello, world!\nThis is Python 3.")
    for text in ("Made the wallet 0x", f"Signed in to {server.url}", "hello succeeded"):
        assert text in process.stderr
