"""What the filter refuses, inside for real, and for the other processor by reading its program."""

import errno
import platform
import struct

import pytest

from potluck.provider.sandbox.seccomp import compile_filter
from potluck.provider.sandbox.syscalls import (
    ABSENT,
    CLONE,
    FORBIDDEN,
    IOCTL,
    PERSONALITY,
    SOCKET,
    SOCKETPAIR,
    UNSHARE,
    Processor,
    SystemCall,
)
from tests.provider.sandbox.conftest import Host

ALLOW, KILL = 0x7FFF0000, 0x80000000
AUDIT = {Processor.X86_64: 0xC000003E, Processor.AARCH64: 0xC00000B7}
NEW_USER, NEW_NET, THREAD_FLAGS = 0x10000000, 0x40000000, 0x003D0F00

PROBE = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
def call(name, x86, aarch64, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(aarch64 if arm else x86, *arguments)
    print(name, errno.errorcode.get(ctypes.get_errno(), result))
call('unshare-user', 272, 97, 0x10000000)
call('clone-user', 56, 220, 0x10000000 | 17, 0, 0, 0, 0)
call('clone3', 435, 435, 0, 0)
call('setns', 308, 268, 0, 0)
call('mount', 165, 40, 0, 0, 0, 0, 0)
call('fsopen', 430, 430, 0, 0)
call('ptrace', 101, 117, 0, 0, 0, 0)
call('process_vm_readv', 310, 270, 1, 0, 0, 0, 0, 0)
call('keyctl', 250, 219, 0, -3, 0)
call('bpf', 321, 280, 0, 0, 0)
call('perf_event_open', 298, 241, 0, 0, -1, -1, 0)
call('userfaultfd', 323, 282, 0)
call('io_uring_setup', 425, 425, 1, 0)
call('open_by_handle_at', 304, 265, 0, 0, 0)
call('syslog', 103, 116, 10, 0, 0)
call('personality', 135, 92, 0x40000)
call('vsock', 41, 198, 40, 1, 0)
call('packet', 41, 198, 17, 3, 0)
call('alg', 41, 198, 38, 5, 0)
call('netlink-audit', 41, 198, 16, 3, 9)
call('mptcp', 41, 198, 2, 1, 262)
call('udp-lite', 41, 198, 10, 2, 136)
call('raw', 41, 198, 2, 3, 1)
call('tiocsti', 16, 29, 0, 0x5412, 0)
"""
ABSENT_HERE = {"clone3", "io_uring_setup"}
NO_FAMILY = {"vsock", "packet", "alg", "netlink-audit"}
NO_PROTOCOL = {"mptcp", "udp-lite"}


def test_the_kernel_refuses_inside(host: Host) -> None:
    result = host.python(PROBE)
    errors = dict(line.split() for line in result.stdout.decode().splitlines())
    assert len(errors) == 24, result.stderr
    for name, error in errors.items():
        expected = "EPERM"
        if name in ABSENT_HERE:
            expected = "ENOSYS"
        if name in NO_FAMILY:
            expected = "EAFNOSUPPORT"
        if name in NO_PROTOCOL:
            expected = "EPROTONOSUPPORT"
        if name == "raw":
            expected = "ESOCKTNOSUPPORT"
        assert error == expected, name


def test_a_call_of_another_architecture_ends_the_process(host: Host) -> None:
    """The x32 number of getpid."""
    if platform.machine() != Processor.X86_64:
        pytest.skip("only x86_64 has a second numbering")
    outcome = host.python("import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)").ended
    assert outcome is not None
    assert outcome.exit_code == -31


def test_ordinary_programs_do_not_notice(host: Host) -> None:
    source = """
import asyncio, multiprocessing, socket, subprocess, tempfile, threading, mmap, ssl
def square(number): return number * number
if __name__ == '__main__':
    thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()
    with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(square, [1, 2]))
    print(subprocess.run(['sh', '-c', 'echo shell'], capture_output=True).stdout)
    async def loop():
        server = await asyncio.start_server(lambda r, w: w.close(), 'localhost', 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.open_connection('127.0.0.1', port)
        return 'network of its own'
    print(asyncio.run(loop()), socket.gethostname())
    with tempfile.TemporaryFile() as file: print(file.write(b'x'))
    print(len(ssl.create_default_context().get_ca_certs()) > 0)
"""
    result = host.python(source)
    assert result.stdout.decode().splitlines()[:5] == [
        "thread",
        "[1, 4]",
        "b'shell\\n'",
        "network of its own potluck",
        "1",
    ], result.stderr


@pytest.mark.parametrize("machine", list(Processor))
def test_the_program_refuses_on_every_processor(machine: Processor) -> None:
    expected_errors = {
        **dict.fromkeys(FORBIDDEN, errno.EPERM),
        **dict.fromkeys(ABSENT, errno.ENOSYS),
    }
    for name, call in {**FORBIDDEN, **ABSENT}.items():
        if call.number(machine) is not None:
            assert _verdict(machine, call) == _error(expected_errors[name]), name


@pytest.mark.parametrize("machine", list(Processor))
@pytest.mark.parametrize(
    ("call", "arguments", "verdict"),
    [
        (CLONE, (THREAD_FLAGS,), ALLOW),
        (CLONE, (17,), ALLOW),  # fork: only the signal of its end
        (CLONE, (NEW_USER | 17,), errno.EPERM),
        (CLONE, (NEW_NET | THREAD_FLAGS,), errno.EPERM),
        (UNSHARE, (0x400,), ALLOW),  # its own file table
        (UNSHARE, (NEW_USER,), errno.EPERM),
        (UNSHARE, (0x80,), errno.EPERM),  # a time namespace
        (SOCKET, (1, 1, 0), ALLOW),
        (SOCKET, (2, 1, 0), ALLOW),
        (SOCKET, (10, 2, 0), ALLOW),
        (SOCKET, (2, 1 | 0o2004000, 6), ALLOW),  # not blocking, closed on exec
        (SOCKET, (10, 2, 17), ALLOW),
        (SOCKET, (2, 1, 262), errno.EPROTONOSUPPORT),  # MPTCP
        (SOCKET, (10, 1, 262), errno.EPROTONOSUPPORT),
        (SOCKET, (2, 2, 136), errno.EPROTONOSUPPORT),  # UDP-Lite
        (SOCKET, (2, 2, 1), errno.EPROTONOSUPPORT),  # ping
        (SOCKET, (2, 5, 0), errno.ESOCKTNOSUPPORT),  # SCTP, by its type
        (SOCKET, (2, 3, 0), errno.ESOCKTNOSUPPORT),
        (SOCKET, (2, 6 | 0o2000000, 0), errno.ESOCKTNOSUPPORT),  # DCCP
        (SOCKET, (16, 3, 0), ALLOW),  # the routing table
        (SOCKET, (16, 3, 9), errno.EAFNOSUPPORT),
        (SOCKET, (40, 1, 0), errno.EAFNOSUPPORT),
        (SOCKETPAIR, (1, 1, 0), ALLOW),
        (SOCKETPAIR, (30, 1, 0), errno.EAFNOSUPPORT),
        (IOCTL, (0, 0x5413), ALLOW),  # the size of the window
        (IOCTL, (0, 0x5412), errno.EPERM),
        (IOCTL, (0, 0x541C), errno.EPERM),
        (PERSONALITY, (0xFFFFFFFF,), ALLOW),
        (PERSONALITY, (0x40000,), errno.EPERM),
    ],
)
def test_arguments_decide(
    machine: Processor, call: SystemCall, arguments: tuple[int, ...], verdict: int
) -> None:
    expected = verdict if verdict == ALLOW else _error(verdict)
    assert _verdict(machine, call, arguments) == expected


@pytest.mark.parametrize("machine", list(Processor))
def test_other_calls_are_allowed_and_other_architectures_end(machine: Processor) -> None:
    read = SystemCall(0, 63)
    other = next(processor for processor in Processor if processor is not machine)
    assert _verdict(machine, read) == ALLOW
    assert _verdict(machine, read, architecture=AUDIT[other]) == KILL


def _error(number: int) -> int:
    return 0x00050000 | number


def _verdict(
    machine: Processor,
    call: SystemCall,
    arguments: tuple[int, ...] = (),
    architecture: int | None = None,
) -> int:
    """Runs the program over one call, as the kernel would."""
    number = call.number(machine)
    assert number is not None
    parameters = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture or AUDIT[machine], 0, *parameters)
    program = list(struct.iter_unpack("=HBBI", compile_filter(machine)))
    position = accumulator = 0
    while True:
        code, when_true, when_false, value = program[position]
        position += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
            continue
        if code == 0x54:
            accumulator &= value
            continue
        holds = {
            0x15: accumulator == value,
            0x35: accumulator >= value,
            0x45: bool(accumulator & value),
        }[code]
        position += when_true if holds else when_false
