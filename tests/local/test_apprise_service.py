"""Notices are plain text, and sent from several threads."""

import warnings
from collections.abc import Sequence
from typing import Any

from potluck.local.apprise_service import open_apprise_service
from tests.alert_receiver import AlertReceiver, receiving


def test_sending_does_not_replace_the_filters_of_warnings() -> None:
    """They are those of the whole process: threads would restore each other's."""
    filters_seen: list[Sequence[Any]] = []

    class Watching(AlertReceiver):
        def keep(self, message: dict[str, Any]) -> None:
            filters_seen.append(warnings.filters)
            super().keep(message)

    with receiving() as receiver:
        receiver.__class__ = Watching
        send = open_apprise_service(receiver.url, "--notify")
        before = warnings.filters
        assert send("title", "text", False)
    assert len(filters_seen) == 1 and filters_seen[0] is before


def test_a_text_is_not_taken_for_html() -> None:
    """The name of a node is its owner's choice, and mail is HTML."""
    with receiving() as receiver:
        send = open_apprise_service(f"{receiver.url}?format=html", "POTLUCK_ALERT_URLS")
        assert send("title", "lost:\n- <b>attic</b> & <!channel>", False)
    (message,) = receiver.received
    assert "<br" in message.body and "&lt;b&gt;attic&lt;/b&gt;" in message.body
    assert "<b>" not in message.body and "<!channel>" not in message.body
