"""What the test has laid out on the host, for probes to reach if they can."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Neighbour:
    """A process of the host: the canary is in its arguments, its environment and its memory."""

    pid: int
    address: int  # of the canary in its memory
    tcp_port: int  # on every address that the host has
    udp_port: int  # on loopback
    abstract: str  # the name of a socket without a file
    sockets: dict[str, str]  # those with a file, by who would listen there
    shared_memory_key: int
    queue: str


@dataclass(frozen=True)
class Bait:
    """The canary is the text that a probe must not get to see.

    It is spelled backwards in here, since a probe reads its own command line too.
    """

    yranac: str
    files: dict[str, str]  # with the canary in them, by the place that they lie in
    neighbour: Neighbour
    interface: str  # the only one that a probe may ever send anything through
    addresses: dict[str, str]  # behind it, where the neighbour answers
    shown: str  # a directory of the host that is mounted inside, with things it should not have
    boot: dict[str, str]  # files of the kernel that say how and when the host was started

    @property
    def canary(self) -> str:
        return self.yranac[::-1]

    def to_word(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_word(cls, word: str) -> "Bait":
        fields = json.loads(word)
        return cls(**{**fields, "neighbour": Neighbour(**fields["neighbour"])})
