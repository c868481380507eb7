"""The owner's file as a running provider applies it.

An invalid file changes nothing: the last valid content stays in force. If the file was invalid from
the start, nothing is offered until it is fixed.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path

import structlog
from msgspec.structs import replace

from potluck.local.network.presets import load_presets
from potluck.model.device import DeviceDescription
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.ids import AccountId
from potluck.model.network.patterns import ANY_HOST, expand_entries, uncovered
from potluck.model.task_spec import ContainerSpec, kind_of
from potluck.model.terms import DeviceTerms, TaskKind, TermsChange
from potluck.model.units import show_bytes
from potluck.provider.owner.file import (
    NodeLimits,
    OwnerValues,
    change_file,
    change_text,
    mark_of,
    read_file,
)
from potluck.provider.owner.pending_writes import PendingWrites
from potluck.provider.settings import ProviderSettings
from potluck.wire.provider import Grant

log = structlog.get_logger()

_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{1,64}")
_LEAST_NETWORK_BYTES = 1_000  # that a task can ask for
_KEPT = "Changes that you made meanwhile are in effect, but not in the file yet."


class OwnerRules:
    """The current terms of each device and limits of the node."""

    def __init__(self, path: Path, settings: ProviderSettings) -> None:
        self.path = path
        self.problem: BadSettings | None = None
        self.limits = NodeLimits()
        self.terms: Mapping[str, DeviceTerms] = {}
        self._default_terms = DeviceTerms(
            price_micro_per_hour=settings.price_micro_per_hour,
            shares_accounts=settings.share_between_accounts,
            own_network=(ANY_HOST,),
        )
        self._presets = load_presets(settings.network_presets)
        # The bytes of this month that tasks have moved, or running ones may still move.
        self.network_used_bytes: Callable[[], int] = lambda: 0
        self._default_limits = NodeLimits(
            settings.cores, settings.memory_bytes, settings.disk_bytes
        )
        self._is_unsafe = settings.unsafe_no_sandbox
        self._uuids: set[str] | None = None  # not known yet
        self._is_ever_read = False
        self._values = OwnerValues()
        self._unwritten = PendingWrites(path.parent)
        self._apply()
        self.reread()
        self._mark_before = self._mark

    def know(self, devices: Iterable[DeviceDescription]) -> None:
        """Sets the devices that terms are kept for."""
        self._uuids = {device.uuid for device in devices}
        self._apply()

    @property
    def has_terms(self) -> bool:
        """Whether the file was valid at least once."""
        return self._is_ever_read

    def reread(self) -> bool:
        """Returns whether the terms, the limits or the problem changed."""
        before = (self.terms, self.limits, self.trouble())
        self._mark = mark_of(self.path)
        try:
            values = read_file(self.path)
            for table in (values.everywhere, *values.devices.values()):
                self._check_presets(table)
            self._values = values
            self._is_ever_read, self.problem = True, None
            self._write()
        except BadSettings as error:
            self.problem = error
        self._apply()
        return before != (self.terms, self.limits, self.trouble())

    def change(self, change: TermsChange) -> None:
        """Writes the change into the file. It is in effect even while it cannot be written."""
        try:
            change_text("", change)
            self._check_presets(change)
        except (InvalidInput, BadSettings) as error:
            log.warning("invalid owner request ignored", detail=error.detail)
            return
        self._unwritten.add(change)
        self.reread()
        self._unwritten.keep()

    def _check_presets(self, change: TermsChange) -> None:
        """Raises BadSettings for a preset that this machine does not know."""
        for entries in (change.network, change.own_network):
            try:
                expand_entries(entries or (), self._presets)
            except InvalidInput as error:
                raise BadSettings(f"In {self.path}: {error.detail}", error.hint) from error

    def reread_if_changed(self) -> bool:
        """Rereads the file once its mark has changed and is the same in two calls: a file that is
        being saved is empty or incomplete for a moment.
        """
        mark, before = mark_of(self.path), self._mark_before
        self._mark_before = mark
        return mark == before and mark != self._mark and self.reread()

    def overridden(self) -> list[str]:
        """Options of `potluck provide` that the file contradicts, as they are typed."""
        values, terms, limits = self._values.everywhere, self._default_terms, self._default_limits
        has_sandbox = isinstance(values.sandbox, str) and values.sandbox != "none"
        options = {
            "--price": (values.price_micro_per_hour, terms.price_micro_per_hour),
            "--cores": (values.cores, limits.cores),
            "--ram": (values.memory_bytes, limits.memory_bytes),
            "--disk": (values.disk_bytes, limits.disk_bytes),
            "--share-between-accounts": (values.shares_accounts, terms.shares_accounts),
            "--unsafe-no-sandbox": (not has_sandbox, self._is_unsafe),
        }
        return [
            option
            for option, (in_file, start_value) in options.items()
            if start_value and isinstance(in_file, int) and in_file != start_value
        ]

    def trouble(self) -> tuple[str, str]:
        """The problem with the file and a hint; both empty if there is none."""
        if self.problem is not None:
            effect = _KEPT if self._unwritten.changes else "Nothing changes until that is fixed."
            return f"{self.problem.detail} {effect}", self.problem.hint
        uuids = self._uuids or set()
        if uuids and (unknown := sorted(self._values.devices.keys() - uuids)):
            detail = f"{self.path} names devices that this machine does not have:"
            hint = f"Write the complete uuid, one of: {', '.join(sorted(uuids))}."
            return f"{detail} {', '.join(unknown)}. Their settings are ignored.", hint
        return "", ""

    def may_run(self, owner_id: AccountId, grant: Grant) -> str | None:
        """Why the owner does not take the grant, or None: the server's terms may be outdated.

        The allow and deny lists do not apply to the owner's own tasks.
        """
        kind, wallet = TaskKind(kind_of(grant.spec)), grant.wallet.lower()
        if isinstance(grant.spec, ContainerSpec):
            is_own = grant.account_id == owner_id
            if (why_not := self._declined_image(grant.spec.image, is_own)) is not None:
                return why_not
        for device in grant.devices:
            terms = self.terms.get(device.uuid)
            if terms is None:
                continue
            if terms.kinds and kind not in terms.kinds:
                return f"The node's owner takes no tasks of kind {kind} on this device."
            is_allowed = not terms.allow or wallet in map(str.lower, terms.allow)
            is_denied = not is_allowed or wallet in map(str.lower, terms.deny)
            if is_denied and grant.account_id != owner_id:
                return "The node's owner does not take this account's tasks on this device."
            is_own = grant.account_id == owner_id
            if (why_not := self._declined_network(terms, grant, is_own)) is not None:
                return why_not
        return None

    def network_left_bytes(self) -> int | None:
        """Of this month; None: there is no limit."""
        most = self.limits.network_month_bytes
        return None if most is None else max(0, most - self.network_used_bytes())

    def offered_terms(self, uuid: str) -> DeviceTerms:
        """As the pool plans with them: with what the month has left, in coarse steps, so that they
        change seldom."""
        terms, left = self.terms[uuid], self.network_left_bytes()
        if left is None:
            return terms
        step = 1 << max(0, left.bit_length() - 1)
        if step < _LEAST_NETWORK_BYTES:
            return replace(terms, network=(), own_network=())
        return replace(terms, network_task_bytes=min(terms.network_task_bytes or step, step))

    def all_offered(self) -> dict[str, DeviceTerms]:
        return {uuid: self.offered_terms(uuid) for uuid in self.terms}

    def _declined_image(self, image: str, is_own: bool) -> str | None:
        """Local images may hold private data: the owner names those that others may run."""
        if not self.limits.has_containers:
            return "The node's owner takes no container images."
        # Engines also accept the beginning of an image's id, which can be that of any image.
        patterns = (
            {"*"} & set(self.limits.images) if _IMAGE_ID.fullmatch(image) else self.limits.images
        )
        if is_own or any(fnmatchcase(image, pattern) for pattern in patterns):
            return None
        return f"The node's owner does not let other accounts run the image {image}."

    def _write(self) -> None:
        for change in self._unwritten.changes:
            change_file(self.path, change)
            self._unwritten.written(change)
            self._mark, self._values = mark_of(self.path), read_file(self.path)

    def _apply(self) -> None:
        values = reduce(OwnerValues.changed, self._unwritten.changes, self._values)
        uuids = self._uuids or ()
        self.terms = {
            uuid: self._expanded(values.terms(uuid, self._default_terms)) for uuid in uuids
        }
        self.limits = values.limits(self._default_limits)

    def _expanded(self, terms: DeviceTerms) -> DeviceTerms:
        """With hosts instead of presets, which servers may know differently."""
        return replace(
            terms,
            network=expand_entries(terms.network, self._presets),
            own_network=expand_entries(terms.own_network, self._presets),
        )

    def _declined_network(self, terms: DeviceTerms, grant: Grant, is_own: bool) -> str | None:
        requirements = grant.requirements
        if not requirements.network:
            return None
        allowed = terms.own_network if is_own else terms.network
        if missing := uncovered(requirements.network, allowed):
            return f"The node's owner does not allow the network {', '.join(missing)}."
        left = self.network_left_bytes()
        limits = [size for size in (terms.network_task_bytes, left) if size is not None]
        if limits and min(limits) < requirements.network_bytes:
            return f"The node's owner allows a task {show_bytes(min(limits))} of network now."
        return None
