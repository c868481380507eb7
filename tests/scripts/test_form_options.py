"""The dashboard's form offers every option of a task that a browser can give."""

import json

from potluck.local.task_options import OPTIONS, OptionSource
from scripts.form_options import ELSEWHERE, form_options, is_on_form


def test_every_typed_option_of_the_request_is_on_the_form_or_elsewhere() -> None:
    on_form = {field["name"] for field in json.loads(form_options())}
    typed = {row.name for row in OPTIONS.values() if OptionSource.COMMAND in row.sources}
    of_request = {name for name in typed if OPTIONS[name].field}
    assert on_form | set(ELSEWHERE) == of_request and not on_form & set(ELSEWHERE)
    assert not any(is_on_form(OPTIONS[name]) for name in ("server", "notify", "stdin", "template"))


def test_fields_are_named_and_explained_by_the_table() -> None:
    fields = {field["name"]: field for field in json.loads(form_options())}
    assert fields["max-price"]["title"] == "Max price"
    assert fields["vram"]["title"] == "VRAM"
    assert (fields["attempts"]["least"], fields["attempts"]["most"]) == (1, 100)
    assert fields["time"]["default"] == OPTIONS["time"].default
    assert not any(
        "--" in field["help"] or "repeatable" in field["help"] for field in fields.values()
    )
    assert {name for name, field in fields.items() if field["is_common"]} >= {"gpu", "vram", "time"}
