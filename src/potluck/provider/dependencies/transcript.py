"""What an installation said: its answer on stdout, and its last words for the error's sentence.

What is for people goes on to the task's log as it comes: the first of it, and at the end the last.
The server counts it there, so both steps of an installation together stay below 64 KiB, which is
what it allows beside the script's own output.
"""

from potluck.provider.sandbox.driver import Output

LIVE_BYTES = 16_384
TAIL_BYTES = 4_096
_DECORATION = str.maketrans(dict.fromkeys("×╰─▶│├╭╮╯·", " "))


class Transcript:
    """Takes the output of one step."""

    def __init__(self, output: Output):
        self._output = output
        self._answer = bytearray()
        self._tail = bytearray()
        self._unsent = bytearray()
        self._room_bytes = LIVE_BYTES
        self._left_out_bytes = 0

    async def take(self, stream: str, data: bytes) -> None:
        if stream == "stdout":
            self._answer.extend(data)
            return
        self._tail.extend(data)
        del self._tail[:-TAIL_BYTES]
        self._unsent.extend(data)
        # uv writes its lines in many small pieces.
        if b"\n" in data or len(self._unsent) > TAIL_BYTES:
            await self._send()

    async def finish(self) -> None:
        """Sends what is left and, where remarks were left out, the last of them."""
        await self._send()
        if self._left_out_bytes:
            last = bytes(self._tail[-self._left_out_bytes :])
            between_bytes = self._left_out_bytes - len(last)
            mark = f"\n({between_bytes:,} bytes of the installer's remarks left out)\n"
            await self._output("potluck", mark.encode() + last)

    async def _send(self) -> None:
        data = bytes(self._unsent[: self._room_bytes])
        self._left_out_bytes += len(self._unsent) - len(data)
        self._room_bytes -= len(data)
        self._unsent.clear()
        if data:
            await self._output("potluck", data)

    @property
    def answer(self) -> str:
        return self._answer.decode("utf-8", "replace")

    @property
    def last_words(self) -> str:
        return self._tail.decode("utf-8", "replace").translate(_DECORATION).strip()
