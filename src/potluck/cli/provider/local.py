"""The provider of this machine: asked through its control socket, told through the owner's file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from potluck.cli.provider.effective_terms import EffectiveTerm, held_here
from potluck.cli.provider.machine import MachineView, told_by_itself
from potluck.cli.provider.resolve_device import DeviceChoice, all_reclaimable
from potluck.cli.provider.target import Effect, OnWay, ignore
from potluck.local.data_directory import data_directory, named_directory
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
from potluck.provider.owner.file_values import OwnerValues

_DETECT_SECONDS = 20.0


def provider_directory(data_dir: str | None) -> Path:
    """Where `potluck provide` with the same option and variables keeps everything."""
    named = data_dir or os.environ.get("POTLUCK_PROVIDER_DATA_DIRECTORY")
    return named_directory(named) if named else data_directory() / "provider"


class Here:
    """Works also where no provider runs: then the file is all there is."""

    def __init__(self, directory: Path):
        self.directory = directory

    def status(self) -> ProviderStatus:
        answer = self._ask(ShowStatus())
        assert isinstance(answer, ProviderStatus)
        return answer

    def running(self) -> ProviderStatus | None:
        try:
            return self.status()
        except NotRunning:
            return None

    def shown(self) -> tuple[MachineView, ProviderStatus]:
        status = self.status()
        return told_by_itself(status), status

    def choices(self) -> Sequence[DeviceChoice]:
        status = self.running()
        if status is not None:
            return [device.choice for device in told_by_itself(status).devices]
        return [
            DeviceChoice(number, device.uuid, device.model)
            for number, device in enumerate(_detected(self.directory), 1)
        ]

    def held(self, device: str | None) -> list[EffectiveTerm]:
        return held_here(self._said(), self.running(), device)

    def exceptions(self) -> Mapping[str, TermsChange]:
        return self._said().devices

    def change(self, change: TermsChange) -> Effect:
        from potluck.provider.owner.file import change_file, terms_file
        from potluck.provider.owner.pending_writes import say_after

        change_file(terms_file(self.directory), change)
        effect = self._tell(Reread())
        if effect is Effect.NEXT_START:
            say_after(self.directory, change)
        if change.is_paused is False and (running := self.running()) and running.is_draining:
            return Effect.AFTER_DRAIN
        return effect

    def reclaim(self, devices: tuple[str, ...]) -> Effect:
        """First of all what runs is stopped; the provider writes the file itself, if it can."""
        effect = self._tell(Reclaim(devices))
        if effect is Effect.NEXT_START:
            return self.change(TermsChange(devices=devices, is_paused=True))
        return effect

    def declares_reclaim(self, devices: tuple[str, ...]) -> bool:
        status = self.running()
        return status is None or all_reclaimable(
            (each.description for each in status.devices), devices
        )

    def drain(self, on_way: OnWay) -> Effect:
        self._ask(Drain(), on_way)
        return Effect.NOW

    def leave(self, is_now: bool, on_way: OnWay) -> None:
        """Ends when the provider has: it has told the server, and its key is gone."""
        self._ask(Leave(is_now), on_way)

    def _said(self) -> OwnerValues:
        from potluck.provider.owner.file import read_file, terms_file

        return read_file(terms_file(self.directory))

    def _tell(self, request: Request) -> Effect:
        try:
            answer = self._ask(request)
        except NotRunning:
            return Effect.NEXT_START
        assert isinstance(answer, InEffect)
        return Effect.NOW if answer.is_known_to_server else Effect.SERVER_SILENT

    def _ask(self, request: Request, on_way: OnWay = ignore) -> Answer:
        """The last thing that it says; on the way it tells how many attempts are left."""
        from potluck.provider.control.client import ask

        last: Answer | None = None
        for last in ask(self.directory, request):
            if isinstance(last, CommandRefused):
                raise Conflict(last.detail, last.hint)
            if isinstance(last, ProviderStatus):
                on_way(len(last.attempts))
        assert last is not None
        return last


def _detected(directory: Path) -> Sequence[DeviceDescription]:
    import asyncio

    from potluck.provider.detect.devices import detect_devices

    return asyncio.run(detect_devices(directory, _DETECT_SECONDS)).devices
