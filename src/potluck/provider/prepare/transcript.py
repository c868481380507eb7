"""What an installation said: its answer on stdout, and its last words for the error's sentence."""

from potluck.provider.sandbox.driver import Output

_TAIL_BYTES = 4_096
_DECORATION = str.maketrans(dict.fromkeys("×╰─▶│├╭╮╯·", " "))


class Transcript:
    """Takes the output of a run. What is for people goes on to the task's log, line by line."""

    def __init__(self, output: Output):
        self._output = output
        self._answer = bytearray()
        self._tail = bytearray()
        self._unsent = bytearray()

    async def take(self, stream: str, data: bytes) -> None:
        if stream == "stdout":
            self._answer.extend(data)
            return
        self._tail.extend(data)
        del self._tail[:-_TAIL_BYTES]
        self._unsent.extend(data)
        if b"\n" in data or len(self._unsent) > _TAIL_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Sends what is left; uv writes its lines in many small pieces."""
        if self._unsent:
            data, self._unsent = bytes(self._unsent), bytearray()
            await self._output("potluck", data)

    @property
    def answer(self) -> str:
        return self._answer.decode("utf-8", "replace")

    @property
    def last_words(self) -> str:
        return self._tail.decode("utf-8", "replace").translate(_DECORATION).strip()
