"""What stands in for the world: names that lead where a test says, and a connector that opens
nothing and remembers what it was asked for.
"""

import socket
from collections.abc import Sequence

from potluck.model.network.public_address import Address
from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.send import GuardedSender


class Names:
    """Each answer once, and the last one from then on."""

    def __init__(self, **addresses: Sequence[Sequence[str]]) -> None:
        self._known = {
            name.replace("_", "."): list(known_addresses)
            for name, known_addresses in addresses.items()
        }
        self.asked: list[str] = []

    async def addresses(self, host: str, port: int, _whose: str) -> Sequence[str]:
        self.asked.append(host)
        answers_of_host = self._known.get(host.rstrip("."))
        if answers_of_host is None:
            raise OSError("no such name")
        return answers_of_host.pop(0) if len(answers_of_host) > 1 else answers_of_host[0]


class Recorder:
    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, address: Address, port: int) -> socket.socket:
        self.opened.append(f"{address}:{port}")
        raise OSError("nothing is opened here")


class Canary:
    """Listens on loopback, where nobody has any business; also opens real sockets when asked to."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.0)
        self.port: int = self._listener.getsockname()[1]

    def was_reached(self) -> bool:
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._listener.close()


def outward(*allowed: str, names: Names | None = None) -> tuple[GuardedSender, Recorder]:
    recorder = Recorder()
    return GuardedSender(read_allowed(allowed), 2.0, names or Names(), recorder), recorder
