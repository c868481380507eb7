"""What an installation says for people: bounded, with the beginning and the end kept."""

from potluck.provider.dependencies.installer import LIVE_BYTES, TAIL_BYTES, Transcript

# The server's allowance for remarks beside the script's own output.
ALLOWED_BYTES = 65_536


async def remarks_of(*chunks: bytes) -> list[bytes]:
    remarks: list[bytes] = []

    async def listen(stream: str, data: bytes) -> None:
        assert stream == "potluck"
        remarks.append(data)

    transcript = Transcript(listen)
    for data in chunks:
        await transcript.take("stderr", data)
    await transcript.finish()
    return remarks


async def test_lines_are_passed_on_whole() -> None:
    assert await remarks_of(b"Resolved ", b"3 packages\n", b"done") == [
        b"Resolved 3 packages\n",
        b"done",
    ]


async def test_a_flood_keeps_its_beginning_and_end_and_says_how_much_is_missing() -> None:
    lines = [b"%07d\n" % number for number in range(500_000)]
    remarks = b"".join(await remarks_of(*lines))
    assert 2 * len(remarks) < ALLOWED_BYTES, "there are two steps"
    assert remarks.startswith(b"".join(lines)[:LIVE_BYTES])
    assert remarks.endswith(b"".join(lines)[-TAIL_BYTES:])
    missing = 8 * len(lines) - LIVE_BYTES - TAIL_BYTES
    assert f"({missing:,} bytes of the installer's output omitted)".encode() in remarks


async def test_output_just_over_the_limit_is_not_repeated() -> None:
    output = b"x" * (LIVE_BYTES + 10)
    remarks = b"".join(await remarks_of(output))
    assert remarks.count(b"x") == len(output)
