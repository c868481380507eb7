"""What a vendor's process is asked, and how it answers; it ends with whoever started it."""

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
    """Which devices are there? Answered by an Answer."""


class SampleQuestion(Struct, frozen=True, tag="look"):
    """How do they do? Answered by Looks."""


class SetPower(Struct, frozen=True, tag="power"):
    """Draw at most so much; without a number, what the vendor chose. Answered by PowerSet."""

    uuid: str
    watts: int | None


class Looks(Struct, frozen=True):
    """All that answer, by uuid; a device that is not among them does not answer any more."""

    samples: dict[str, Sample]
    detail: str = ""  # why some are missing, where it is known


class PowerSet(Struct, frozen=True):
    """Whether the limit is as it was asked for."""

    refusal: str | None = None  # a sentence, if it is not


Question = Find | SampleQuestion | SetPower


class VendorLibrary(Protocol):
    """What a vendor's library, or the kernel in its place, can be asked."""

    def find(self) -> RouteAnswer: ...

    def look(self) -> Looks: ...

    def set_power(self, uuid: str, watts: int | None) -> str | None: ...


def serve(vendor: VendorLibrary) -> None:
    """In the child: answers until whoever started it is gone, even while the library hangs."""
    answers = _own_output()
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    while True:
        question = msgspec.json.decode(questions.get(), type=Question)
        answers.write(msgspec.json.encode(_answer(vendor, question)) + b"\n")
        answers.flush()


def _answer(vendor: VendorLibrary, question: Question) -> RouteAnswer | Looks | PowerSet:
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
    """Where answers go; what a library prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
