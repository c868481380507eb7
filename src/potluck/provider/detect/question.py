"""Questions to a vendor's child process, and its answers. It ends with its parent."""

import os
import queue
import sys
import threading
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Struct

from potluck.provider.detect.report import RouteAnswer
from potluck.provider.detect.types import Sample


class Find(Struct, frozen=True, tag="find"):
    """Lists the devices. Answered by a RouteAnswer."""


class SampleQuestion(Struct, frozen=True, tag="look"):
    """Samples the devices. Answered by Looks."""


class SetPower(Struct, frozen=True, tag="power"):
    """Sets a power limit; None: the vendor's default. Answered by PowerSet."""

    uuid: str
    watts: int | None


class DeviceSamples(Struct, frozen=True):
    """Samples by uuid; a device that is missing here no longer responds."""

    samples: dict[str, Sample]
    detail: str = ""  # why some are missing, if known


class PowerSet(Struct, frozen=True):
    refusal: str | None = None  # a sentence; None: the limit is set


Question = Find | SampleQuestion | SetPower


class VendorLibrary(Protocol):
    def find(self) -> RouteAnswer: ...

    def look(self) -> DeviceSamples: ...

    def set_power(self, uuid: str, watts: int | None) -> str | None: ...


def serve(vendor: VendorLibrary) -> None:
    """In the child: answers until its parent is gone, even while the library hangs."""
    answers = _own_output()
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    while True:
        question = msgspec.json.decode(questions.get(), type=Question)
        answers.write(msgspec.json.encode(_answer(vendor, question)) + b"\n")
        answers.flush()


def _answer(vendor: VendorLibrary, question: Question) -> RouteAnswer | DeviceSamples | PowerSet:
    match question:
        case Find():
            return vendor.find()
        case SampleQuestion():
            return vendor.look()
        case SetPower(uuid, watts):
            return PowerSet(vendor.set_power(uuid, watts))


def _listen(questions: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        questions.put(line)
    os._exit(0)


def _own_output() -> BinaryIO:
    """The stream of answers; the output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
