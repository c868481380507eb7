"""A command held at the gate never begins without its filter and limits."""

import subprocess
import sys
from pathlib import Path

from tests.provider.sandbox.conftest import REPOSITORY
from tests.provider.sandbox.test_nothing_is_left import ending, eventually, is_alive

HELD = """
import asyncio, signal, sys
from pathlib import Path
from potluck.provider.sandbox.bubblewrap.bwrap import bwrap_binaries
from potluck.provider.sandbox.driver import Mount
from potluck.provider.sandbox.bubblewrap.launch import BwrapCommand, Launch
from potluck.provider.sandbox.bubblewrap.root_filesystem import InjectedFiles, base_options
from potluck.provider.sandbox.bubblewrap.root_filesystem import find_pythons, mount_options

async def main(shown):
    options = [
        *base_options(find_pythons(Path(sys.base_prefix))[0]),
        *mount_options(Mount(Path(shown), "/shown", writable=True)),
        "--unshare-pid",
        "--die-with-parent",
    ]
    command = ("/bin/sh", "-c", "echo > /shown/ran")
    words = BwrapCommand(bwrap_binaries()[0], "potluck-test-gate", options, command)
    launch = Launch(words, InjectedFiles())
    inner = await launch.ready()
    print(launch.outer.pid, inner.pid, flush=True)
    signal.pause()

asyncio.run(main(sys.argv[1]))
"""


def test_a_killed_provider_takes_a_waiting_command_with_it(tmp_path: Path) -> None:
    provider = subprocess.Popen(
        [sys.executable, "-c", HELD, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE
    )
    try:
        assert provider.stdout is not None
        pids = [int(word) for word in provider.stdout.readline().split()]
        assert len(pids) == 2
        with ending(pids):
            assert all(is_alive(pid) for pid in pids)
            provider.kill()
            provider.wait()
            eventually(lambda: not any(is_alive(pid) for pid in pids))
        assert list(tmp_path.iterdir()) == []
    finally:
        provider.kill()
        provider.communicate()
