"""An attempt that is ready to run, and the plan of its command."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from potluck.provider.attempt.mask import LogWriter
from potluck.provider.dependencies.outcome import Environment
from potluck.provider.event import CodeStarted, Event
from potluck.provider.expose.exposed import Exposed
from potluck.provider.files.blob_transfer import AttemptTransfers
from potluck.provider.sandbox.driver import Confinement, StopRequest
from potluck.wire.provider import Grant

if TYPE_CHECKING:  # work_directory needs PreparedAttempt
    from potluck.provider.files.work_directory import InputFiles

Tell = Callable[[Event], None]


class PreparedAttempt(Struct, frozen=True):
    """One attempt with its dependencies, devices and input files."""

    grant: Grant
    environment: Environment
    exposed: Exposed
    inputs: "InputFiles"
    log: LogWriter
    tell: Tell
    recall: StopRequest
    freight: AttemptTransfers

    async def started(self) -> None:
        """Reports that the consumer's code runs."""
        self.tell(CodeStarted(self.grant.attempt_id))


class RunPlan(Struct, frozen=True):
    """A confined command, and files to write into its work directory before it starts."""

    confinement: Confinement
    puts: dict[str, bytes] = {}
