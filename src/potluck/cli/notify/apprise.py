"""Sends notices to the service that an apprise URL names, from this machine.

The URL contains secrets, so no message repeats it, and apprise's own log is not shown.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from potluck.model.error import InvalidInput, PartMissing

if TYPE_CHECKING:
    from potluck.cli.notify.notifier import Channel, Notice
    from potluck.cli.terminal.screen import Screen


def open_apprise_channel(url: str) -> "Channel":
    """Fails with a clear message if apprise does not understand the URL."""
    apprise = _apprise()
    asset = apprise.AppriseAsset(app_id="Potluck", app_desc="Potluck", async_mode=False)
    service = apprise.Apprise(asset=asset)
    with _quiet():
        is_valid = service.add(url)
    if not is_valid:
        raise InvalidInput(
            "--notify has a URL that apprise does not understand.",
            "See its documentation of the service: github.com/caronc/apprise.",
        )

    def send(notice: "Notice", _: "Screen") -> str:
        kind = apprise.NotifyType.SUCCESS if notice.is_good else apprise.NotifyType.FAILURE
        with _quiet():
            is_sent = service.notify(title=notice.title, body=notice.text, notify_type=kind)
        return "" if is_sent else "the notice to your --notify URL could not be sent"

    return send


def _apprise() -> Any:
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    logging.getLogger("apprise").propagate = False
    try:
        with _quiet():
            import apprise
    except ImportError as error:
        raise PartMissing(
            "--notify with a URL needs apprise, which is not installed.",
            "Install it with `pip install apprise`, or use --notify bell or --notify desktop.",
        ) from error
    return apprise


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the deprecation warnings of apprise's services."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
