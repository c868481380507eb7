"""A Python file, with the dependencies that it names."""

from potluck.model.blob import is_path
from potluck.model.error import InvalidInput
from potluck.model.script import ScriptMetadata, read_metadata
from potluck.model.task import EndReason
from potluck.model.task_spec import ScriptSpec
from potluck.provider.dependencies.outcome import PrepareFailed
from potluck.provider.kinds.confine import confine
from potluck.provider.kinds.types import Job, Plan


def needs_of(spec: ScriptSpec) -> ScriptMetadata:
    try:
        return read_metadata(spec.source)
    except InvalidInput as error:
        raise PrepareFailed(EndReason.PREPARE_FAILED, f"{error.detail} {error.hint}") from error


def plan_script(job: Job, spec: ScriptSpec) -> Plan:
    """Put there after the folder: most scripts also lie in the folder that comes with them."""
    filename = _place_of(spec)
    # A name that begins with a dash would be read as an option of Python.
    script = f"./{filename}" if filename.startswith("-") else filename
    command = (job.environment.interpreter, "-u", script, *spec.arguments)
    return Plan(confine(job, command), {filename: spec.source.encode()})


def _place_of(spec: ScriptSpec) -> str:
    """Within its folder, if it has one; else the last part of a path as any system writes it."""
    if spec.folder is not None and is_path(spec.filename):
        return spec.filename
    name = spec.filename.replace("\\", "/").rpartition("/")[2]
    return name if is_path(name) else "script.py"
