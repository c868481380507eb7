"""What passes between the provider and a warm interpreter, also if a function meddles with it."""

import asyncio
import os
import struct
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.task import MIB, EndReason
from potluck.model.task_spec import FunctionSpec
from potluck.provider.functions.channel import Channel
from potluck.provider.functions.interpreter_main import ANSWER, AT, HEADER, MOST_ERROR_BYTES
from potluck.provider.sandbox.driver import InputFailed
from potluck.wire import item_file
from potluck.wire.plain_values import encode
from tests.provider.functions.warm_calls import LIMITS, Shop, call_of, items_of

pytestmark = pytest.mark.usefixtures("by_value")


def framed(kind: bytes, data: bytes) -> bytes:
    return HEADER.pack(kind, len(data)) + data


AT_FIRST = framed(b"A", AT.pack(0))
ANSWERED = framed(b"V", ANSWER.pack(0, 0.0, 0) + item_file.pack([encode(None)]))
LARGE_ERROR = framed(b"F", ANSWER.pack(0, 0.0, 0) + encode([{}] * MOST_ERROR_BYTES))


def speak(frame: bytes, times: int = 1) -> None:
    """As if it were what calls the function."""
    sockets = [fd for fd in range(3, 20) if Path(f"/proc/self/fd/{fd}").is_socket()]
    for _ in range(times):
        os.write(sockets[0], frame)
        time.sleep(0.2)


def takes_its_time(_: int) -> None:
    speak(AT_FIRST, times=20)


def raises_too_much(_: int) -> None:
    speak(LARGE_ERROR)


async def test_messages_inside_the_sandbox_extend_no_limit(walled: Shop) -> None:
    limits = replace(LIMITS, run_seconds=0.8)
    called, seconds = await walled.timed(call_of(takes_its_time, 0, limits=limits))
    result = await walled.run(items_of(takes_its_time, [0], limits=limits))

    assert called.ended.reason is EndReason.TIME_LIMIT
    assert seconds < 3
    assert result.failed[0].reason is EndReason.SIGNAL


def answers_and_stays(_: bytes) -> None:
    speak(ANSWERED)
    time.sleep(60)


async def test_refused_arguments_are_not_sent_forever(walled: Shop) -> None:
    limits = replace(LIMITS, run_seconds=0.8)
    first = await walled.run(call_of(answers_and_stays, b"", limits=limits))
    async with asyncio.timeout(10):
        second = await walled.run(call_of(answers_and_stays, bytes(2 * MIB), limits=limits))

    assert first.ended.reason is EndReason.COMPLETED
    assert second.ended.reason is EndReason.TIME_LIMIT


async def test_an_error_that_is_too_large_is_not_opened(walled: Shop) -> None:
    assert (await walled.run(call_of(raises_too_much, 0))).ended.reason is EndReason.SIGNAL
    assert (await walled.run(items_of(raises_too_much, [0]))).failed[0].reason is EndReason.SIGNAL


def leaves_a_file(argument: bytes) -> tuple[int, int]:
    """Of how many bytes it was told, and how many of them are something else."""
    Path(os.environ["POTLUCK_OUTPUT"], "file").write_text("x")
    time.sleep(0.01)
    return len(argument), len(argument.strip(b"\0"))


async def test_more_arguments_than_fit_into_the_channel_and_files_do_not_mix(walled: Shop) -> None:
    limits = replace(LIMITS, run_seconds=10)
    result = await walled.run(items_of(leaves_a_file, [bytes(100_000)] * 40, limits=limits))
    second_result = await walled.run(items_of(leaves_a_file, [bytes(10)], limits=limits))

    assert result.failed == {}
    assert result.returned == dict.fromkeys(range(40), (100_000, 0))
    assert sorted(result.files) == sorted(f"{item}/file" for item in range(40))
    assert second_result.files == ["0/file"], "what has been taken is not there any more"


async def test_a_frame_cannot_interrupt_another() -> None:
    channel = Channel()
    first = asyncio.create_task(channel.send(b"I", 10 * MIB, [bytes(MIB)] * 10))
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        await channel.send(b"D", 1, [b"1"])
    first.cancel()
    await asyncio.wait([first])
    with pytest.raises(AssertionError):
        await channel.send(b"D", 1, [b"1"])
    channel.close()


def square(number: int) -> int:
    return number * number


async def test_arguments_that_do_not_fit_together_are_refused(walled: Shop) -> None:
    """At once, also where it is seen only when they are sent."""
    too_few = replace(items_of(square, range(10)), items_total=11)
    with pytest.raises(InputFailed):
        await walled.run(too_few)
    crossed = items_of(square, range(3))
    assert isinstance(crossed.spec, FunctionSpec)
    data = bytearray(crossed.spec.inputs.data)
    data[8:40] = struct.pack("<4Q", 0, 9, 5, 12)
    spec = replace(crossed.spec, inputs=Value(bytes(data)))
    async with asyncio.timeout(LIMITS.run_seconds / 2):
        with pytest.raises(InputFailed):
            await walled.run(replace(crossed, spec=spec))
