"""Sends stored messages about alerts: each to its destination, in order, until it is accepted.

Any instance sends: it claims a message first, so that no other one does. At least once: a message
is sent again if the result could not be stored, as when the instance was killed, and if the
destination accepted it without answering in time.
"""

import asyncio

import structlog

from potluck.model.backoff import BackOff
from potluck.server.services import Services
from potluck.store.alerts import alert_messages
from potluck.store.alerts.alert_messages import ClaimedMessage

log = structlog.get_logger()

# For storing the result, after the longest time that sending takes.
_CLAIM_MARGIN_SECONDS = 15.0
_LONGEST_PAUSE_SECONDS = 300.0


async def deliver_once(services: Services) -> int:
    """Sends the next message of each destination; returns how many were tried."""
    names = services.alert_destinations.names
    if not names:
        return 0
    seconds = services.settings.alert_send_seconds + _CLAIM_MARGIN_SECONDS
    async with services.database.statement() as connection:
        claimed = await alert_messages.claim(connection, names, seconds)
    await asyncio.gather(*(_send(services, message) for message in claimed))
    return len(claimed)


async def _send(services: Services, message: ClaimedMessage) -> None:
    settings = services.settings
    destination = services.alert_destinations.by_name(message.destination)
    problem = await destination.send(
        message.title, message.body, message.is_resolved, settings.alert_send_seconds
    )
    pauses = BackOff(settings.alert_retry_seconds, _LONGEST_PAUSE_SECONDS)
    async with services.database.statement() as connection:
        if not problem:
            await alert_messages.mark_sent(connection, message.id)
            return
        is_given_up = await alert_messages.mark_failed(
            connection,
            message.id,
            pauses.seconds(message.attempts, jitter=1.0),
            settings.alert_give_up_seconds,
        )
    log.warning(
        "an alert could not be sent",
        destination=destination.label,
        problem=problem,
        is_given_up=is_given_up,
    )
