"""What a hostile or careless task can do to the machine and to others: nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess
from tests.provider.sandbox.conftest import PYTHON_IS_MOUNTED
from tests.wallets import Wallet

MIB = 2**20
SECRET = "the-providers-own-secret"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("walls")
    with (
        ServerProcess(directory) as server,
        ProviderProcess(directory / "p1", server, PLANTED_SECRET=SECRET, **FAST_PROVIDER),
    ):
        yield server


HOSTILE = [
    # (the reason it must end with, what it does, what it asked for)
    (
        "process_limit",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
        {"limits": {"processes": 32, "run_seconds": 60}},
    ),
    (
        "memory_limit",
        "hoard = []\nwhile True:\n    hoard.append(bytearray(8_000_000))\n",
        {"requirements": {"memory_bytes": 128 * MIB}},
    ),
    (
        "disk_limit",
        "with open('big', 'wb') as file:\n    while True:\n        file.write(bytes(1_000_000))\n",
        {"requirements": {"disk_bytes": 16 * MIB}},
    ),
    (
        "time_limit",
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n",
        {"limits": {"run_seconds": 0.5}},
    ),
]


@pytest.mark.parametrize(("reason", "source", "options"), HOSTILE, ids=[row[0] for row in HOSTILE])
def test_a_wall_ends_the_task_with_its_reason(
    pool: ServerProcess, reason: str, source: str, options: dict[str, object]
) -> None:
    client = pool.client()
    finished = client.finished(client.submit(source, **options))
    assert (finished["state"], finished["reason"]) == ("failed", reason)
    assert client.finished(client.submit("print('still fine')"))["state"] == "succeeded"


LOOK = """
import os, socket, sys
seen = {}
def text(path):
    try:
        with open(path, 'rb') as file:
            return file.read().decode('latin-1')
    except OSError:
        return ''
def names(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
everything = [' '.join(names('/')), str(dict(os.environ))]
for process in names('/proc'):
    if process.isdecimal():
        everything += [text(f'/proc/{process}/environ'), text(f'/proc/{process}/cmdline')]
everything.append('opt holds ' + str(names('/opt')))
for path in ('/home', '/root', '/var', '/run', '/etc', '/tmp', '/srv', '/mnt', '/work'):
    everything.append('present' + path if os.path.exists(path) else '')
    for folder, folders, files in os.walk(path):
        files = [os.path.join(folder, each) for each in files if each != 'script.py']
        everything += files + [text(each) for each in files]
print('\\n'.join(everything))
print('uid', os.getuid(), 'interfaces', [name for _, name in socket.if_nameindex()])
"""


def test_two_accounts_see_nothing_of_each_other_or_of_the_host(
    pool: ServerProcess, tmp_path: Path
) -> None:
    planted = tmp_path / "planted-file"
    planted.write_text("planted-content")
    operator = pool.client()
    bob = pool.client(pool.sign_in(Wallet("bob")))
    leave = (
        "for path in ('/work/left-behind', '/tmp/x'):\n    open(path, 'w').write('alices-data')\n"
    )
    assert operator.finished(operator.submit(leave))["state"] == "succeeded"
    looking = bob.submit(LOOK)
    assert bob.finished(looking)["state"] == "succeeded"
    log = bob.log(looking)
    for foreign in (
        "alices-data",
        "left-behind",
        SECRET,
        pool.token,
        pool.wallet.key.hex(),
        "planted-",
        "shadow",
    ):
        assert foreign not in log, f"the task saw {foreign!r}"
    for hidden in ("/home", "/root", "/var", "/run", "/srv", "/mnt"):
        assert f"present{hidden}" not in log
    # A Python that is not below /usr is shown there, and nothing else is.
    assert f"opt holds {['python'] if PYTHON_IS_MOUNTED else []}\n" in log
    assert "uid 0 " not in log
    assert "interfaces ['lo']" in log


def test_a_task_cannot_reach_the_network(pool: ServerProcess) -> None:
    """Not even to the server that it came from, on this machine's loopback."""
    source = (
        "import socket, sys\n"
        f"sys.exit(7 if socket.socket().connect_ex(('127.0.0.1', {pool.port})) else 0)\n"
    )
    client = pool.client()
    assert client.finished(client.submit(source))["exit_code"] == 7
