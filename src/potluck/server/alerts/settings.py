"""Settings of built-in alerting; part of the server's settings.

One struct extends the other, because structs cannot be combined.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from potluck.model.alert import AlertName
from potluck.server.http.settings import HttpSettings

Interval = Annotated[float, Meta(gt=0, le=86_400)]
Period = Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)]


class AlertSettings(HttpSettings, frozen=True, kw_only=True):
    # Where alerts are sent: apprise URLs (mail, chat, webhooks …), separated by commas; a comma in
    # a URL is written `%2C`. They contain secrets, so there is no option. See
    # [alerts.md](alerts.md).
    alert_urls: tuple[str, ...] = ()
    alert_seconds: Interval = 10.0  # how often conditions are evaluated
    # How long the condition of an alert must hold before it fires, where it differs from the
    # default: `NodeLost=600,DiskLow=0`.
    alert_for_seconds: Mapping[AlertName, Annotated[float, Meta(ge=0, le=86_400)]] = {}
    # How long a new alert waits for others of its kind, to be sent in one message.
    alert_group_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    # How often an alert that still fires is sent again (4 hours).
    alert_repeat_seconds: Period = 14_400.0
    # When alerts that are not critical are held back, in the local time of the server:
    # `22:00-07:00`, or `mon-fri 20:00-08:00, sat, sun`.
    alert_quiet_hours: str = ""
    # How long one destination may take for one message.
    alert_send_seconds: Annotated[float, Meta(gt=0, le=300)] = 15.0
    alert_retry_seconds: Interval = 10.0  # the pause after the first failure; it doubles
    alert_give_up_seconds: Interval = 3_600.0  # a message not delivered within this time is dropped
    keep_alerts_seconds: Period = 30 * 86_400.0  # how long resolved alerts are listed (30 days)

    # From which temperature a device counts as hot; 5 degrees below it no longer does.
    alert_hot_celsius: Annotated[float, Meta(ge=30, le=200)] = 90.0
    # The part of requests that may fail by the server's fault (status 5xx).
    alert_error_share: Annotated[float, Meta(ge=0, le=1)] = 0.05
    # The time within which 95 % of the requests must be answered; long polls do not count.
    alert_latency_seconds: Annotated[float, Meta(gt=0, le=60)] = 1.0
    # The time over which requests are counted, for errors and latency.
    alert_window_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 300.0
    # With fewer requests within `POTLUCK_ALERT_WINDOW_SECONDS`, no alert about them fires.
    alert_least_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    alert_certificate_seconds: Period = 14 * 86_400.0  # how long a certificate must still be valid
    # The greatest age of the last complete backup; without it, backups are not watched.
    alert_backup_seconds: Period | None = None
    # How late an epoch may be closed.
    alert_epoch_seconds: Interval = 300.0
    # How long after its epoch was closed a reward may be unpaid; 0: any time.
    alert_payout_seconds: Annotated[float, Meta(ge=0, le=366 * 86_400)] = 8 * 86_400.0
    # How many terms of leadership may begin within `POTLUCK_ALERT_LEADER_SECONDS`.
    alert_leader_terms: Annotated[int, Meta(ge=1, le=1_000)] = 5
    alert_leader_seconds: Interval = 600.0  # the time over which they are counted
