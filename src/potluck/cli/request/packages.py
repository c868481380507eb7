"""The packages that a script gets: those of the options, and those of its project's folder."""

from typing import Any

from msgspec.structs import replace

from potluck.cli.request.task_kind import Spec
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.local.packages.dependency_files import (
    ProjectDependencies,
    find_dependency_file,
    read_dependency_file,
)
from potluck.local.packages.script_dependencies import add_dependencies, has_block
from potluck.model.error import InvalidInput
from potluck.model.task_spec import ScriptSpec


def add_packages(spec: Spec, values: dict[str, Any], remarks: Pane) -> Spec:
    """A folder that is sent says what its scripts need, unless the script says so itself."""
    packages, file = values.get("dependencies", ()), values.get("requirements")
    if not isinstance(spec, ScriptSpec):
        if packages or file is not None:
            raise InvalidInput(
                "Packages are installed for scripts and functions only.",
                "Leave out --with and --requirements; an image brings its own packages.",
            )
        return spec
    folder = values.get("folder")
    if file is None and folder is not None and not has_block(spec.source):
        file = find_dependency_file(folder)
        if file is not None:
            remarks.prose(
                f"potluck: the packages of {printable(str(file))} are installed;"
                " --requirements names another file.",
                Tone.WAITING,
            )
    project = ProjectDependencies() if file is None else read_dependency_file(file)
    if not packages and project == ProjectDependencies():
        return spec
    source = add_dependencies(
        spec.source, (*packages, *project.dependencies), project.requires_python
    )
    return replace(spec, source=source)
