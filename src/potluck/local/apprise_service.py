"""Sends notices to the service that an apprise URL names, from this machine.

The URL contains secrets, so no message repeats it, and apprise's own log is not shown.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any

from potluck.model.error import InvalidInput, PartMissing

# Title, text and whether it is good news; returns whether the service accepted it.
SendNotice = Callable[[str, str, bool], bool]


def open_apprise_service(url: str, option: str) -> SendNotice:
    """Fails with a clear message if apprise does not understand the URL of this option."""
    apprise = _apprise(option)
    asset = apprise.AppriseAsset(app_id="Potluck", app_desc="Potluck", async_mode=False)
    service = apprise.Apprise(asset=asset)
    if not service.add(url):
        raise InvalidInput(
            f"{option} has a URL that apprise does not understand.",
            "See its documentation of the service: github.com/caronc/apprise.",
        )

    def send(title: str, text: str, is_good: bool) -> bool:
        kind = apprise.NotifyType.SUCCESS if is_good else apprise.NotifyType.FAILURE
        # Others chose the names in it. As HTML, mail would show their tags and no lines.
        plain = apprise.NotifyFormat.TEXT
        return bool(service.notify(title=title, body=text, notify_type=kind, body_format=plain))

    return send


def _apprise(option: str) -> Any:
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    logging.getLogger("apprise").propagate = False
    # Of its services; for the whole process, since notices are sent from several threads.
    warnings.filterwarnings("ignore", module=r"apprise(\.|$)")
    try:
        import apprise
    except ImportError as error:
        raise PartMissing(
            f"{option} with a URL needs apprise, which is not installed.",
            "Install it with `pip install apprise`.",
        ) from error
    return apprise
