"""Structured logs: JSON lines, or readable ones in a terminal. Never a token, key or signature.

So tracebacks are plain ones: prettier ones show the values of variables. What looks like a secret
is masked all the same. An exception is logged once, with its causes, however many places log it.

Every line has the ids that are bound where it is written: the request, the task and the attempt.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from potluck.local.secret_patterns import mask_secrets
from potluck.local.terminal_filter import filter_text


class LogStyle(StrEnum):
    AUTO = "auto"  # readable lines in a terminal, else JSON
    JSON = "json"  # one JSON object a line
    TEXT = "text"  # readable lines


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        return logging.getLevelNamesMapping()[self.upper()]


# Gets the event of an error, its exception if there is one, and what is the same in all errors that
# are logged at that place; must be quick, and must not fail.
ErrorObserver: TypeAlias = Callable[[str, BaseException | None, str], None]


def configure_logs(
    level: LogLevel = LogLevel.INFO,
    style: LogStyle = LogStyle.AUTO,
    observers: Sequence[ErrorObserver] = (),
) -> None:
    """Configures our own logs, and those of libraries. Observers are told of each error."""
    is_text = style is LogStyle.TEXT or (style is LogStyle.AUTO and sys.stderr.isatty())
    renderer = _as_text(_has_colours()) if is_text else _as_json
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _tell(observers),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[_drop_repeated, *before, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level.number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    theirs = logging.StreamHandler(sys.stderr)
    theirs.addFilter(lambda record: not _is_repeated(record.exc_info))
    theirs.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[theirs], level=max(level.number, logging.WARNING), force=True)


def _has_colours() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _as_text(has_colours: bool) -> Processor:
    """Values come from everywhere: what a terminal would obey is shown."""
    render = structlog.dev.ConsoleRenderer(
        colors=has_colours, exception_formatter=structlog.dev.plain_traceback
    )
    return lambda logger, method, event: filter_text(mask_secrets(render(logger, method, event)))


def _as_json(_: Any, __: str, event: EventDict) -> str:
    return mask_secrets(msgspec.json.encode(event, enc_hook=repr).decode())


def _tell(observers: Sequence[ErrorObserver]) -> Processor:
    def tell(_: Any, __: str, event: EventDict) -> EventDict:
        if event.get("level") in ("error", "critical"):
            for observe in observers:
                text = str(event["event"])
                observe(text, _exception(event.get("exc_info")), _origin(text, event))
        return event

    return tell


def _origin(text: str, event: EventDict) -> str:
    """Our events are constant; those of libraries have a format, and values in their text."""
    record = event.get("_record")
    return f"{record.name}: {record.msg}" if isinstance(record, logging.LogRecord) else text


def _drop_repeated(_: Any, __: str, event: EventDict) -> EventDict:
    if _is_repeated(event.get("exc_info")):
        raise structlog.DropEvent
    return event


def _is_repeated(exc_info: Any) -> bool:
    """Whether this exception was logged before; from now on it was."""
    exception = _exception(exc_info)
    if exception is None:
        return False
    is_repeated = getattr(exception, _LOGGED, False)
    try:
        setattr(exception, _LOGGED, True)
    except AttributeError:  # it takes no attributes
        return False
    return bool(is_repeated)


_LOGGED = "_potluck_was_logged"


def _exception(exc_info: Any) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    error_info = exc_info if isinstance(exc_info, tuple) else sys.exc_info() if exc_info else None
    return None if error_info is None else error_info[1]


@contextmanager
def silent_logs() -> Iterator[None]:
    """Suppresses logs, for callers that report everything in another way."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
