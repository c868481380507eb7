"""Keeps the log of an attempt within the task's limit. The limit never ends a task.

States of a line that carriage returns overwrite are dropped, except for some while it is being
written. If that is not enough, the middle is dropped: the first half of the limit is passed on as
it is written. Then a quarter is for the newest lines, which are passed on at intervals so that
a follower sees how the task continues, and a quarter for the end. Each gap is marked.

Memory is bounded, whatever the task writes, and what is passed on does not exceed the limit, but
for the marks. A task that writes more than its limit is slowed down by its pipe.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

from potluck.model.task import Limits
from potluck.model.units import show_bytes
from potluck.provider.attempt.log_buffer import LogBuffer

REMARKS = "potluck"
_STATE_SECONDS, _STATE_SHARE = 0.5, 0.02  # between two states of a line; of the line's age
_MOST_HELD_BYTES = 65_536
_MOST_TAIL_BYTES = 8 * 2**20
_LONG_LINE_BYTES = 256
_ENTRY_BYTES = 128  # what an entry costs besides its bytes
_WINDOWS, _LEAST_WINDOW_SECONDS = 128, 10.0
# For output beyond the limit: it costs this machine processor time, and is dropped.
_PACE_BYTES = 32 * 2**20


class OverwrittenLines:
    """Drops what carriage returns overwrite in one stream, as a terminal would.

    A state that is not overwritten soon is passed on. As in grep, a NUL byte means that a stream is
    binary: it is passed on unchanged.
    """

    def __init__(self) -> None:
        self._held = b""  # starts with a carriage return, which may belong to \r\n
        self._is_shown = False  # a part of the current line has been passed on
        self._is_binary = False
        self._shown_at = -math.inf
        self._began = math.inf  # when the current line began

    def feed(self, data: bytes, now: float) -> bytes:
        """Returns what to pass on now."""
        self._began = min(self._began, now)
        self._is_binary |= b"\0" in data
        if self._is_binary:
            return self.flush() + data
        first, *lines = (self._held + data).split(b"\n")
        self._held = b""
        if not lines:
            return self._show(first, now)
        ended = self._last_state(first)
        self._is_shown, self._began = False, now
        *lines, rest = lines
        return b"\n".join([ended, *map(self._last_state, lines), self._show(rest, now)])

    @property
    def due(self) -> float | None:
        """When the state that is held back has to be passed on."""
        if len(self._held) < 2:
            return None
        age_seconds = self._shown_at - self._began
        return self._shown_at + max(_STATE_SECONDS, age_seconds * _STATE_SHARE)

    def show(self, now: float) -> bytes:
        """Returns the state that is held back."""
        state = self._held.removesuffix(b"\r")
        self._held = self._held[len(state) :]
        self._is_shown, self._shown_at = True, now
        return state

    def flush(self) -> bytes:
        """Returns all that is held back, at the end or before a remark."""
        incomplete, self._held, self._is_shown = self._held, b"", False
        return incomplete

    def _show(self, line: bytes, now: float) -> bytes:
        """The part of an unfinished line that is passed on; the rest is held back."""
        body = line.rstrip(b"\r")
        end = b"" if body == line else b"\r"
        if (at := body.rfind(b"\r")) < 0:  # nothing is overwritten
            self._held = end
            self._is_shown |= bool(body)
            return body
        self._held = body[at:] + end
        is_due = self.due is not None and now >= self.due
        return self.show(now) if is_due or len(self._held) > _MOST_HELD_BYTES else b""

    def _last_state(self, line: bytes) -> bytes:
        at = line.rstrip(b"\r").rfind(b"\r")
        if at < 0:
            return line
        return line[at:] if self._is_shown else line[at + 1 :]


class LimitedLog:
    """The log of one attempt, up to its limit. `close` passes on the end."""

    def __init__(
        self,
        log: LogBuffer,
        limit_bytes: int,
        window_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._clock = clock
        self._tail_bytes = min(limit_bytes // 4, _MOST_TAIL_BYTES)
        self._window_bytes = self._tail_bytes // _WINDOWS
        self._windows_left = _WINDOWS
        self._head_bytes = limit_bytes - 2 * self._tail_bytes  # what is left of it
        self._window_seconds = window_seconds
        self._window_due = 0.0
        self._lines = {name: OverwrittenLines() for name in ("stdout", "stderr", REMARKS)}
        self._tail: deque[tuple[int | None, str, bytearray]] = deque()
        self._held_bytes = self._dropped_bytes = 0
        self._item: int | None = None
        self._titled: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def write(self, stream: str, data: bytes) -> None:
        if stream == REMARKS:
            self._flush_lines()
        self._take(stream, self._lines[stream].feed(data, self._clock()))
        self._schedule()
        if not self._head_bytes:
            await asyncio.sleep(len(data) / _PACE_BYTES)

    async def remark(self, sentence: str) -> None:
        """Writes a line of the platform."""
        await self.write(REMARKS, f"{sentence}\n".encode())

    async def begin_item(self, item: int) -> None:
        """Further output belongs to this item of an array; a title says so if there is any."""
        self._flush_lines()
        self._item = item

    async def close(self) -> None:
        """Passes on the end of the log."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush_lines()
        self._release(self._tail_bytes)

    def _flush_lines(self) -> None:
        for stream, lines in self._lines.items():
            self._take(stream, lines.flush())

    def _take(self, stream: str, data: bytes) -> None:
        if self._head_bytes:
            head = _cut(data, self._head_bytes)
            self._head_bytes -= len(head)
            self._pass_on(self._item, stream, head)
            data = data[len(head) :]
            if data or not self._head_bytes:
                self._head_bytes = 0
                self._window_due = self._clock() + self._window_seconds
        if data:
            self._hold(stream, data)

    def _hold(self, stream: str, data: bytes) -> None:
        last = self._tail[-1] if self._tail else None
        if last is not None and last[:2] == (self._item, stream):
            last[2].extend(data)
        else:
            self._tail.append((self._item, stream, bytearray(data)))
            self._held_bytes += _ENTRY_BYTES
        self._held_bytes += len(data)
        self._drop_to(self._tail_bytes)

    def _drop_to(self, most_bytes: int) -> None:
        """Drops the oldest output that is held back."""
        while (excess_bytes := self._held_bytes - most_bytes) > 0 and self._tail:
            oldest = self._tail[0][2]
            dropped_bytes = min(excess_bytes, len(oldest))
            del oldest[:dropped_bytes]
            self._held_bytes -= dropped_bytes
            self._dropped_bytes += dropped_bytes
            if not oldest:
                self._tail.popleft()
                self._held_bytes -= _ENTRY_BYTES

    def _release(self, most_bytes: int) -> None:
        """Passes on the newest output that is held back, from the beginning of a line."""
        self._drop_to(most_bytes)
        if self._dropped_bytes and self._tail:
            oldest = self._tail[0][2]
            rest_bytes = oldest.find(b"\n") + 1
            if rest_bytes < len(oldest):
                del oldest[:rest_bytes]
                self._dropped_bytes += rest_bytes
        if self._dropped_bytes:
            size = show_bytes(self._dropped_bytes)
            sentence = f"{size} of output dropped here, which exceeded the log limit (--log-limit)"
            self._log.add(REMARKS, f"{sentence}\n".encode())
        for item, stream, data in self._tail:
            self._pass_on(item, stream, bytes(data))
        self._tail.clear()
        self._held_bytes = self._dropped_bytes = 0

    def _pass_on(self, item: int | None, stream: str, data: bytes) -> None:
        if data and stream != REMARKS and item != self._titled:
            self._titled = item
            title = f"item {item}:\n".encode()
            self._head_bytes = max(0, self._head_bytes - len(title))
            self._log.add(REMARKS, title)
        self._log.add(stream, data)

    def _schedule(self) -> None:
        """Sets a timer for what is held back: a follower sees it even if no more is written."""
        dues = [lines.due for lines in self._lines.values()]
        dues += [self._window_due] if self._tail and self._windows_left else []
        due = min((due for due in dues if due is not None), default=None)
        if due is not None and self._timer is None:
            delay_seconds = max(0.0, due - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, now = None, self._clock()
        for stream, lines in self._lines.items():
            if lines.due is not None and now >= lines.due:
                self._take(stream, lines.show(now))
        if self._tail and self._windows_left and now >= self._window_due:
            self._windows_left -= 1
            self._window_due = now + self._window_seconds
            self._release(self._window_bytes)
        self._schedule()


def limited_log(log: LogBuffer, limits: Limits) -> LimitedLog:
    """The newest lines are passed on so rarely that they suffice for the longest run."""
    window_seconds = max(_LEAST_WINDOW_SECONDS, limits.run_seconds / _WINDOWS)
    return LimitedLog(log, limits.log_bytes, window_seconds)


def _cut(data: bytes, most_bytes: int) -> bytes:
    """As much as fits: whole lines, or the beginning of a long one."""
    if len(data) <= most_bytes:
        return data
    end = data.rfind(b"\n", 0, most_bytes) + 1
    return data[: end or (most_bytes if most_bytes >= _LONG_LINE_BYTES else 0)]
