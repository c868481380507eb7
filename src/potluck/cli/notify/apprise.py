"""A notice to a phone, a chat or a mailbox: whatever an apprise URL names, sent from here.

A URL carries its secrets, so no sentence of ours repeats it, and apprise's own remarks are not
shown.
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


def sent_to(url: str) -> "Channel":
    """To this URL; a clear word if nobody here understands it."""
    apprise = _apprise()
    asset = apprise.AppriseAsset(app_id="Potluck", app_desc="Potluck", async_mode=False)
    service = apprise.Apprise(asset=asset)
    with _quiet():
        is_understood = service.add(url)
    if not is_understood:
        raise InvalidInput(
            "--notify has a URL that apprise does not understand.",
            "Look at its page about the service: github.com/caronc/apprise.",
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
            "Install it beside Potluck with `pip install apprise`, or say --notify bell or"
            " --notify desktop.",
        ) from error
    return apprise


@contextmanager
def _quiet() -> Iterator[None]:
    """Which parts of Python its many services still use is nobody's concern here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
