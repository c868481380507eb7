"""Connects a provider with its metrics, if its owner wants them; otherwise nothing is measured."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from potluck.model.device import DeviceDescription
from potluck.provider.announcement import Announce
from potluck.provider.control.handler import CommandContext
from potluck.provider.metrics.sandbox_times import ObserveStart
from potluck.provider.settings import ProviderSettings

if TYPE_CHECKING:
    from potluck.provider.metrics.metrics import ProviderMetrics


class Metering:
    def __init__(self, settings: ProviderSettings) -> None:
        self._port = settings.metrics_port
        self._metrics = _make_metrics() if self._port else None

    @property
    def observe_start(self) -> ObserveStart | None:
        return None if self._metrics is None else self._metrics.observe_start

    def count_announced(self, announce: Announce) -> Announce:
        return announce if self._metrics is None else self._metrics.count_announced(announce)

    @asynccontextmanager
    async def serving(
        self, office: CommandContext, devices: Sequence[DeviceDescription]
    ) -> AsyncIterator[None]:
        metrics = self._metrics
        if metrics is None:
            yield
            return
        from potluck.provider.metrics.endpoint import serve_metrics
        from potluck.provider.metrics.metrics import ProviderFigures

        def refresh() -> None:
            log_bytes, output_bytes = office.bench.spooled_bytes()
            figures = ProviderFigures(
                statuses=office.watch.statuses(),
                busy=frozenset(office.bench.busy()),
                attempts=len(office.bench.held()),
                log_bytes=log_bytes,
                output_bytes=output_bytes,
                silence_seconds=office.pulse.silence_seconds(),
                answer_age_seconds=office.pulse.seconds_since_answer(),
            )
            metrics.show(devices, figures)

        async with serve_metrics(metrics, self._port, refresh):
            yield


def _make_metrics() -> "ProviderMetrics":
    from potluck.provider.metrics.metrics import ProviderMetrics  # a large import, rarely needed

    return ProviderMetrics()
