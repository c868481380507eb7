"""The program that passes packets between a sandbox's interface and passt, and checks each of them.

    python -m potluck.provider.egress.raw.packet_relay SOCKET PID

SOCKET is that of the provider's `raw_service`, PID a process in the sandbox's network. It writes
one line once the interface is there. It has one thread, since it enters a user namespace; it
becomes `nobody` after that, if it was root. It ends with its stdin or the provider's connection,
and passt with it.
"""

import os
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from ipaddress import IPv4Address, ip_address

import msgspec

from potluck.provider.egress.raw.messages import (
    FoundAddresses,
    FromRelay,
    GrantedBytes,
    OwnAddressList,
    PacketRefused,
    ToRelay,
    UnusedBytes,
    WantAddresses,
    WantBytes,
)
from potluck.provider.egress.raw.name_queries import (
    AAAA,
    FAILED,
    NO_ERROR,
    NO_NAME,
    NOT_IMPLEMENTED,
    A,
    NameQuery,
    read_query,
    write_answer,
)
from potluck.provider.egress.raw.packets import (
    ETHERNET_BYTES,
    GATEWAY,
    INSIDE,
    PREFIX_BITS,
    PacketCheck,
    endpoint_of,
    query_gateway,
    refusal_of,
)
from potluck.provider.egress.raw.tap import enter_network_of, open_tap

_FRAME_BYTES = 65_600
_STREAM_BYTES = 2**18
_AHEAD_BYTES, _LOW_BYTES = 2**20, 2**18
_LENGTH = struct.Struct(">I")
# Small packets cost as much time as large ones: this bounds the processor time that they take.
_FRAMES_PER_WINDOW, _WINDOW_SECONDS = 2_000, 0.1
_MOST_LOOKUPS = 32
_MOST_NOTED = 5
_PASST_SECONDS = 10.0
_NOBODY = 65_534
_NICENESS = 5
_NAME_SERVER = ("127.0.0.1", 53)
# Of ours. Nothing of the host is mapped to an address inside, and no port of it is forwarded.
_PASST = (
    *("passt", "--foreground", "--quiet", "--ipv4-only", "--no-map-gw", "--no-icmp", "--no-dhcp"),
    *("--address", INSIDE, "--netmask", str(PREFIX_BITS), "--gateway", GATEWAY),
    *("--tcp-ports", "none", "--udp-ports", "none"),
)


class PacketRelay:
    def __init__(
        self, tap: int, passt: socket.socket, control: socket.socket, names: socket.socket
    ) -> None:
        self._tap, self._passt, self._control, self._names = tap, passt, control, names
        self._check = PacketCheck()
        self._credit_bytes = 0
        self._is_asking = False  # for bytes
        self._is_blocked = False  # until it gets some
        self._is_over = False
        self._held = b""  # a frame of the sandbox that waits for credit
        self._to_passt = bytearray()
        self._from_passt = bytearray()
        self._lines = b""
        self._lookups: dict[int, tuple[NameQuery, tuple[str, int]]] = {}
        self._lookup_number = 0
        self._noted: set[str] = set()
        self._frames, self._window_ends_at = 0, 0.0
        self._is_connected = True

    def run(self) -> None:
        """Until stdin ends, or the provider or passt closes its connection."""
        while self._is_connected:
            with selectors.DefaultSelector() as selector:
                for descriptor, events, act in self._sources():
                    selector.register(descriptor, events, act)
                for key, _ in selector.select(self._pause_seconds()):
                    act = key.data
                    act()
        self._say(UnusedBytes(self._credit_bytes))

    def _sources(self) -> list[tuple[int, int, Callable[[], None]]]:
        """What it waits for now: nothing is read that could not be passed on."""
        sources = [
            (self._control.fileno(), selectors.EVENT_READ, self._listen),
            (self._names.fileno(), selectors.EVENT_READ, self._take_query),
            (sys.stdin.fileno(), selectors.EVENT_READ, self._end),
        ]
        events = selectors.EVENT_WRITE if self._to_passt else 0
        if not (self._is_blocked or self._is_over) and self._pause_seconds() is None:
            events |= selectors.EVENT_READ
            if not self._to_passt:
                sources.append((self._tap, selectors.EVENT_READ, self._take_frames))
        if events:
            sources.append((self._passt.fileno(), events, self._serve_passt))
        return sources

    def _end(self) -> None:
        self._is_connected = False

    def _pause_seconds(self) -> float | None:
        """Until packets may pass again; None if they may."""
        if self._frames < _FRAMES_PER_WINDOW:
            return None
        left_seconds = self._window_ends_at - time.monotonic()
        if left_seconds > 0:
            return left_seconds
        self._frames = 0
        return None

    def _count_frame(self) -> None:
        now = time.monotonic()
        if now >= self._window_ends_at:
            self._frames, self._window_ends_at = 0, now + _WINDOW_SECONDS
        self._frames += 1

    def _take_frames(self) -> None:
        """From the sandbox."""
        while not self._to_passt and self._frames < _FRAMES_PER_WINDOW:
            try:
                frame = self._held or os.read(self._tap, _FRAME_BYTES)
            except BlockingIOError:
                return
            self._held = b""
            self._count_frame()
            if not self._check.may_leave(frame):
                self._refuse(frame)
            elif self._pay(len(frame) - ETHERNET_BYTES):
                self._to_passt += _LENGTH.pack(len(frame)) + frame
                self._flush()
            else:
                self._held = frame
                return

    def _refuse(self, frame: bytes) -> None:
        endpoint = endpoint_of(frame)
        if endpoint is None:
            return
        if endpoint not in self._noted and len(self._noted) < _MOST_NOTED:
            self._noted.add(endpoint)
            self._say(PacketRefused(endpoint))
        self._write_to_tap(refusal_of(frame))

    def _serve_passt(self) -> None:
        self._flush()
        try:
            data = self._passt.recv(_STREAM_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            self._is_connected = False
        self._from_passt += data
        self._pass_inwards()

    def _flush(self) -> None:
        try:
            while self._to_passt:
                sent = self._passt.send(self._to_passt, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                del self._to_passt[:sent]
        except BlockingIOError:
            return

    def _pass_inwards(self) -> None:
        while len(self._from_passt) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._from_passt)
            end = _LENGTH.size + size
            if len(self._from_passt) < end or not self._pay(size - ETHERNET_BYTES):
                return
            self._write_to_tap(bytes(self._from_passt[_LENGTH.size : end]))
            del self._from_passt[:end]
            self._count_frame()

    def _write_to_tap(self, frame: bytes) -> None:
        try:
            os.write(self._tap, frame)
        except OSError:
            return  # its queue is full, as on a wire

    def _pay(self, size_bytes: int) -> bool:
        if self._is_over:
            return False
        missing_bytes = max(0, size_bytes - self._credit_bytes)
        if not missing_bytes:
            self._credit_bytes -= size_bytes
        self._is_blocked = missing_bytes > 0
        # Early, so that a stream seldom has to wait for the answer.
        if not self._is_asking and (self._is_blocked or self._credit_bytes < _LOW_BYTES):
            self._is_asking = True
            self._say(WantBytes(missing_bytes, _AHEAD_BYTES))
        return not self._is_blocked

    def _listen(self) -> None:
        try:
            data = self._control.recv(_STREAM_BYTES, socket.MSG_DONTWAIT)
        except ConnectionResetError:
            data = b""
        if not data:
            self._is_connected = False
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            self._hear(msgspec.json.decode(line, type=ToRelay))

    def _hear(self, message: ToRelay) -> None:
        match message:
            case GrantedBytes(granted=granted, is_over=is_over):
                self._is_asking, self._is_blocked, self._is_over = False, False, is_over
                self._credit_bytes += granted
                self._pass_inwards()
                if self._held:
                    self._take_frames()
            case OwnAddressList(addresses=addresses):
                self._check.set_own(addresses)
            case FoundAddresses(number=number, addresses=addresses):
                query, sender = self._lookups.pop(number)
                parsed = tuple(map(ip_address, addresses or ()))
                ipv4_addresses = [address for address in parsed if isinstance(address, IPv4Address)]
                self._answer(
                    query, sender, NO_NAME if addresses is None else NO_ERROR, ipv4_addresses
                )

    def _take_query(self) -> None:
        data, sender = self._names.recvfrom(1024)
        query = read_query(data)
        if query is None:
            return
        if query.kind not in (A, AAAA):
            self._answer(query, sender, NOT_IMPLEMENTED)
        elif query.kind == AAAA:  # there is no IPv6 here
            self._answer(query, sender, NO_ERROR)
        elif len(self._lookups) >= _MOST_LOOKUPS:
            self._answer(query, sender, FAILED)
        else:
            self._lookup_number += 1
            self._lookups[self._lookup_number] = query, sender
            self._say(WantAddresses(self._lookup_number, query.name))

    def _answer(
        self,
        query: NameQuery,
        sender: tuple[str, int],
        code: int,
        addresses: list[IPv4Address] | None = None,
    ) -> None:
        try:
            self._names.sendto(write_answer(query, code, addresses or ()), sender)
        except OSError:
            return  # the program has ended

    def _say(self, message: FromRelay) -> None:
        try:
            self._control.sendall(msgspec.json.encode(message) + b"\n")
        except OSError:
            self._is_connected = False


def main(path: str, pid: int) -> None:
    is_root = os.geteuid() == 0  # in a user namespace every user may look like root
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(path)
    ours, theirs = socket.socketpair()
    # In the host's network, before this process leaves it.
    passt = subprocess.Popen(
        [*_PASST, "--fd", str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    theirs.close()
    try:
        enter_network_of(pid)
        tap = open_tap()
        names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        names.bind(_NAME_SERVER)
        names.setblocking(False)
        os.nice(_NICENESS)
        if is_root:
            _become_nobody()
        _await_passt(ours)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        PacketRelay(tap, ours, control, names).run()
    finally:
        ours.close()  # which ends passt
        passt.wait()


def _await_passt(connection: socket.socket) -> None:
    """It ends at once where it cannot work, and answers a query for the gateway otherwise."""
    connection.settimeout(_PASST_SECONDS)
    query = query_gateway()
    connection.sendall(_LENGTH.pack(len(query)) + query)
    left = _LENGTH.size + len(query)  # the answer is as long
    while left:
        received = connection.recv(left)
        if not received:
            raise OSError("passt ended: it needs a route for IPv4")
        left -= len(received)
    connection.settimeout(None)


def _become_nobody() -> None:
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
