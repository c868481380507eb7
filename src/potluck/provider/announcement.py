"""What the provider tells the person (or program) that started it, as it happens."""

from collections.abc import Callable

from msgspec import Struct

from potluck.model.device import Availability, DeviceDescription, Standing
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.node import SandboxReport
from potluck.model.task import EndReason


class RegistrationDone(Struct, frozen=True, tag_field="event", tag="registered"):
    """The server knows this node, and work can come."""

    node_id: NodeId
    url: str
    name: str
    devices: tuple[DeviceDescription, ...]
    sandbox: SandboxReport
    own_tasks_only: bool
    containers: SandboxReport | None = None  # where images are run, if not in `sandbox`


class AttemptPreparing(Struct, frozen=True, tag_field="event", tag="attempt_preparing"):
    """Dependencies are being installed."""

    attempt_id: AttemptId
    task_id: TaskId


class AttemptStarted(Struct, frozen=True, tag_field="event", tag="attempt_started"):
    """A task's code runs here."""

    attempt_id: AttemptId
    task_id: TaskId


class AttemptFinished(Struct, frozen=True, tag_field="event", tag="attempt_finished"):
    """It is over; the server will be told."""

    attempt_id: AttemptId
    task_id: TaskId
    reason: EndReason
    exit_code: int | None
    detail: str
    run_seconds: float


class AttemptStopped(Struct, frozen=True, tag_field="event", tag="attempt_stopped"):
    """The server called it off, or the provider is shutting down."""

    attempt_id: AttemptId
    task_id: TaskId


class DeviceUnbound(Struct, frozen=True, tag_field="event", tag="device_unbound"):
    """A device of this machine gets no work, and why."""

    uuid: str
    model: str
    standing: Standing


class DeviceRegained(Struct, frozen=True, tag_field="event", tag="device_bound"):
    """A device that was another wallet's, or another node's, is this one's now, and gets work."""

    uuid: str
    model: str


class AvailabilityChanged(Struct, frozen=True, tag_field="event", tag="availability_changed"):
    """A device takes work now, or does not, and why."""

    uuid: str
    model: str
    availability: Availability
    why: str


class TermsRead(Struct, frozen=True, tag_field="event", tag="terms_read"):
    """The owner's file has changed, and holds from now on."""


class TermsWrong(Struct, frozen=True, tag_field="event", tag="terms_wrong"):
    """The owner's file can not be meant so; what it said before stays in force."""

    detail: str
    hint: str


class OptionsOverridden(Struct, frozen=True, tag_field="event", tag="options_overridden"):
    """The owner's file says otherwise than these options, and goes before them."""

    options: tuple[str, ...]
    terms_file: str


class OfferRefused(Struct, frozen=True, tag_field="event", tag="offer_refused"):
    """The server does not take what the owner's file says; it goes by what it knew before."""

    detail: str
    hint: str


class PowerRefused(Struct, frozen=True, tag_field="event", tag="power_refused"):
    """A device can not be told how much power to draw, and why."""

    uuid: str
    detail: str


class Draining(Struct, frozen=True, tag_field="event", tag="draining"):
    """Nothing new is taken; when what runs has ended, the provider ends."""

    attempts: int
    is_for_good: bool


class VersionSkew(Struct, frozen=True, tag_field="event", tag="version_skew"):
    """The server is of another version; work goes on, as far as both know it."""

    ours: str
    theirs: str
    detail: str
    hint: str


class ServerSilent(Struct, frozen=True, tag_field="event", tag="server_silent"):
    """The server does not answer, or refuses us; work goes on and we keep trying."""

    code: str
    detail: str
    hint: str


class ServerAnswers(Struct, frozen=True, tag_field="event", tag="server_answers"):
    """The server answers again."""

    silent_seconds: float


class Stopped(Struct, frozen=True, tag_field="event", tag="stopped"):
    """The provider ended in good order."""


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
