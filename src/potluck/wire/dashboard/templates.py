"""Ready tasks, as the server's own package has them."""

from msgspec import Struct

from potluck.model.task import TaskRequest


class TemplateParameter(Struct, frozen=True):
    """Reaches the script as `--NAME=VALUE`."""

    name: str
    help: str
    default: int | float | str | None = None  # None: must be given
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[str, ...] = ()


class TemplateFile(Struct, frozen=True):
    """Upload it, and name it in the `files` of the request."""

    path: str
    text: str


class TemplateView(Struct, frozen=True):
    """`request` has the arguments of the defaults; replace them with your own."""

    name: str
    summary: str
    parameters: list[TemplateParameter]
    request: TaskRequest
    files: list[TemplateFile]


class TemplateList(Struct, frozen=True):
    templates: list[TemplateView]


class OriginalRequest(Struct, frozen=True):
    """What was submitted, without secrets and dependencies on other tasks."""

    request: TaskRequest
    secret_count: int
