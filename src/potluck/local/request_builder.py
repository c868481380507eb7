"""Builds a valid request from the values of task options. Errors name an option as it was written:
`--max-price` on the command line, `max_price` in Python."""

import re
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

import msgspec

from potluck.local.option_values import ME, GpuChoice
from potluck.local.task_options import LISTED, OPTIONS
from potluck.model.decode_errors import plain_message, split_path
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.task import Limits, Requirements, TaskRequest
from potluck.model.task_spec import TaskSpec, check_texts

NameOf = Callable[[str], str]

# The fields of a request that have no option.
_OTHERS = {
    "spec.filename": "the script's name",
    "spec.source": "the script",
    "spec.arguments": "the script's arguments",
    "spec.command": "the command",
}
_BY_FIELD = {row.field: row for row in OPTIONS.values() if row.field}
_FORMS = {
    "image": "is not the name of an image, such as docker.io/library/busybox:1.37",
    "capability": "is not a compute capability such as 8.6",
}


def build_request(spec: TaskSpec, values: Mapping[str, Any], name_of: NameOf) -> TaskRequest:
    """The request for a spec and option values, by their names in the table.

    `owner = me` is left out, since only the server knows the wallet; see `is_for_own_nodes`.
    """
    parts: dict[str, dict[str, Any]] = {"": {}, "requirements": {}, "limits": {}}
    for name, value in values.items():
        part, _, field = OPTIONS[name].field.rpartition(".")
        if field and part in parts:
            parts[part][field] = value
    needs = parts["requirements"]
    needs |= _device_needs(values, name_of)
    needs["owners"] = tuple(wallet for wallet in values.get("owner", ()) if wallet != ME)
    request = TaskRequest(
        spec, requirements=Requirements(**needs), limits=Limits(**parts["limits"]), **parts[""]
    )
    return check_request(request, name_of)


def is_for_own_nodes(values: Mapping[str, Any]) -> bool:
    return ME in values.get("owner", ())


def _device_needs(values: Mapping[str, Any], name_of: NameOf) -> dict[str, Any]:
    """The kind, number and model of the devices: 0 GPUs means one device of any kind."""
    gpus, kind = values.get("gpu", GpuChoice()), values.get("device-kind")
    model = values.get("model")
    if gpus.count == 0:
        return {"device_kind": kind, "device_count": 1, "device_model": model}
    if kind is DeviceKind.CPU:
        raise InvalidInput(
            f"{name_of('gpu')} and {name_of('device-kind')} cpu contradict each other.",
            "Leave one of them out.",
        )
    if gpus.model and model:
        raise InvalidInput(
            f"{name_of('gpu')} {gpus.model!r} and {name_of('model')} {model!r} both name a model.",
            "Leave one of them out.",
        )
    return {
        "device_kind": DeviceKind.GPU,
        "device_count": gpus.count,
        "device_model": gpus.model or model,
    }


def check_request(request: TaskRequest, name_of: NameOf) -> TaskRequest:
    """The same request, after the checks that the server would make."""
    _check_utf8(request)
    try:
        checked = msgspec.convert(msgspec.to_builtins(request), TaskRequest)
    except msgspec.ValidationError as error:
        raise InvalidInput(_in_words(*split_path(error), name_of), LISTED) from error
    check_texts(checked.spec)
    for is_wrong, sentence, hint in _contradictions(request, name_of):
        if is_wrong:
            raise InvalidInput(sentence, hint)
    return checked


def _contradictions(request: TaskRequest, name_of: NameOf) -> Iterator[tuple[bool, str, str]]:
    """Combinations of options that are invalid, though each option alone is valid."""
    requirements, delay = request.requirements, request.delay_seconds
    count, fraction = requirements.device_count, requirements.device_milli
    yield (
        fraction is not None and count > 1,
        f"{name_of('fraction')} is a part of one device, and {name_of('gpu')} asks for {count}.",
        "Leave one of them out.",
    )
    yield (
        requirements.shares_device and fraction is None,
        f"{name_of('share')} shares the rest of a device, and without {name_of('fraction')}"
        " there is none.",
        f"Set the part that it needs with {name_of('fraction')}, such as 0.25.",
    )
    yield (
        request.allow_failures > (request.items or 0),
        f"{name_of('allow-failures')} {request.allow_failures} exceeds the number of items.",
        f"Set the number of items with {name_of('array')}.",
    )
    twice = sorted(request.secrets.keys() & request.spec.environment.keys())
    yield (
        bool(twice),
        f"{', '.join(twice)} cannot be both {name_of('env')} and {name_of('secret')}.",
        f"Leave one of them out; values of {name_of('env')} are not secret.",
    )
    yield (
        bool(request.trust or request.secrets_to_strangers) and not request.secrets,
        f"{name_of('trust')} and {name_of('secrets-to-strangers')} have no effect without secrets.",
        f"Add one with {name_of('secret')}; {name_of('owner')} selects whose nodes it runs on.",
    )
    yield (
        delay is not None and delay >= (request.start_within_seconds or inf),
        f"{name_of('delay')} is longer than {name_of('deadline')}, so it could never start.",
        "Both the deadline and the delay count from now.",
    )


def _in_words(sentence: str, path: str, name_of: NameOf) -> str:
    """The decoder's error about a field, in terms of the options."""
    match = re.match(r"[a-z_.]+", path)
    field = match[0] if match else path or "the task"
    row = _BY_FIELD.get(field)
    name = _OTHERS.get(field, field) if row is None else name_of(row.name)
    if "of length >= 1" in sentence:
        return f"{name} cannot be empty."
    length = re.search(r"`(\w+)` of length <= (\d+)", sentence)
    if length and length[1] == "str":
        return f"{name} cannot be longer than {int(length[2]):,} characters."
    if length:
        return f"{name} cannot be given more than {int(length[2]):,} times."
    bound = re.search(r"([<>]=?) (-?[\d.]+)", sentence)
    if bound:
        words = "at least" if bound[1].startswith(">") else "at most"
        number = float(bound[2]) if "." in bound[2] else int(bound[2])
        return f"{name} must be {words} {bound[2] if row is None else row.kind.show(number)}."
    if row is not None and row.name in _FORMS:
        return f"{name} {_FORMS[row.name]}."
    return f"{name} is invalid: {plain_message(sentence).replace('`', '')}."


def _check_utf8(request: TaskRequest) -> None:
    """Python decodes invalid UTF-8 on the command line as lone surrogates."""
    try:
        msgspec.json.encode(request)
    except UnicodeEncodeError as error:
        secrets = {value: f"The secret {name}" for name, value in request.secrets.items()}
        raise InvalidInput(
            f"{secrets.get(error.object, repr(error.object))} is not valid UTF-8.",
            "Write it in UTF-8, or leave it out.",
        ) from None
