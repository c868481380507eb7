"""The owner's file as a running provider goes by it.

A file that is wrong changes nothing: what it said last stays in force. If it was wrong from the
start there is nothing to go by, and nothing is offered until it is mended.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path

import structlog

from potluck.model.device import DeviceDescription
from potluck.model.error import BadSettings, InvalidInput
from potluck.model.ids import AccountId
from potluck.model.task_spec import ContainerSpec, kind_of
from potluck.model.terms import DeviceTerms, TaskKind, TermsChange
from potluck.provider.owner.file import change_file, change_text, mark_of, read_file
from potluck.provider.owner.file_values import NodeLimits, OwnerValues
from potluck.provider.owner.pending_writes import Unwritten
from potluck.provider.settings import ProviderSettings
from potluck.wire.provider import Grant

log = structlog.get_logger()

_NUMBER = re.compile(r"(sha256:)?[0-9a-f]{1,64}")
_KEPT = "What you have asked for meanwhile, and it does not say yet, holds all the same."


class OwnerRules:
    """Terms of each device and limits of the node, as they are now."""

    def __init__(self, path: Path, settings: ProviderSettings) -> None:
        self.path = path
        self.problem: BadSettings | None = None
        self.limits = NodeLimits()
        self.terms: Mapping[str, DeviceTerms] = {}
        self._beneath = DeviceTerms(
            price_micro_per_hour=settings.price_micro_per_hour,
            shares_accounts=settings.share_between_accounts,
        )
        self._beneath_limits = NodeLimits(
            settings.cores, settings.memory_bytes, settings.disk_bytes
        )
        self._is_unsafe = settings.unsafe_no_sandbox
        self._uuids: set[str] | None = None  # not known yet
        self._is_ever_read = False
        self._said = OwnerValues()
        self._unwritten = Unwritten(path.parent)
        self._apply()
        self.reread()
        self._mark_before = self._mark

    def know(self, devices: Iterable[DeviceDescription]) -> None:
        """From now on each of these has its terms."""
        self._uuids = {device.uuid for device in devices}
        self._apply()

    @property
    def has_terms(self) -> bool:
        """Whether the file could be read at least once."""
        return self._is_ever_read

    def reread(self) -> bool:
        """Whether that changed anything: what holds, or what is wrong."""
        before = (self.terms, self.limits, self.trouble())
        self._mark = mark_of(self.path)
        try:
            self._said = read_file(self.path)
            self._is_ever_read, self.problem = True, None
            self._write()
        except BadSettings as error:
            self.problem = error
        self._apply()
        return before != (self.terms, self.limits, self.trouble())

    def change(self, change: TermsChange) -> None:
        """Writes it into the file. What can not be written holds all the same, until it can."""
        try:
            change_text("", change)
        except InvalidInput as error:
            log.warning("a wish can not be meant", detail=error.detail)
            return
        self._unwritten.add(change)
        self.reread()
        self._unwritten.keep()

    def reread_if_changed(self) -> bool:
        """One look at the file's outside, unless that has changed; and was so at the last look,
        too: a file that is being saved is empty for a moment, or ends in the middle.
        """
        mark, before = mark_of(self.path), self._mark_before
        self._mark_before = mark
        return mark == before and mark != self._mark and self.reread()

    def overridden(self) -> list[str]:
        """Options of `potluck provide` that the file says otherwise, as they are typed."""
        said = self._said.everywhere
        has_walls = isinstance(said.sandbox, str) and said.sandbox != "none"
        options = {
            "--price": (said.price_micro_per_hour, self._beneath.price_micro_per_hour),
            "--cores": (said.cores, self._beneath_limits.cores),
            "--ram": (said.memory_bytes, self._beneath_limits.memory_bytes),
            "--disk": (said.disk_bytes, self._beneath_limits.disk_bytes),
            "--share-between-accounts": (said.shares_accounts, self._beneath.shares_accounts),
            "--unsafe-no-sandbox": (not has_walls, self._is_unsafe),
        }
        return [
            option
            for option, (says, given) in options.items()
            if given and isinstance(says, int) and says != given
        ]

    def trouble(self) -> tuple[str, str]:
        """What is wrong with the file, in a sentence, and what to do; both empty if nothing is."""
        if self.problem is not None:
            kept = self._unwritten.changes
            until = _KEPT if kept else "Nothing changes until that is mended."
            return f"{self.problem.detail} {until}", self.problem.hint
        known = self._uuids or set()
        strangers = sorted(self._said.devices.keys() - known) if known else []
        if strangers:
            named = ", ".join(strangers)
            hint = f"Write the whole uuid. There are: {', '.join(sorted(known))}."
            detail = f"{self.path} speaks of devices that are not here: {named}."
            return f"{detail} What it says of them holds for nothing, all the rest holds.", hint
        return "", ""

    def may_run(self, owner_id: AccountId, grant: Grant) -> str | None:
        """A sentence where an owner does not take it: what the server knew may be old.

        Lists are about others: his own tasks he always takes.
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
        return None

    def _declined_image(self, image: str, is_own: bool) -> str | None:
        """What is in an image that lies here is its owner's: he says which others may have."""
        if not self.limits.has_containers:
            return "The node's owner takes no container images."
        # Engines also take the beginning of an image's number for its name: that is any image's.
        patterns = (
            {"*"} & set(self.limits.images) if _NUMBER.fullmatch(image) else self.limits.images
        )
        if is_own or any(fnmatchcase(image, pattern) for pattern in patterns):
            return None
        return f"The node's owner has not named {image} among the images that others may have run."

    def _write(self) -> None:
        for change in self._unwritten.changes:
            change_file(self.path, change)
            self._unwritten.written(change)
            self._mark, self._said = mark_of(self.path), read_file(self.path)

    def _apply(self) -> None:
        said = reduce(OwnerValues.changed, self._unwritten.changes, self._said)
        uuids = self._uuids or ()
        self.terms = {uuid: said.terms(uuid, self._beneath) for uuid in uuids}
        self.limits = said.limits(self._beneath_limits)
