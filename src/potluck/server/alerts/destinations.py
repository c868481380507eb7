"""Where alerts are sent: the apprise URLs of the operator's settings, and never of a user.

An address contains secrets. It is not stored and not logged; a destination is named by its number
and its service, and stored messages refer to a hash of it.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence

import structlog
from msgspec import Struct

from potluck.local.apprise_service import SendNotice, open_apprise_service
from potluck.local.detached_thread import run_in_daemon_thread

log = structlog.get_logger()

_SETTING = "POTLUCK_ALERT_URLS"


class AlertDestination(Struct, frozen=True):
    label: str  # its number and service, for people
    name: str  # a hash of its address, for stored messages
    _send: SendNotice

    async def send(self, title: str, body: str, is_good: bool, seconds: float) -> str:
        """Returns why it could not be sent, or an empty text. In a thread, which may hang."""
        sending = run_in_daemon_thread(lambda: self._send(title, body, is_good))
        try:
            async with asyncio.timeout(seconds):
                is_sent = await asyncio.wrap_future(sending)
        except TimeoutError:
            return f"it did not answer within {seconds:g} s"
        except Exception as error:  # noqa: BLE001, of any of apprise's services
            # Its text may contain the address.
            return f"it failed ({type(error).__name__})"
        return "" if is_sent else "it did not accept the message"


class DeliveryResult(Struct, frozen=True):
    destination: AlertDestination
    problem: str  # empty if it arrived
    seconds: float


class AlertDestinations:
    def __init__(self, urls: Sequence[str] = ()) -> None:
        """Fails with a clear message if a URL is not valid."""
        self._destinations = [
            AlertDestination(_label(number, url), _name(url), open_apprise_service(url, _SETTING))
            for number, url in enumerate(dict.fromkeys(urls), 1)
        ]

    @property
    def names(self) -> list[str]:
        return [destination.name for destination in self._destinations]

    def by_name(self, name: str) -> AlertDestination:
        return next(destination for destination in self._destinations if destination.name == name)

    async def send_to_all(
        self, title: str, body: str, is_good: bool, seconds: float
    ) -> list[DeliveryResult]:
        """Now, without storing anything and without retries."""

        async def send(destination: AlertDestination) -> DeliveryResult:
            began = time.monotonic()
            problem = await destination.send(title, body, is_good, seconds)
            return DeliveryResult(destination, problem, time.monotonic() - began)

        return list(await asyncio.gather(*map(send, self._destinations)))


def _label(number: int, url: str) -> str:
    return f"{number} ({url.partition('://')[0]})"


def _name(url: str) -> str:
    return hashlib.blake2b(url.encode(), digest_size=16, person=b"potluck alerts").hexdigest()
