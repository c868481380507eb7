"""Events that the provider announces to the person or program that started it."""

from collections.abc import Callable

from msgspec import Struct

from potluck.model.device import Availability, DeviceDescription, Standing
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.wire.provider import Finished, Grant


class RegistrationDone(Struct, frozen=True, tag_field="event", tag="registered"):
    """The node is registered and can get work."""

    node_id: NodeId
    url: str
    name: str
    devices: tuple[DeviceDescription, ...]
    sandbox: SandboxReport
    own_tasks_only: bool
    containers: SandboxReport | None = None  # of the container engine, if it is not `sandbox`


class AttemptPreparing(Struct, frozen=True, tag_field="event", tag="attempt_preparing"):
    """Dependencies are being installed."""

    attempt_id: AttemptId
    task_id: TaskId


class AttemptStarted(Struct, frozen=True, tag_field="event", tag="attempt_started"):
    """A task's code runs here."""

    attempt_id: AttemptId
    task_id: TaskId


class AttemptFinished(Struct, frozen=True, tag_field="event", tag="attempt_finished"):
    """The attempt has ended; the server gets a report."""

    attempt_id: AttemptId
    task_id: TaskId
    reason: EndReason
    exit_code: int | None
    detail: str
    run_seconds: float


class AttemptStopped(Struct, frozen=True, tag_field="event", tag="attempt_stopped"):
    """The server cancelled it, or the provider is shutting down."""

    attempt_id: AttemptId
    task_id: TaskId


class DeviceUnbound(Struct, frozen=True, tag_field="event", tag="device_unbound"):
    """A device of this machine gets no work; `standing` is the reason."""

    uuid: str
    model: str
    standing: Standing


class DeviceRegained(Struct, frozen=True, tag_field="event", tag="device_bound"):
    """A device that was bound to another wallet or node is bound to this one, and gets work."""

    uuid: str
    model: str


class AvailabilityChanged(Struct, frozen=True, tag_field="event", tag="availability_changed"):
    """A device starts or stops taking work."""

    uuid: str
    model: str
    availability: Availability
    why: str


class TermsRead(Struct, frozen=True, tag_field="event", tag="terms_read"):
    """The owner's file has changed and is in effect."""


class TermsWrong(Struct, frozen=True, tag_field="event", tag="terms_wrong"):
    """The owner's file is invalid; its last valid content stays in force."""

    detail: str
    hint: str


class OptionsOverridden(Struct, frozen=True, tag_field="event", tag="options_overridden"):
    """The owner's file overrides these options."""

    options: tuple[str, ...]
    terms_file: str


class OfferRefused(Struct, frozen=True, tag_field="event", tag="offer_refused"):
    """The server rejects the terms in the owner's file, and keeps the previous ones."""

    detail: str
    hint: str


class PowerRefused(Struct, frozen=True, tag_field="event", tag="power_refused"):
    """A device's power limit cannot be set."""

    uuid: str
    detail: str


class Draining(Struct, frozen=True, tag_field="event", tag="draining"):
    """The provider takes no new work, and stops when the running tasks have ended."""

    attempts: int
    is_for_good: bool


class VersionSkew(Struct, frozen=True, tag_field="event", tag="version_skew"):
    """The server has another version; tasks continue."""

    ours: str
    theirs: str
    detail: str
    hint: str


class ServerSilent(Struct, frozen=True, tag_field="event", tag="server_silent"):
    """The server does not answer, or rejects our calls; tasks continue and calls are retried."""

    code: str
    detail: str
    hint: str


class ServerAnswers(Struct, frozen=True, tag_field="event", tag="server_answers"):
    """The server answers again."""

    silent_seconds: float


class Stopped(Struct, frozen=True, tag_field="event", tag="stopped"):
    """The provider stopped cleanly."""


Announcement = (
    RegistrationDone
    | AttemptPreparing
    | AttemptStarted
    | AttemptFinished
    | AttemptStopped
    | DeviceUnbound
    | DeviceRegained
    | AvailabilityChanged
    | TermsRead
    | TermsWrong
    | OptionsOverridden
    | OfferRefused
    | PowerRefused
    | Draining
    | VersionSkew
    | ServerSilent
    | ServerAnswers
    | Stopped
)
Announce = Callable[[Announcement], None]


def end_of_attempt(grant: Grant, finished: Finished | None) -> AttemptFinished | AttemptStopped:
    """Without an outcome, if this node ended it itself."""
    if finished is None:
        return AttemptStopped(grant.attempt_id, grant.task_id)
    return AttemptFinished(
        grant.attempt_id,
        grant.task_id,
        finished.reason,
        finished.exit_code,
        finished.detail,
        finished.usage.run_seconds,
    )
