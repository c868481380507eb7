"""What a kind of task is given to run, and what it gives back."""

from collections.abc import Callable

from msgspec import Struct

from potluck.provider.attempt.mask import LogWriter
from potluck.provider.dependencies.outcome import Environment
from potluck.provider.event import CodeStarted, Event
from potluck.provider.expose.exposed import Exposed
from potluck.provider.files.blob_transfer import Freight
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.sandbox.driver import Confinement, StopRequest
from potluck.wire.provider import Grant

Tell = Callable[[Event], None]


class PreparedAttempt(Struct, frozen=True):
    """One attempt, with all that was brought and prepared for it."""

    grant: Grant
    environment: Environment
    exposed: Exposed
    inputs: InputFiles
    log: LogWriter
    tell: Tell
    recall: StopRequest
    freight: Freight

    async def started(self) -> None:
        """Its code runs from now on."""
        self.tell(CodeStarted(self.grant.attempt_id))


class RunPlan(Struct, frozen=True):
    """A command behind its walls, and files that are put where it works before it begins."""

    confinement: Confinement
    puts: dict[str, bytes] = {}
