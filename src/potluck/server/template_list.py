"""The templates of this package, ready to be submitted from a browser."""

from functools import cache
from pathlib import Path

from potluck.local.request_builder import build_request
from potluck.local.task_options import OPTIONS
from potluck.local.template import FILE, Template, built_in_templates
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.dashboard.templates import (
    TemplateFile,
    TemplateList,
    TemplateParameter,
    TemplateView,
)


@cache
def list_templates() -> TemplateList:
    """Reads files, once. Those that are no scripts are left out: they need more than a form."""
    templates = [template for template in built_in_templates() if template.about.script is not None]
    return TemplateList([_view(template) for template in templates])


def _view(template: Template) -> TemplateView:
    about = template.about
    return TemplateView(
        template.name,
        about.summary,
        [
            TemplateParameter(name, p.help, p.default, p.minimum, p.maximum, p.choices)
            for name, p in about.parameters.items()
        ],
        _request(template),
        [TemplateFile(path.name, path.read_text("utf-8")) for path in _other_files(template)],
    )


def _request(template: Template) -> TaskRequest:
    script = template.about.script
    assert script is not None
    arguments = tuple(
        f"--{name}={parameter.default}"
        for name, parameter in template.about.parameters.items()
        if parameter.default is not None
    )
    source = (template.directory / script).read_text("utf-8")
    values = {
        name: OPTIONS[name].kind.parse(spelled, name)
        for name, spelled in template.about.options.items()
    }
    return build_request(
        ScriptSpec(script, source, arguments), {"name": template.name, **values}, lambda name: name
    )


def _other_files(template: Template) -> list[Path]:
    others = {FILE, template.about.script}
    paths = [path for path in template.directory.iterdir() if path.is_file()]
    return sorted(path for path in paths if path.name not in others)
