"""Structured logs: JSON lines, or readable ones in a terminal. Never a token, key or signature.

So tracebacks are plain ones: prettier ones show the values of variables.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

from potluck.local.terminal_filter import filter_text


def configure_logs(level: int = logging.INFO) -> None:
    """Configures our own logs, and those of libraries."""
    readable = sys.stderr.isatty()
    renderer = _for_terminal if readable else structlog.processors.JSONRenderer()
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*before, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    theirs = logging.StreamHandler(sys.stderr)
    theirs.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[theirs], level=max(level, logging.WARNING), force=True)


def _for_terminal(logger: Any, method: str, event: EventDict) -> str:
    """Values come from everywhere: what a terminal would obey is shown."""
    return filter_text(_CONSOLE(logger, method, event))


_CONSOLE = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


@contextmanager
def silent_logs() -> Iterator[None]:
    """Suppresses logs, for callers that report everything in another way."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
