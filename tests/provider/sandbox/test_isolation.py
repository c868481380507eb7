"""A run sees nothing of the host, of the provider, or of another run."""

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from potluck.provider.sandbox.bubblewrap.launch import make_launch_command
from potluck.provider.sandbox.bubblewrap.root_filesystem import Python, find_pythons
from potluck.provider.sandbox.driver import PYTHON, Mount
from tests.ordinary_user import NOBODY
from tests.provider.sandbox.conftest import PYTHON_IS_MOUNTED, SECRET, Host, confinement

SEARCH = """
import os
found = []
for path in %r:
    try:
        found.append((path, open(path).read()))
    except (IsADirectoryError, PermissionError) as refused:
        found.append((path, str(refused)))
    except OSError:
        pass
print(found)
"""


@pytest.fixture
def planted() -> Iterator[list[str]]:
    """Files of the host that anybody on it may read."""
    with (
        tempfile.NamedTemporaryFile("w", dir="/tmp") as in_tmp,
        tempfile.NamedTemporaryFile("w", dir=Path.home()) as in_home,
    ):
        for file in (in_tmp, in_home):
            file.write(SECRET)
            file.flush()
            Path(file.name).chmod(0o644)
        yield [in_tmp.name, in_home.name]


def test_no_file_of_the_host_is_there(host: Host, planted: list[str]) -> None:
    places = ["/home", "/root", "/var", "/run", "/srv", "/mnt", "/sys", "/boot"]
    files = ["/etc/shadow", "/etc/hostname", "/etc/machine-id", "/etc/ssh", "/etc/environment"]
    repository = str(Path(__file__))
    result = host.python(SEARCH % [*places, *files, *planted, repository])
    assert result.stdout == b"[]\n"


def test_packages_of_the_host_cannot_be_imported_unless_a_program_of_it_runs(host: Host) -> None:
    packages = find_pythons(Path(sys.base_prefix))[0].packages
    existing = [Path(path) for path in packages if Path(path).is_dir()]
    listings = {str(path): sorted(path.name for path in path.iterdir()) for path in existing}
    program = (
        f"import os, site; shown = {{path: sorted(os.listdir(path)) for path in {list(packages)}}};"
        " print([path for path in site.getsitepackages() if path not in shown and"
        " os.path.isdir(path)], shown)"
    )
    command = (PYTHON, "-c", program)
    empty_listings: dict[str, list[str]] = {path: [] for path in packages}
    assert host.run(command=command).stdout.decode() == f"[] {empty_listings}\n"
    output = host.run(command=command, shows_packages=True).stdout.decode()
    assert PYTHON_IS_MOUNTED or output == f"[] {listings}\n"


def test_the_root_directory_contains_only_the_expected_entries(host: Host) -> None:
    result = host.python("import os; print(sorted(os.listdir('/')), sorted(os.listdir('/etc')))")
    root, etc = result.stdout.decode().strip().split("] ")
    expected = {"bin", "dev", "etc", "lib", "proc", "sbin", "tmp", "usr", "work"}
    expected |= {"opt"} if PYTHON_IS_MOUNTED else set()
    assert set(json.loads(f"{root}]".replace("'", '"'))) - {"lib32", "lib64", "libx32"} == expected
    expected_names = {"group", "hosts", "nsswitch.conf", "passwd", "resolv.conf"}
    assert (
        set(json.loads(etc.replace("'", '"'))) - {"OpenCL", "ld.so.cache", "ssl"} == expected_names
    )


@pytest.mark.skipif(not PYTHON_IS_MOUNTED, reason="Python is below /usr, so there is no /opt")
def test_opt_holds_the_interpreter_and_nothing_else(host: Host) -> None:
    result = host.python("import os; print(*os.listdir('/opt'), *os.listdir('/opt/python'))")
    opt, *python = result.stdout.decode().split()
    assert opt == "python"
    assert {"bin", "lib"} <= set(python) <= {"bin", "lib", "lib64"}


def test_no_process_and_no_environment_of_the_host(host: Host) -> None:
    source = """
import glob
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
    try:
        print(path, open(path, 'rb').read())
    except PermissionError:
        print(path, 'refused')
"""
    result = host.python(source)
    assert SECRET.encode() not in result.stdout
    pids = {line.split(b"/")[2] for line in result.stdout.splitlines()}
    assert pids == {b"1", b"2"}
    assert b"HOST_SECRET" not in result.stdout
    assert str(host.state_directory).encode() not in result.stdout


def test_the_first_process_tells_nothing(host: Host) -> None:
    result = host.python("print(open('/proc/1/cmdline').read()); open('/proc/1/environ').read()")
    assert b"bind" not in result.stdout
    if host.report.user == "own uid":
        assert b"PermissionError" in result.stderr
    else:
        assert result.stderr == b""


USUAL_VARIABLES = {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SSL_CERT_FILE", "TMPDIR", "USER"}
# Some interpreters do not find their own library without it.
OWN_LIBRARY = {"LD_LIBRARY_PATH"} if PYTHON_IS_MOUNTED else set()


@pytest.mark.parametrize("variable", ["MINE", "POTLUCK_TASK_ID", None])
def test_the_environment_has_only_the_requested_variables(host: Host, variable: str | None) -> None:
    environment = {variable: "1"} if variable else {}
    result = host.python("import os; print(sorted(os.environ))", environment=environment)
    names = json.loads(result.stdout.replace(b"'", b'"'))
    assert set(names) - OWN_LIBRARY == USUAL_VARIABLES | environment.keys()


# Everything that a step before the command could obey, whether by its name or by its value.
@pytest.mark.parametrize(
    "own_variables", [{"LD_PRELOAD": "x"}, {"PATH": "/work"}, {"LANG": "x"}, {"A": "b"}]
)
def test_variables_of_a_task_are_set_when_root_has_been_dropped(
    own_variables: dict[str, str],
) -> None:
    python = Python("/usr/bin/python3")
    potluck_variables = {"POTLUCK_TASK_ID": "task", "CUDA_VISIBLE_DEVICES": ""}
    command = (PYTHON, "a.py")
    plain = make_launch_command(python, confinement(command=command, environment=potluck_variables))
    assert plain.command == [python.path, "a.py"] and not plain.files
    assert plain.options[-6:-3] == ["--setenv", "POTLUCK_TASK_ID", "task"]
    careful = make_launch_command(
        python, confinement(command=command, environment={**potluck_variables, **own_variables})
    )
    assert not careful.options and careful.command[:3] == ["/usr/bin/env", "-i", python.path]
    (name,) = own_variables
    assert f"{name}={own_variables[name]}\0".encode() in careful.files["/etc/potluck-variables"]


@pytest.mark.parametrize(
    ("command", "is_direct"),
    [
        (("/bin/true",), True),
        (("true", "a", "b=c"), True),
        (("/usr/bin/env", "A=b", "true"), True),
        (("A=b", "true"), False),
        (("-S", "true"), False),
        (("./mine",), False),  # a file of the task
        (("mine/tool",), False),
        (("/work/tool",), False),
        (("no-such-program",), False),
        (("/usr/bin",), False),
        (("/etc/passwd",), False),
        (("true", "x" * 100_000), False),
    ],
    ids=lambda value: str(value)[:40],
)
def test_programs_of_the_system_start_without_an_interpreter(
    command: tuple[str, ...], is_direct: bool
) -> None:
    launch_command = make_launch_command(Python("/usr/bin/python3"), confinement(command=command))
    assert (launch_command.command == list(command)) is is_direct
    assert launch_command.command[-len(command) :] == list(command)


@pytest.mark.parametrize("command", [("A=b",), ("-S",), ("./mine",), ("no-such-program",)])
def test_a_program_that_cannot_be_started_is_named_in_a_sentence(
    host: Host, command: tuple[str, ...]
) -> None:
    result = host.run(command=command)
    assert result.ended is not None and result.ended.exit_code == 127
    assert f"potluck: {command[0]} cannot be started".encode() in result.stderr


# Names that a shell would read, refuse or set anew, and a loader or an interpreter obey.
ODD_VARIABLES = {
    "OPTIND": "abc",
    "UID": "5",
    "PPID": "x",
    "PWD": "x",
    "OLDPWD": "y",
    "SHLVL": "z",
    "IFS": "a",
    "ENV": "/work/never-read",
    "PS4": "$(exit 3)",
    "_": "underscore",
    "__x9": "'\"$`\\ = \n é",
    "EMPTY": "",
    "LD_PRELOAD": "/work/not-there.so",
    "PYTHONHOME": "/nowhere",
    "PYTHONSTARTUP": "/work/never-read",
    "LONG": "x" * 32_768,
}


def test_every_variable_arrives_unchanged(host: Host) -> None:
    program = "import os, sys; sys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())"
    result = host.python(program, environment=ODD_VARIABLES)
    environment = dict(line.split("=", 1) for line in result.stdout.decode().split("\0") if line)
    assert {name: environment.get(name) for name in ODD_VARIABLES} == ODD_VARIABLES
    assert environment.keys() - OWN_LIBRARY == ODD_VARIABLES.keys() | USUAL_VARIABLES


def test_more_variables_than_the_kernel_takes_are_a_sentence(host: Host) -> None:
    result = host.run(environment={f"LONG_{number}": "x" * 32_768 for number in range(256)})
    assert result.ended is not None and result.ended.exit_code == 126
    assert b"shorten the task's variables or arguments" in result.stderr


def test_no_user_of_the_machine_reads_the_variables_off_a_command_line(host: Host) -> None:
    source = "import os, sys, time; print('ready', flush=True); time.sleep(0.3)"
    with Watcher() as watcher:
        host.python(source, environment={"PASSWORD": "told-to-nobody"})
    assert "ready" in watcher.everything, "the watcher saw the run"
    assert "told-to-nobody" not in watcher.everything


class Watcher:
    """Collects every command line of the machine while the block runs."""

    def __enter__(self) -> "Watcher":
        self.everything = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    self.everything += path.read_text(errors="replace")


def test_only_the_loopback_and_not_the_hosts(host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as local:
        abstract = f"\0potluck-{os.getpid()}"
        local.bind(abstract)
        local.listen()
        source = f"""
import socket
print([name for _, name in socket.if_nameindex()])
print(open('/proc/net/route').read().splitlines()[1:])
for family, address in ((socket.AF_INET, ('127.0.0.1', {listener.getsockname()[1]})),
                        (socket.AF_UNIX, {abstract!r})):
    try:
        socket.socket(family).connect(address)
        print('connected')
    except OSError as refused:
        print('refused')
"""
        result = host.python(source)
    assert result.stdout.decode().splitlines() == ["['lo']", "[]", "refused", "refused"]


def test_a_run_has_an_unprivileged_user_without_capabilities(host: Host, is_root: bool) -> None:
    source = """
import os, pwd
print(os.getresuid(), os.getgroups(), pwd.getpwuid(os.getuid()).pw_name)
print([line.split()[1] for line in open('/proc/self/status') if line[:3] in ('Cap', 'NoN', 'Sec')])
"""
    result = host.python(source)
    identity, powers = result.stdout.decode().splitlines()
    uid = identity.split("(")[1].split(",")[0]
    assert identity == f"({uid}, {uid}, {uid}) [] task" or identity.endswith(f"[{uid}] task")
    assert (int(uid) > 0x7000_0000) if is_root else uid == "1000"
    assert powers == str(["0" * 16] * 5 + ["1", "2", "1"])


def test_each_run_of_root_is_another_uid(host: Host, is_root: bool) -> None:
    uids = {host.python("import os; print(os.getuid())").stdout for _ in range(2)}
    assert len(uids) == (2 if is_root else 1)


def test_loader_variables_do_not_reach_programs_that_run_as_root(host: Host) -> None:
    """The steps before the command would say so if they met a library that is none."""
    result = host.run(
        command=("/bin/true",), files={"evil.so": b"x"}, environment={"LD_PRELOAD": "/work/evil.so"}
    )
    assert result.stderr.count(b"evil.so") == 1  # from /bin/true itself, which is the task


def test_runs_share_nothing(host: Host) -> None:
    host.python("open('/work/a', 'w'); open('/tmp/b', 'w'); open('/dev/shm/c', 'w')")
    result = host.python("import os; print([os.listdir(d) for d in ('/work', '/tmp', '/dev/shm')])")
    assert result.stdout == b"[['.tmp'], [], []]\n"


def test_mounts_are_read_only_unless_they_say_otherwise(host: Host, is_root: bool) -> None:
    shown_directory, changed = host.state_directory / "shown", host.state_directory / "changed"
    for directory in (shown_directory, changed):
        directory.mkdir(exist_ok=True)
        if not is_root and os.geteuid() == 0:
            os.chown(directory, NOBODY, NOBODY)
    (shown_directory / "word").write_text("hello")
    mounts = (
        Mount(shown_directory, "/environment"),
        Mount(changed, "/run/deep/place", writable=True),
    )
    source = """
open('/run/deep/place/made', 'w').write(open('/environment/word').read())
open('/environment/more', 'w')
"""
    result = host.python(source, mounts=mounts)
    assert b"Read-only file system" in result.stderr
    assert (changed / "made").read_text() == "hello"
