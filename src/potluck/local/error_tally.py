"""Counts errors by kind and place until they are collected; bounded, and quick.

It is told of errors where they are logged, in whatever thread that is.
"""

import hashlib
import threading
import traceback
from types import FrameType, TracebackType

from msgspec import Struct
from msgspec.structs import replace

from potluck.local.secret_patterns import mask_secrets

_MOST_GROUPS = 200
_PLACE_CHARACTERS = 200
_MESSAGE_CHARACTERS = 500
_TRACE_CHARACTERS = 8_000
_SECRET_CHARACTERS = 4_000  # of the longest secret, a private key
# Every statement passes these, so they say nothing about the place.
_PASSING = "potluck.store.database."
_OURS = "potluck."


class TalliedError(Struct, frozen=True):
    """Errors of one kind at one place; message and trace are of the last one, without secrets."""

    fingerprint: str
    kind: str  # the class of the exception; `logged` if there was none
    place: str  # Potluck's function that raised it, or what is always logged there
    message: str
    trace: str
    occurrences: int = 1


class ErrorTally:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, TalliedError] = {}

    def note(self, event: str, exception: BaseException | None, origin: str) -> None:
        """Further groups are dropped while there are many: a flood must not cost memory."""
        error = _error(event, exception, origin)
        with self._lock:
            group = self._groups.get(error.fingerprint)
            if group is not None:
                occurrences = group.occurrences + 1
                self._groups[error.fingerprint] = replace(error, occurrences=occurrences)
            elif len(self._groups) < _MOST_GROUPS:
                self._groups[error.fingerprint] = error

    def collect(self) -> list[TalliedError]:
        """All since the last call."""
        with self._lock:
            groups, self._groups = self._groups, {}
        return list(groups.values())

    def give_back(self, errors: list[TalliedError]) -> None:
        """They could not be stored."""
        with self._lock:
            for error in errors:
                later = self._groups.get(error.fingerprint)
                more = 0 if later is None else later.occurrences
                if later is not None or len(self._groups) < _MOST_GROUPS:
                    merged = replace(later or error, occurrences=error.occurrences + more)
                    self._groups[error.fingerprint] = merged


def _error(event: str, exception: BaseException | None, origin: str) -> TalliedError:
    if exception is None:
        kind, place = "logged", mask_secrets(origin)[:_PLACE_CHARACTERS]
        message, trace = event, ""
    else:
        kind, place = type(exception).__qualname__, _place(exception.__traceback__)
        message, trace = str(exception), "".join(traceback.format_exception(exception))
    return TalliedError(
        _fingerprint(kind, place),
        kind,
        place,
        _masked_start(message, _MESSAGE_CHARACTERS),
        _masked_end(trace, _TRACE_CHARACTERS),
    )


def _masked_start(text: str, most: int) -> str:
    """Reads little more of a long text. A secret that is cut at the end of what is read is not
    recognised, so that part is left out, also if masked secrets before it made it move forward.
    """
    read = most + _SECRET_CHARACTERS
    if len(text) <= read:
        return mask_secrets(text)[:most]
    return mask_secrets(text[:read])[:-_SECRET_CHARACTERS][:most]


def _masked_end(text: str, most: int) -> str:
    read = most + _SECRET_CHARACTERS
    if len(text) <= read:
        return mask_secrets(text)[-most:]
    return mask_secrets(text[-read:])[_SECRET_CHARACTERS:][-most:]


def _place(trace: TracebackType | None) -> str:
    """The innermost function of Potluck, or else the innermost of all. Without the line, so that it
    is the same in the next version."""
    frames: list[FrameType] = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    names = [
        f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}" for frame in frames
    ]
    ours = [name for name in names if name.startswith(_OURS) and not name.startswith(_PASSING)]
    return (ours or names or ["unknown"])[-1][:_PLACE_CHARACTERS]


def _fingerprint(kind: str, place: str) -> str:
    return hashlib.blake2b(f"{kind}\n{place}".encode(), digest_size=6).hexdigest()
