"""The provider of this machine: queried over its control socket, changed in the owner's file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from potluck.cli.provider.effective_terms import EffectiveTerm, local_terms
from potluck.cli.provider.machine import MachineView, view_from_provider
from potluck.cli.provider.resolve_device import DeviceChoice, all_reclaimable
from potluck.cli.provider.target import Effect, OnProgress, ignore_progress
from potluck.local.data_directory import part_directory, resolve_directory
from potluck.model.device import DeviceDescription
from potluck.model.error import Conflict, NotRunning
from potluck.model.terms import TermsChange
from potluck.provider.control.message import (
    Answer,
    CommandRefused,
    Drain,
    InEffect,
    Leave,
    ProviderStatus,
    Reclaim,
    Request,
    Reread,
    ShowStatus,
)
from potluck.provider.owner.file import OwnerValues

_DETECT_SECONDS = 20.0


def provider_directory(data_dir: str | None) -> Path:
    """The data directory that `potluck provide` uses with the same option and variables."""
    exact = os.environ.get("POTLUCK_PROVIDER_DATA_DIRECTORY")
    if data_dir is None and exact:
        return resolve_directory(exact)
    return part_directory("provider", data_dir)


class LocalTarget:
    """The provider on this machine; if none runs, its owner's file."""

    def __init__(self, directory: Path):
        self.directory = directory

    def status(self) -> ProviderStatus:
        answer = self._send(ShowStatus())
        assert isinstance(answer, ProviderStatus)
        return answer

    def running(self) -> ProviderStatus | None:
        try:
            return self.status()
        except NotRunning:
            return None

    def view(self) -> tuple[MachineView, ProviderStatus]:
        status = self.status()
        return view_from_provider(status), status

    def choices(self) -> Sequence[DeviceChoice]:
        status = self.running()
        if status is not None:
            return [device.choice for device in view_from_provider(status).devices]
        return [
            DeviceChoice(number, device.uuid, device.model)
            for number, device in enumerate(_detect_devices(self.directory), 1)
        ]

    def effective_terms(self, device: str | None) -> list[EffectiveTerm]:
        return local_terms(self._read_terms(), self.running(), device)

    def exceptions(self) -> Mapping[str, TermsChange]:
        return self._read_terms().devices

    def change(self, change: TermsChange) -> Effect:
        from potluck.provider.owner.file import change_file, terms_file
        from potluck.provider.owner.pending_writes import append_if_pending

        change_file(terms_file(self.directory), change)
        effect = self._notify(Reread())
        if effect is Effect.NEXT_START:
            append_if_pending(self.directory, change)
        if change.is_paused is False and (running := self.running()) and running.is_draining:
            return Effect.AFTER_DRAIN
        return effect

    def reclaim(self, devices: tuple[str, ...]) -> Effect:
        """Stops running tasks first; a running provider writes the file itself."""
        effect = self._notify(Reclaim(devices))
        if effect is Effect.NEXT_START:
            return self.change(TermsChange(devices=devices, is_paused=True))
        return effect

    def declares_reclaim(self, devices: tuple[str, ...]) -> bool:
        status = self.running()
        return status is None or all_reclaimable(
            (device.description for device in status.devices), devices
        )

    def drain(self, on_progress: OnProgress) -> Effect:
        self._send(Drain(), on_progress)
        return Effect.NOW

    def leave(self, is_now: bool, on_progress: OnProgress) -> None:
        """Returns when the provider has left the pool, deleted its key and stopped."""
        self._send(Leave(is_now), on_progress)

    def _read_terms(self) -> OwnerValues:
        from potluck.provider.owner.file import read_file, terms_file

        return read_file(terms_file(self.directory))

    def _notify(self, request: Request) -> Effect:
        try:
            answer = self._send(request)
        except NotRunning:
            return Effect.NEXT_START
        assert isinstance(answer, InEffect)
        return Effect.NOW if answer.is_known_to_server else Effect.SERVER_SILENT

    def _send(self, request: Request, on_progress: OnProgress = ignore_progress) -> Answer:
        """Returns the last answer; reports the number of remaining attempts until then."""
        from potluck.provider.control.client import ask

        last: Answer | None = None
        for last in ask(self.directory, request):
            if isinstance(last, CommandRefused):
                raise Conflict(last.detail, last.hint)
            if isinstance(last, ProviderStatus):
                on_progress(len(last.attempts))
        assert last is not None
        return last


def _detect_devices(directory: Path) -> Sequence[DeviceDescription]:
    import asyncio

    from potluck.provider.detect.devices import detect_devices

    return asyncio.run(detect_devices(directory, _DETECT_SECONDS)).devices
