"""What `potluck provider install` writes is started as a service manager would, by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.provider.service.systemd import NAME, command_in
from tests.processes import FAST_PROVIDER, ServerProcess, potluck


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the unit is for systemd")
def test_the_installed_command_provides_without_a_wallet(tmp_path: Path) -> None:
    absent = tmp_path / "bin" / "systemctl"
    absent.parent.mkdir()
    absent.write_text("#!/bin/sh\nexit 1\n")
    absent.chmod(0o700)
    variables = {
        "HOME": str(tmp_path),
        "PATH": f"{absent.parent}:/usr/bin:/bin",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    with ServerProcess(tmp_path / "server") as server:
        installed = subprocess.run(
            potluck("provider", "install", server.url, "--", "--name", "my box", "--json"),
            env={**variables, "POTLUCK_WALLET_KEY": server.wallet.key.hex()},
            capture_output=True,
            text=True,
            timeout=60,
        )
        # No user manager answers, so the rest is left to the owner; the file is there.
        assert installed.returncode == 69, installed.stderr
        text = (tmp_path / ".config" / "systemd" / "user" / NAME).read_text()
        assert server.wallet.key.hex() not in text
        provider = subprocess.Popen(
            command_in(text), env={**variables, **FAST_PROVIDER}, stdout=subprocess.PIPE
        )
        try:
            assert provider.stdout is not None
            first = json.loads(provider.stdout.readline())
            assert (first["event"], first["name"]) == ("registered", "my box")
            client = server.client()
            assert client.finished(client.submit("print(1)"))["state"] == "succeeded"
        finally:
            provider.terminate()
            provider.communicate(timeout=60)
        assert provider.returncode == 0
